"""Claims from before a database was restored, moved or promoted, whose results must not be stored after it."""

import contextlib
import itertools
from pathlib import Path
from typing import Final

import pytest

from registry.db import get_engine
from registry.operations.migrate import upgrade
from tests.chaos.generations import STATES, WAYS, Promoted, Run
from tests.support.population import predictions
from tests.support.services import PostgresServer, StandbyServer, postgres_execute

pytestmark = pytest.mark.long_on("sqlite")

IN_SHORT: Final = {
    ("sqlite", "restored", "frozen", False),
    ("sqlite", "moved", "awake", True),
    ("postgresql", "restored in place", "frozen", True),
}
CASES: Final = [
    pytest.param(*case, id="-".join(map(str, case)), marks=[pytest.mark.long] * (case not in IN_SHORT))
    for case in itertools.product(("sqlite", "postgresql"), WAYS, STATES, (False, True))
    # If the file is overwritten in place, no process can notice, and the claim in it is the worker's own.
    if case[:2] != ("sqlite", "restored in place") or not case[3]
]


@pytest.mark.parametrize(("engine_name", "way", "state", "holds_claim"), CASES)
def test_nothing_of_an_earlier_generation_is_stored(
    engine_name: str, way: str, state: str, holds_claim: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{engine_name}_database")
    run = Run(url, tmp_path, state, holds_claim)
    replacing = WAYS[way](url, tmp_path)
    with run.stack:
        run.begin(replacing.copy)
        replacing.replace()
        outcome = run.end()
    assert "registry_generation_changed" in outcome


def test_without_the_generation_it_would_be_sealed_and_verify(postgresql_database: str, tmp_path: Path) -> None:
    # The same tests without worker and generation in the old worker's checks, which must fail then.
    run = Run(postgresql_database, tmp_path, "scored", holds_claim=False, sabotage=("--without-generation",))
    replacing = WAYS["restored"](postgresql_database, tmp_path)
    with run.stack:
        run.begin(replacing.copy)
        replacing.replace()
        with pytest.raises(AssertionError):
            run.end()
    assert len(predictions(get_engine(postgresql_database), 1)) == 4


@pytest.mark.long
def test_nothing_from_before_a_promotion_is_stored_lag_or_not(tmp_path: Path) -> None:
    with PostgresServer() as primary, StandbyServer(primary) as standby, contextlib.ExitStack() as urls:
        promoted = Promoted(primary, standby)
        runs = []
        for state, holds_claim in itertools.product(STATES, (True, False)):
            name = f"{state}_{'held' if holds_claim else 'lagging'}"
            postgres_execute(primary.url, f"CREATE DATABASE {name} TEMPLATE template0")
            url = promoted.url_of(name)
            upgrade(url)
            urls.callback(lambda url=url: get_engine(url).dispose())
            folder = tmp_path / name
            folder.mkdir()
            runs.append(Run(url, folder, state, holds_claim))
            urls.enter_context(runs[-1].stack)
        for run in sorted(runs, key=lambda run: not run.holds_claim):
            if not run.holds_claim and not promoted.is_cut_off:
                promoted.cut_off()
            run.begin(lambda: None)
        promoted.promote()
        for run in runs:
            assert "registry_generation_changed" in run.end(), run
