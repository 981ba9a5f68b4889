"""A prompt's question and the order of its options, read from its text.

Some programs record prompts and letters but no lists of options. The order is then read from the labels in the prompt:
`A. …`, `A) …`, `(A) …` or `A: …`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, shorten
from registry.logs.record import KnownQuestion
from registry.prompting.labels import LETTERS

_ANCHOR: Final = 24
"""Number of characters at a question's beginning by which it is looked up."""


def normal(text: str) -> str:
    """Return a text with each run of white space as one space."""
    return " ".join(text.split())


def prompt_text(value: Any) -> str:
    """Return the text of a prompt, which is one text or a list of turns."""
    if isinstance(value, str):
        return value
    parts = []
    for turn in value if isinstance(value, list) else []:
        content = turn.get("content", turn.get("prompt", turn.get("text"))) if isinstance(turn, dict) else None
        if isinstance(content, list):
            content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if isinstance(content, str):
            parts.append(content)
    return "\n\n".join(parts)


class PromptFinder:
    """Finds a prompt's question in a benchmark: the last one in the prompt, after any examples."""

    def __init__(self, questions: Mapping[str, KnownQuestion]) -> None:
        self._number = len(questions)
        self._anchors: dict[str, list[tuple[str, KnownQuestion]]] = {}
        for question in questions.values():
            text = normal(question.text)
            self._anchors.setdefault(text[:_ANCHOR], []).append((text, question))
        self._lengths = sorted({len(anchor) for anchor in self._anchors}, reverse=True)
        self._shortest = min(self._lengths, default=0)
        self._begins: dict[str, int] = {}
        for anchor, asked in self._anchors.items():
            shortest = min(len(question) for question, _ in asked)
            begin = anchor[: self._shortest]
            self._begins[begin] = min(shortest, self._begins.get(begin, shortest))
        self._taken: set[int] = set()

    def find(self, place: Place, prompt: str) -> tuple[KnownQuestion, str]:
        """Return (question, the text after it in the prompt, blanks normalised).

        If several questions fit, one whose options all follow is preferred; equal questions are returned in turn.
        Rejects a prompt without a question of the benchmark.
        """
        text = normal(prompt)
        pairs = list(self._find_last(text))
        if not pairs:
            place.reject(
                f"the prompt {quote(shorten(prompt))} asks none of the {self._number} questions of the benchmark; "
                "check --benchmark"
            )
        fitting = [pair for pair in pairs if all(normal(option) in pair[1] for option in pair[0].options)] or pairs
        free = [pair for pair in fitting if pair[0].question_id not in self._taken] or fitting
        self._taken.add(free[0][0].question_id)
        return free[0]

    def _find_last(self, text: str) -> Iterator[tuple[KnownQuestion, str]]:
        """Yield the questions that begin last in a text, the longest of these only."""
        for start in range(len(text) - 1, -1, -1):
            shortest = self._begins.get(text[start : start + self._shortest])
            if shortest is None or start + shortest > len(text):
                continue  # true for nearly all places
            here = [
                pair
                for length in self._lengths
                for pair in self._anchors.get(text[start : start + length], ())
                if text.startswith(pair[0], start)
            ]
            if here:
                longest = max(len(anchor) for anchor, _ in here)
                yield from ((question, text[start + longest :]) for anchor, question in here if len(anchor) == longest)
                return


STYLES: Final[tuple[tuple[str, ...], ...]] = (
    tuple(LETTERS),
    tuple(LETTERS.lower()),
    tuple(map(str, range(1, len(LETTERS) + 1))),
    tuple(map(str, range(len(LETTERS)))),
)
"""Styles of labels that prompts show before options, each by position."""


def find_listed_order(question: KnownQuestion, listing: str) -> tuple[int, ...] | None:
    """Return the options in the order of their labels in a text; None if they have none.

    Equal options are taken in the benchmark's order.
    """
    texts = [normal(option) for option in question.options]
    if len(texts) > len(LETTERS):
        return None
    orders = (_read_order(labels, texts, listing) for labels in STYLES)
    return next((order for order in orders if order is not None), None)


def _read_order(labels: Sequence[str], texts: Sequence[str], listing: str) -> tuple[int, ...] | None:
    order: list[int] = []
    at = 0
    for position in range(len(texts)):
        label = re.compile(rf"(?:^|[\s(\[*]){labels[position]}(?:[.):\]]|\*\*)+\s*")
        free = [option for option in range(len(texts)) if option not in order]
        while True:
            match = label.search(listing, at)
            if match is None:
                return None
            fitting = [option for option in free if listing.startswith(texts[option], match.end())]
            if fitting:
                best = max(fitting, key=lambda option: len(texts[option]))
                order.append(best)
                at = match.end() + len(texts[best])
                break
            at = match.end()
    return tuple(order)


def ending_order(question: KnownQuestion, endings: Sequence[str]) -> tuple[int, ...] | None:
    """Return the option at the end of each text; None unless the texts end with all options, each once."""
    texts = [normal(option) for option in question.options]
    order: list[int] = []
    for ending in endings:
        free = [option for option in range(len(texts)) if option not in order]
        fitting = [option for option in free if normal(ending).endswith(texts[option])]
        if not fitting:
            return None
        order.append(max(fitting, key=lambda option: len(texts[option])))
    return tuple(order) if len(order) == len(texts) else None
