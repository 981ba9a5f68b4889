"""What a registry states about its evaluations, in a form that says the same of any registry that holds them.

No database ids and no times: evaluations are named by their seals, questions by their ids in the benchmark.
"""

from typing import Any, Final

from sqlalchemy import Engine, text

from registry.db import get_engine
from tests.proof.commands import run

BOARD: Final = "reference"


def seals_of(engine: Engine) -> dict[int, str]:
    """The seal of each sealed evaluation, by its number."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT id, seal FROM evaluation WHERE seal IS NOT NULL ORDER BY id")).all()
    return {number: seal.hex() if isinstance(seal, bytes) else str(seal) for number, seal in rows}


def stated(url: str) -> dict[str, Any]:
    """Everything that is compared, of the registry in the database at `url`."""
    engine = get_engine(url)
    seals = seals_of(engine)
    return {
        "evaluations": stated_of_evaluations(engine),
        "leaderboard": [
            {"seal": seals.get(row["evaluation_id"]), **_lasting(row)}
            for row in run(engine, "leaderboard", "--json").document["rows"]
        ],
        "board": _lasting(run(engine, "leaderboard", "--board", BOARD, "--json").document),
    }


def stated_of_evaluations(engine: Engine) -> dict[str, Any]:
    """What is stated of each evaluation, by its seal."""
    return {seal: _of_evaluation(engine, number) for number, seal in seals_of(engine).items()}


def _of_evaluation(engine: Engine, number: int) -> dict[str, Any]:
    found = run(engine, "metrics", number, "--per-question", "--json").document
    unflagged = run(engine, "metrics", number, "--without-flagged", "--json").document
    return _lasting(found) | {"unflagged": _lasting(unflagged)}


def _lasting(value: Any) -> Any:
    """A JSON document without what belongs to one registry alone: ids, times, and digests over times."""
    if isinstance(value, dict):
        return {
            key: _lasting(item)
            for key, item in value.items()
            if key not in ("evaluation", "as_of", "digest", "snapshot", "url")
            and not key.endswith(("_id", "_at", "_s", "_ids"))
        }
    return [_lasting(item) for item in value] if isinstance(value, list) else value
