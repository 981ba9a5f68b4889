"""A registry made before the schema was squashed: imported from its archives, it states what it stated then.

`make_reference.py` says what it holds and how it was made.
"""

import gzip
import json
import math
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Engine

from registry.db import get_engine
from registry.metrics import METRICS
from tests.migration.make_reference import ARCHIVES, BOARD_FILE, STATED, SUITE_FILE
from tests.migration.reference import stated, stated_of_evaluations
from tests.proof.commands import run

TOLERANCE = 1e-9
"""Engines sum in different orders."""


@dataclass(frozen=True)
class Compared:
    engine: Engine
    before: dict[str, Any]
    now: dict[str, Any]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The archives, in the order in which they were made."""
    folder = tmp_path_factory.mktemp("archives")
    with tarfile.open(ARCHIVES) as packed:
        packed.extractall(folder)
    return sorted(folder.iterdir())


def imported(url: str, folders: Iterable[Path]) -> Engine:
    """A registry that holds the archives.

    On SQLite: that archives give the same seals and metrics on either engine is in tests/proof/test_folders.py.
    """
    engine = get_engine(url)
    for folder in folders:
        outcome = run(engine, "evaluations", "import", folder)
        assert outcome.code == 0, f"{folder.name}: {outcome.stderr}"
    return engine


def stated_then() -> Any:
    """What was stated of all of them."""
    return json.loads(gzip.decompress(STATED.read_bytes()))


@pytest.fixture(scope="module")
def compared(lasting_sqlite: Callable[[], str], exported: list[Path]) -> Compared:
    """What was stated then, and what is stated now."""
    url = lasting_sqlite()
    engine = imported(url, exported)
    for command, path in (("suites", SUITE_FILE), ("boards", BOARD_FILE)):
        outcome = run(engine, command, "import", path)
        assert outcome.code == 0, outcome.stderr
    return Compared(engine, stated_then(), stated(url))


TOLD_APART: Final = frozenset(("tier", "all_tier", "rank_low", "rank_high", "all_rank_low", "all_rank_high"))
"""What is said of pairs of models."""
REDEFINED = frozenset(name for name, metric in METRICS.items() if metric.definition_version > 1)
"""Metrics that the first definition gave to questions asked in one prompt alone, and that the second leaves undefined."""


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Where `now` lacks something that was stated, or states something else; it may state more."""
    if isinstance(before, dict) and isinstance(now, dict):
        missing = [f"{place}/{key}: missing" for key in before.keys() - now.keys()]
        shared = sorted(before.keys() & now.keys())
        return missing + [found for key in shared for found in differences(before[key], now[key], f"{place}/{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [found for number, pair in pairs for found in differences(*pair, f"{place}/{number}")]
    name = place.rpartition("/")[2]
    if now is None and name in REDEFINED:
        return []
    if name in TOLD_APART:  # by another rule: registry/statistics/paired.py
        return []
    if name == "definition_version" and (before, now) == (1, 2):
        return []
    if name == "confidence":  # once a text, as snapshots hold it
        before = float(before)
    if isinstance(before, float) and isinstance(now, int | float):
        same = math.isclose(before, now, rel_tol=0, abs_tol=TOLERANCE)
    else:
        same = before == now
    return [] if same else [f"{place}: {before!r} is now {now!r}"]


def test_every_seventh_evaluation_has_its_seal_and_its_metrics(
    lasting_sqlite: Callable[[], str], exported: list[Path]
) -> None:
    engine = imported(lasting_sqlite(), exported[::7])
    before, now = stated_then()["evaluations"], stated_of_evaluations(engine)
    assert len(now) == 4
    assert differences({seal: before[seal] for seal in now}, now) == []
    assert run(engine, "verify", "--all").code == 0


@pytest.mark.long
def test_every_evaluation_has_its_seal(compared: Compared) -> None:
    assert compared.now["evaluations"].keys() == compared.before["evaluations"].keys()
    assert len(compared.before["evaluations"]) == 28
    outcome = run(compared.engine, "verify", "--all")
    assert outcome.code == 0, outcome.stdout
    outcome = run(compared.engine, "chain", "verify")
    assert outcome.code == 0, outcome.stdout


@pytest.mark.long
def test_every_metric_is_the_same_over_all_questions_and_for_each(compared: Compared) -> None:
    assert differences(compared.before["evaluations"], compared.now["evaluations"]) == []


@pytest.mark.long
def test_the_leaderboard_has_the_same_rows(compared: Compared) -> None:
    def by_seal(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {row["seal"]: row for row in rows}

    before, now = by_seal(compared.before["leaderboard"]), by_seal(compared.now["leaderboard"])
    assert before.keys() == now.keys()
    assert differences(before, now) == []


@pytest.mark.long
def test_the_board_has_the_same_rows(compared: Compared) -> None:
    assert len(compared.before["board"]["rows"]) > 2
    # A snapshot says more in each version, and what it said before in the same way.
    before, now = ({**board, "snapshot_version": None} for board in (compared.before["board"], compared.now["board"]))
    assert differences(before, now) == []
