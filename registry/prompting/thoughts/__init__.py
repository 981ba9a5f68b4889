"""Thoughts and answers: the division of a model's output into its thought and its readable answer.

The first rule that applies ends the thought: the server returned it separately; the text contains a marker, and the
last end marker counts; the template opened the thought and no end marker came, so that all of it is a thought.
Otherwise all of it is the answer.
"""

from registry.prompting.thoughts.division import (
    OPENED_SHARE,
    TAIL,
    Divided,
    Finish,
    Output,
    closes_only,
    divide,
    opens_thought,
)
from registry.prompting.thoughts.markers import Family, Markers, families_of, load_markers, markers_of
from registry.prompting.thoughts.settings import (
    AT_LIMIT,
    EFFORTS,
    READINGS,
    THINKING,
    Thinking,
    reads_apart,
    thinking_of,
)

__all__ = [
    "AT_LIMIT",
    "EFFORTS",
    "OPENED_SHARE",
    "READINGS",
    "TAIL",
    "THINKING",
    "Divided",
    "Family",
    "Finish",
    "Markers",
    "Output",
    "Thinking",
    "closes_only",
    "divide",
    "families_of",
    "load_markers",
    "markers_of",
    "opens_thought",
    "reads_apart",
    "thinking_of",
]
