"""Faults planted in logs of six formats are named, and clean logs have no errors."""

import random

import pytest

from registry.exchange.audit.report import Report, audit
from tests.audit.logs import FAULTS, WRITERS, clean


def names(report: Report, severity: str | None = None) -> set[str]:
    return {finding.kind.name for finding in report.findings if severity in (None, finding.severity)}


INSTEAD = {
    # Predictions of OpenCompass are numbered, and have no ids.
    ("opencompass", "answered-twice"): "duplicate-questions",
    ("opencompass", "answered-twice-differently"): "duplicate-questions",
    ("opencompass", "id-used-twice"): None,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("format_", WRITERS)
def test_a_planted_fault_is_named(tmp_path, format_, fault):
    log = FAULTS[fault](clean(1), random.Random(2))
    report = audit([WRITERS[format_](log, tmp_path)])
    assert {source.gathered.source.format for source in report.logs} == {format_}
    assert INSTEAD.get((format_, fault), fault) in {*names(report), None}


@pytest.mark.parametrize("format_", WRITERS)
def test_a_clean_log_has_no_errors(tmp_path, format_):
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = audit([WRITERS[format_](clean(seed, ("mmlu", "csqa")[seed % 2]), folder)])
        assert names(report, "error") == set(), report.text()
        assert names(report, "warning") <= {"answers-uneven", "keys-uneven", "undeclared-subset"}
