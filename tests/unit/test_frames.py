"""Metrics as a data frame, and the message if pandas is missing."""

import sys

import pytest

from registry.errors import UsageError
from shuffleboard import metrics


def test_computed_metrics_become_a_frame_with_nan_where_undefined() -> None:
    computed = metrics.compute([[1, 1, 0]], [1], orders=[[[0, 1, 2], [1, 2, 0], [2, 0, 1]]])
    frame = computed.frame()
    assert list(frame.index) == list(metrics.names())
    assert frame.loc["accuracy", "value"] == computed["accuracy"] == 1.0
    undefined = [name for name, value in computed.items() if value is None]
    assert frame.index[frame["value"].isna()].tolist() == undefined != []


def test_metrics_without_pandas_are_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = metrics.compute([[1]], [1])
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert computed["accuracy"] == 1.0
    with pytest.raises(UsageError, match=r"the package pandas is not installed here, and this needs it; .* install "):
        computed.frame()
