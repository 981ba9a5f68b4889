"""The commands that messages propose: written in one place, so that a test can run each."""

import re
import shlex
from typing import Final

PROGRAM: Final = "shuffleboard"
_PLACEHOLDER: Final = re.compile(r"…|[A-Z][A-Z0-9_@=-]*|--[a-z-]+")
"""Words that a reader replaces, and options: they need no quotation marks."""


def propose(command: str, *words: object) -> str:
    """Return a command of this program as a user types it, with each of `words` quoted for a shell if needed."""
    written = (str(word) for word in words)
    quoted = (word if _PLACEHOLDER.fullmatch(word) else shlex.quote(word) for word in written)
    return " ".join([PROGRAM, command, *quoted])
