"""Label schemes: the labels before the options, and those in a model's answers.

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
    """labels: a model's possible answers, by position. option: the template of a labelled option."""

    labels: tuple[str, ...]
    option: str

    @property
    def uniform(self) -> bool:
        """Return whether all positions have one label, which cannot be an answer."""
        return len(set(self.labels)) == 1

    def of(self, n_shown: int, what: str) -> tuple[str, ...]:
        """Return the labels of `n_shown` positions. Raises ProtocolError if there are not enough."""
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
"""Schemes whose labels a log-probability protocol can distinguish."""


def scheme_labels(name: str, n_shown: int, what: str) -> tuple[tuple[str, ...], str]:
    """Return (labels by position, form of a labelled option) of scheme `name` for so many options."""
    scheme = LABEL_SCHEMES[name]
    labels = scheme.of(n_shown, what)
    return (labels[::-1] if name == "reversed" else labels), scheme.option


def letter(position: int) -> str:
    """Return the name of a position or option for people, whatever labels the prompt has."""
    return LETTERS[position] if position < len(LETTERS) else str(position + 1)
