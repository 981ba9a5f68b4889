"""What a published board gives a browser, so that it ranks a visitor's selection as `registry.boards.selected` does.

A task's resamples are not in it: the state of the generator that draws its questions is, with every model's values of
the questions, which take a hundredth of the room.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from registry.boards.definition import SORTED, Column, as_document
from registry.boards.selected import MOST_VALUES, OF_A_SELECTION, models_of, values_of
from registry.boards.standings import DECIMALS, TaskStanding, pooled_questions, task_numbers
from registry.boards.store import board_definition
from registry.metrics import METRICS
from registry.scores.clusters import clusters_of
from registry.scores.intervals import FUNCTIONS_OF_TWO_MEANS
from registry.statistics import bootstrap, paired, simultaneous
from registry.statistics.competition_ranks import RANK_TOLERANCE
from registry.tables import BoardSnapshot

Row = dict[str, Any]

CODED: Final = 255
"""Values that a metric of questions may have, each written as one byte; with more they are written out."""
_LIMITS: Final[Row] = {
    "confidence": bootstrap.CONFIDENCE,
    "decimals": DECIMALS,
    "differing": paired.DIFFERING,
    "equal": paired.EQUAL,
    "largest_skewness": bootstrap.LARGEST_SKEWNESS,
    "largest_undefined_share": bootstrap.LARGEST_UNDEFINED_SHARE,
    "level_digits": bootstrap.LEVEL_DIGITS,
    "minimum_questions": bootstrap.MINIMUM_QUESTIONS,
    "most_values": MOST_VALUES,
    "no_spread": simultaneous.NO_SPREAD,
    "rank_tolerance": RANK_TOLERANCE,
    "resamples": bootstrap.RANK_RESAMPLES,
    "share_below": bootstrap.share_below(bootstrap.RANK_RESAMPLES),
    "whole": bootstrap.WHOLE,
}
"""Constants of the methods, by the names that the script has for them."""


def portable_board(session: Session, snapshot: BoardSnapshot, columns: Sequence[Column]) -> Row:
    """What is known of a snapshot beside its values. columns: those that may be chosen."""
    models, document = models_of(session, snapshot), snapshot.document
    definition = as_document(board_definition(snapshot.board))
    return {
        "board": document["board"],
        "snapshot": snapshot.digest,
        "definition": {key: definition[key] for key in OF_A_SELECTION if definition.get(key)},
        "sorted": list(SORTED),
        "limits": _LIMITS,
        "columns": {column.name: _column(column.metric) for column in columns},
        "tasks": {
            task: _generator(bootstrap.SEED + number)
            for task, number in task_numbers(snapshot.board).items()
            if any(entry.task == task for entry in snapshot.board.entries)
        },
        "entries": [
            {key: entry[key] for key in ("task", "benchmark", "variants", "protocol")} for entry in document["entries"]
        ],
        "rows": [
            {
                "model": row["model"],
                "revision": row["revision"],
                "asked": [item is not None for item in row["evaluations"]],
                "whole": whole,
                **{key: getattr(facts, key) for key in ("family", "developer", "licence", "openness", "parameters")},
                "released": facts.released,
                "cost": None if facts.cost is None else float(facts.cost),
                "thinking": facts.thinking,
            }
            for row, facts, whole in zip(document["rows"], models.facts, models.whole, strict=True)
        ],
    }


def _column(metric: str) -> Row:
    known = METRICS[metric]
    return {
        "metric": metric,
        "label": known.label,
        "better": known.better,
        "unit": known.unit,
        "zero_or_one": known.zero_or_one,
        "two_means": metric in FUNCTIONS_OF_TWO_MEANS,
    }


def _generator(seed: int) -> Row:
    state: Any = np.random.PCG64(seed).state["state"]
    return {"state": f"{state['state']:032x}", "increment": f"{state['inc']:032x}"}


def portable_column(session: Session, snapshot: BoardSnapshot, column: Column) -> Row:
    """A column's values: of each task every row's standing, and the values of its questions, if it has any."""
    found = {}
    for task in dict.fromkeys(entry.task for entry in snapshot.board.entries):
        standings = values_of(session, snapshot, task, column).standings
        entries = [entry for entry in snapshot.board.entries if entry.task == task]
        clusters = clusters_of(session, pooled_questions(session, entries, column))
        drawn = [place for place, standing in enumerate(standings) if standing.samples is not None]
        of_questions = [values.base for place in drawn if (values := standings[place].values) is not None]
        parts = range(len(of_questions[0])) if of_questions else ()
        found[task] = {
            "standings": [_standing(standing) for standing in standings],
            "drawn": drawn,
            "clusters": None if clusters is None or not of_questions else clusters.tolist(),
            "questions": [_coded(np.stack([base[part] for base in of_questions])) for part in parts],
            "samples": None
            if of_questions or not drawn
            else _bytes(np.stack([np.ravel(_known(standings[place].samples)) for place in drawn])),
        }
    return found


def _known(samples: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert samples is not None
    return samples


def _standing(standing: TaskStanding) -> Row | None:
    if standing.value is None:
        return None
    estimated = standing.estimated
    return {
        "value": standing.value,
        "n": standing.n,
        "means": list(standing.means),
        "resting_on": standing.resting_on,
        "clusters": standing.clusters,
        "estimated": None if estimated is None else [estimated.asked, estimated.of, estimated.prompts],
        "interval": standing.interval,
    }


def _coded(values: NDArray[np.float64]) -> Row:
    """Values of shape (models, questions): their distinct levels, None for undefined, and each one's place there."""
    levels, places = np.unique(values, return_inverse=True)  # NaN is one level, the last
    if len(levels) > CODED:
        return {"shape": list(values.shape), "levels": None, "codes": _bytes(values)}
    listed = [None if np.isnan(level) else float(level) for level in levels]
    codes = _bytes(places.reshape(values.shape).astype(np.uint8))
    return {"shape": list(values.shape), "levels": listed, "codes": codes}


def _bytes(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()).decode()
