"""Detection of questions that a new order of the options breaks or distorts.

They are flagged at import; metrics exist with and without them (scope `unflagged`).
"""

import re
from collections.abc import Sequence
from itertools import pairwise

# An option that names another by its label ("Both A and B", "A, B and C only") or by its place ("none of the above").
_LETTER = r"\(?[A-J]\)?"
_REFERENCE = re.compile(
    rf"""
      \b(?:all|none|any|both|neither|either|two|three|some|most|each|one)\s+(?:of\s+)?(?:the\s+|these\s+|those\s+)?
        (?:above|below|preceding|following|other\s+(?:options|answers|choices)|(?:options|answers|choices)(?:\s+above)?
          |these|those|them)\b[\s.!]*$
    | ^\s*(?i:both|neither|either|only|all|options?|answers?|choices?)?\s*{_LETTER}\s*
        (?:(?:,|;)\s*{_LETTER}\s*)*,?\s*(?:and|or|nor|&|but\s+not)\s*{_LETTER}\s*(?:only|are\s+\w+|is\s+\w+|above)?[\s.!]*$
    """,
    re.VERBOSE,
)
_CASELESS = re.compile(
    r"\b(?:all|none|neither|both|either|any|two|more\s+than\s+one)\s+of\s+(?:the\s+)?"
    r"(?:above|below|these(?:\s+(?:options|answers|choices))?|those|options|answers|choices|preceding)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+−]?\s*[$€£]?\s*(\d[\d,]*(?:\.\d+)?|\.\d+)\s*(%|[A-Za-z°/²³ .]*)")


def refers_to_options(options: Sequence[str]) -> bool:
    """Return whether any option refers to other options, by letter or as a group."""
    return any(_REFERENCE.search(option) or _CASELESS.search(option) for option in options)


def are_sorted_numbers(options: Sequence[str]) -> bool:
    """Return whether all options are numbers with one unit, strictly rising or strictly falling."""
    matches = [_NUMBER.fullmatch(option.strip()) for option in options]
    if len({match[2].strip().lower() if match else None for match in matches}) != 1 or None in matches:
        return False
    values = [
        float(match[1].replace(",", "")) * (-1 if match.string.startswith(("-", "−")) else 1)
        for match in matches
        if match
    ]
    steps = [later - earlier for earlier, later in pairwise(values)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)
