"""All cases together, for the documentation."""

from typing import Any, Final

from registry.verdicts.again import AGAIN
from registry.verdicts.boards import BOARD, FACTS
from registry.verdicts.cases import CONCLUSIONS, READ, REMARKS, Case
from registry.verdicts.comparisons import NEIGHBOURS, PAIR, PAIR_READ, PAIR_REMARKS, SEVERAL
from registry.verdicts.models import LISTED, MODEL
from registry.verdicts.sections import PLACE, POSITION, SPLIT

_FIRST: Final = "The first that holds is said"
_EVERY: Final = "All that hold are said"

TABLES: Final[tuple[tuple[str, str, tuple[Case[Any], ...]], ...]] = (
    ("An evaluation: what could be read", _FIRST, READ),
    (
        "An evaluation: what may be concluded",
        f"{_FIRST}, unless more than half of the answers are missing",
        CONCLUSIONS,
    ),
    ("An evaluation: the numbers behind it", _EVERY, REMARKS),
    ("Positions chosen", _FIRST, POSITION),
    ("Questions by the prompts that are right", _EVERY, SPLIT),
    ("Why an evaluation has no point in a chart of worst accuracy", _FIRST, PLACE),
    ("A model", _FIRST, MODEL),
    ("Above the leaderboard, of one of its models", _FIRST, LISTED),
    ("Above a board", _FIRST, BOARD),
    ("Above a board, who keeps most and who loses most", _EVERY, FACTS),
    ("Two evaluations: what could be read", _FIRST, PAIR_READ),
    ("Two evaluations: what may be concluded", _FIRST, PAIR),
    ("Two evaluations: the numbers behind it", _EVERY, PAIR_REMARKS),
    ("Several models", _FIRST, SEVERAL),
    ("Neighbours on a board", _FIRST, NEIGHBOURS),
    ("The demo", _FIRST, AGAIN),
)
"""Title, which of its cases are said, and the table."""
