"""Label schemes: what stands before the options, and what a model answers with.

Uniform schemes give every option the same label, so that only an option's text can name it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.errors import ProtocolError

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii")


@dataclass(frozen=True)
class LabelScheme:
    """labels: what a model answers with, by position. option: how a labelled option is written."""

    labels: tuple[str, ...]
    option: str

    @property
    def uniform(self) -> bool:
        """Whether all positions have one label, which cannot be answered with."""
        return len(set(self.labels)) == 1

    def of(self, n_shown: int, what: str) -> tuple[str, ...]:
        """The labels of `n_shown` positions; ProtocolError when there are not enough."""
        if n_shown > len(self.labels):
            raise ProtocolError(f"{what} has {n_shown} options but only {len(self.labels)} labels; use another scheme")
        return self.labels[:n_shown]


LABEL_SCHEMES: Final[Mapping[str, LabelScheme]] = {
    "bracketed": LabelScheme(tuple(f"({letter})" for letter in LETTERS), "{label} {option}"),
    "bracket": LabelScheme(tuple(LETTERS), "{label}) {option}"),
    "digits": LabelScheme(tuple(str(number) for number in range(1, 10)), "{label}. {option}"),
    "roman": LabelScheme(_ROMAN, "{label}. {option}"),
    "signs": LabelScheme(tuple("$&#@%*+=~^?!<"), "{label}. {option}"),
    "dash": LabelScheme(("-",) * 26, "{label} {option}"),
    "emoji": LabelScheme(("🔹",) * 26, "{label} {option}"),
    "x": LabelScheme(("X",) * 26, "{label}. {option}"),
    "emojis": LabelScheme(("🍎", "🚗", "🌙", "🎵", "⚽"), "{label} {option}"),
    "reversed": LabelScheme(tuple(LETTERS), "{label}. {option}"),
}
"""`reversed` gives the first of n options the n-th letter."""

DISTINCT_SCHEMES: Final = ("bracketed", "bracket", "digits", "roman", "signs", "reversed")
"""Schemes whose labels a log-probability protocol can tell apart."""


def scheme_labels(name: str, n_shown: int, what: str) -> tuple[tuple[str, ...], str]:
    """(labels by position, how a labelled option is written) of scheme `name` for so many options."""
    scheme = LABEL_SCHEMES[name]
    labels = scheme.of(n_shown, what)
    return (labels[::-1] if name == "reversed" else labels), scheme.option


def letter(position: int) -> str:
    """How people are told of a position or option, whatever labels a model was shown: those are in the prompt."""
    return LETTERS[position] if position < len(LETTERS) else str(position + 1)
