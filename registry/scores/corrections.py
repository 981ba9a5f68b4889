"""Which questions count, by which keys, and under which scope what comes of it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AS_PUBLISHED: Final = "as-published"
WITHOUT_DISPUTED: Final = "without-disputed"
WITH_CORRECTED_KEYS: Final = "with-corrected-keys"
TREATMENTS: Final[Mapping[str, str]] = {
    AS_PUBLISHED: "as published",
    WITHOUT_DISPUTED: "without disputed questions",
    WITH_CORRECTED_KEYS: "with corrected keys",
}
"""How errata may be treated, by the words that files, URLs and commands use."""
RESCORED: Final = (WITHOUT_DISPUTED, WITH_CORRECTED_KEYS)


@dataclass(frozen=True)
class Correction:
    """Questions that do not count, by their ids, and the right options of those whose key is another.

    What is scored under it is scored as if the benchmark's file had been so.
    """

    left_out: frozenset[int]
    answers: Mapping[int, int]


NOTHING: Final = Correction(frozenset(), {})


def scope_of(treatment: str, number: int) -> str:
    """The scope under which metrics by a version of the errata are stored."""
    return f"{treatment}@{number}"


def is_of_errata(scope: str) -> bool:
    """Whether a scope is one of `scope_of`.

    >>> is_of_errata("with-corrected-keys@2"), is_of_errata("subject:law@2")
    (True, False)
    """
    return scope.partition("@")[0] in RESCORED
