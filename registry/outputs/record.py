"""What every reader yields: one recorded answer, checked against its question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.benchmarks.lines import Place, check_text, shown

MAX_VARIANT: Final = 32767
"""The highest variant ordinal that a smallint holds."""


@dataclass(frozen=True)
class KnownQuestion:
    """A question of the benchmark, as outputs are checked against it. `ordinal`: its place in the file, from 0."""

    question_id: int
    external_id: str
    ordinal: int
    text: str
    options: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class Recorded:
    """One line of outputs: what was shown and what came of it. Sequences run by position.

    order: option ordinals, or names of inserted options. answered: the answer is stated, by `position` (None: no valid
    answer); else it is the highest probability. weights: probabilities of any sum.
    """

    place: Place
    question: KnownQuestion
    variant: int
    order: tuple[int | str, ...]
    answered: bool
    position: int | None
    weights: tuple[float, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    logprobs_without_question: tuple[float, ...] | None = None
    text: str | None = None


def find_question(place: Place, questions: Mapping[str, KnownQuestion], question_id: Any) -> KnownQuestion:
    """The benchmark's question of that id; rejects an unknown one."""
    if isinstance(question_id, int) and not isinstance(question_id, bool):
        question_id = str(question_id)
    if not isinstance(question_id, str) or question_id not in questions:
        place.reject(
            f"question {shown(question_id)} is not among the {len(questions)} questions of the benchmark; check "
            "--benchmark or the id"
        )
    return questions[question_id]


def check_variant(place: Place, variant: Any) -> int:
    """A variant ordinal: a whole number from 0."""
    if isinstance(variant, bool) or not isinstance(variant, int) or not 0 <= variant <= MAX_VARIANT:
        place.reject(f"variant {shown(variant)} is not a whole number from 0 to {MAX_VARIANT}")
    return variant


def check_order(place: Place, question: KnownQuestion, order: Any) -> tuple[int | str, ...]:
    """The options shown: ordinals of the question, each once, and names of inserted options, each once."""
    if not isinstance(order, list) or not order:
        place.reject(f"order {shown(order)} is not a list of the options shown; give ordinals such as [2, 0, 1]")
    for item in order:
        if isinstance(item, str):
            if not item or "+" in item or len(item) > 100:
                place.reject(f"order: inserted option {shown(item)} needs a short name without '+', such as \"nota\"")
            check_text(place, "order", item)
        elif isinstance(item, bool) or not isinstance(item, int):
            place.reject(f"order: {shown(item)} is neither an option ordinal nor the name of an inserted option")
        elif not 0 <= item < len(question.options):
            place.reject(
                f"order: option {item} is outside 0 … {len(question.options) - 1}, the ordinals of question "
                f"{question.external_id}"
            )
    if len(set(order)) != len(order):
        twice = next(item for item in order if order.count(item) > 1)
        place.reject(f"order: option {shown(twice)} is shown twice; each option stands at one position")
    return tuple(order)


def check_position(place: Place, position: Any, n_shown: int) -> int | None:
    """An answered position, or None for no valid answer."""
    if position is None:
        return None
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < n_shown:
        place.reject(
            f"position {shown(position)} is not among 0 … {n_shown - 1}, the positions shown; null means no valid "
            "answer"
        )
    return position


def check_numbers(
    place: Place, name: str, values: Any, n_shown: int, *, low: float, high: float
) -> tuple[float, ...] | None:
    """Finite numbers by position within [low, high]; None where the key is absent or null."""
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != n_shown:
        got = len(values) if isinstance(values, list) else shown(values)
        place.reject(f"{name}: {got} values for {n_shown} positions; give one number per position of the order")
    return tuple(_number(place, name, value, low, high) for value in values)


def _number(place: Place, name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        place.reject(f"{name}: {shown(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        place.reject(f"{name}: {shown(value)} is not a finite number")
    if not low <= number <= high:
        bound = f"not be below {low:g}" if number < low else f"not exceed {high:g}"
        place.reject(f"{name}: {number!r} must {bound}")
    return number


def optional_text(place: Place, value: Any) -> str | None:
    """Generated text, if any."""
    if value is None:
        return None
    if not isinstance(value, str):
        place.reject(f"text {shown(value)} is not text; put it in quotation marks")
    return check_text(place, "text", value)


def match_options(question: KnownQuestion, shown: Sequence[str]) -> tuple[int, ...] | None:
    """The order in which a question's options stand in `shown`, by text; None where they are not its options.

    Equal options are taken in the benchmark's order: which of two equal texts was meant is not recorded anywhere.
    """
    free: dict[str, list[int]] = {}
    for ordinal, text in enumerate(question.options):
        free.setdefault(text.strip(), []).append(ordinal)
    order = []
    for text in shown:
        if not free.get(text.strip()):
            return None
        order.append(free[text.strip()].pop(0))
    return tuple(order)
