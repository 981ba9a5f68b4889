"""Reading of a log's texts again, by the states and rules of protocols."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from registry.prompting.labels import LETTERS
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.reading import Reading, State, read
from registry.prompting.thoughts import Divided, Output

FINAL: Final = "final-answer"
RULES: Final = (FINAL, "select-letter", "first-letter")
"""Presets whose rules are applied: the answer requested from chat models, [N]'s select and [C]'s first letter."""


@dataclass(frozen=True, slots=True)
class Reread:
    """The readings of one text.

    state: the text's state by `final-answer`. positions: the position read by each of RULES, None for none. thought:
    the answer in the thought alone, if it differs from the answer after it; else None.
    """

    state: State
    positions: tuple[int | None, ...]
    thought: int | None


@cache
def _load_definition(name: str) -> Mapping[str, Any]:
    return {**PRESETS[name], "thoughts": "apart"}


def _read_by_rule(
    name: str,
    output: Output,
    options: Sequence[str],
    labels: Sequence[str] = LETTERS,
    divided: Divided | None = None,
) -> Reading:
    return read(_load_definition(name), output, labels[: len(options)], options, divided)


def reread(
    text: str,
    options: Sequence[str],
    *,
    reasoning: str | None = None,
    cut_off: bool = False,
    refused: bool = False,
    opened: bool = False,
    labels: Sequence[str] = LETTERS,
) -> Reread:
    """Read an output by RULES. labels: the labels behind which the options were shown.

    opened: whether the template had opened the thought.
    """
    output = Output(text, reasoning, "refused" if refused else "length" if cut_off else "stop", opened)
    return _reread(output, tuple(options), tuple(labels[: len(options)]))


@lru_cache(maxsize=4)  # the first records of a log are read twice; a megabyte takes half a second
def _read_final(output: Output, options: tuple[str, ...], labels: tuple[str, ...]) -> Reading:
    return _read_by_rule(FINAL, output, options, labels)


@lru_cache(maxsize=4)  # a log states the same text in several fields of a record
def _reread(output: Output, options: tuple[str, ...], labels: tuple[str, ...]) -> Reread:
    final = _read_final(output, options, labels)
    positions = (
        final.position,
        *(_read_by_rule(name, output, options, labels, final.divided).position for name in RULES[1:]),
    )
    thought = None
    if final.divided.thought:
        position = _read_by_rule("select-letter", Output(final.divided.thought), options, labels).position
        thought = position if position != final.position else None
    return Reread(final.state, positions, thought)


def read_scored(text: str, options: Sequence[str], key: int | None, score: float | None) -> int | None:
    """Return the position that a text states, by the first rule that agrees with its score.

    Metrics that search a text do not record their extract. If no rule reads an answer in a text that was scored as
    right, it states the right option; if all rules contradict the score, the reading of `final-answer` counts.
    """
    read = reread(text, options)
    final, *others = read.positions
    if key is None or score is None or (final == key) == (score == 1):
        return final
    if score == 1:
        return key if final is None or key in others else final
    return next((other for other in (read.thought, *others) if other not in (None, key)), final)


def final_reading(text: str, options: Sequence[str], labels: Sequence[str] = LETTERS) -> int | None:
    """Return the position that the rule `final-answer` reads in a text; None for none."""
    return _read_final(Output(text), tuple(options), tuple(labels[: len(options)])).position
