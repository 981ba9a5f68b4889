"""Label schemes: the labels before the options and in a model's answers.

Uniform schemes give every option the same label, so that an answer can name an option only by its text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.errors import ProtocolError

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii")


@dataclass(frozen=True)
class LabelScheme:
    """The labels of a scheme, by position, and the template of a labelled option."""

    labels: tuple[str, ...]
    option: str

    @property
    def uniform(self) -> bool:
        """Return whether all positions have the same label, so that no label can be an answer."""
        return len(set(self.labels)) == 1

    def of(self, n_shown: int, what: str) -> tuple[str, ...]:
        """Return the first `n_shown` labels. Raises ProtocolError if there are too few.

        what: the question, for messages.
        """
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
"""All schemes by name. `reversed` gives the first of n options the n-th letter."""

DISTINCT_SCHEMES: Final = ("bracketed", "bracket", "digits", "roman", "signs", "reversed")
"""Schemes whose labels a log-probability protocol can distinguish."""


def scheme_labels(name: str, n_shown: int, what: str) -> tuple[tuple[str, ...], str]:
    """Return (labels by position, template of a labelled option) of a scheme for this number of options."""
    scheme = LABEL_SCHEMES[name]
    labels = scheme.of(n_shown, what)
    return (labels[::-1] if name == "reversed" else labels), scheme.option


def letter(position: int) -> str:
    """Return the letter by which people refer to a position or an option, regardless of the prompt's labels."""
    return LETTERS[position] if position < len(LETTERS) else str(position + 1)
