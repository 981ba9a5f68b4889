"""Divide a model's output into its thought and its readable answer.

The first rule that applies determines the end of the thought. 1: the server returned the thought separately. 2: the
text contains markers, and the thought ends at the last end marker. 3: the template opened the thought and there is no
end marker, so the text is all thought. Otherwise the text is all answer.
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
