"""The small data sets used by the examples in the guide to the metrics.

The texts name options a, b, c, …: ordinals 0, 1, 2, … in the benchmark's own order. If probabilities are given, the
chosen option is the likeliest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from registry.metrics.outcome import Outcomes, VariantOutcome


@dataclass(frozen=True)
class Dataset:
    """A small data set: its name, its content in words, and the outcomes of each of its questions."""

    key: str
    title: str
    text: str
    questions: tuple[Outcomes, ...]


def _rotations(*chosen: int) -> Outcomes:
    """Build a question in all its rotations, with b right. chosen: the option chosen in each rotation."""
    L = len(chosen)
    return [
        VariantOutcome(k, option, answer=1, order=tuple((p + k) % L for p in range(L)), original=k == 0)
        for k, option in enumerate(chosen)
    ]


def _two_orders(
    answer: int, original: tuple[float, float], reverse: tuple[float, float], question: str = ""
) -> Outcomes:
    """Build one question of two options, in the original order and reversed, with its probabilities by position."""
    rows: Sequence[tuple[tuple[int, int], tuple[float, float]]] = (((0, 1), original), ((1, 0), reverse))
    return [
        VariantOutcome(
            variant,
            order[p.index(max(p))],
            answer,
            order,
            probabilities=p,
            original=variant == 0,
            question=question,
        )
        for variant, (order, p) in enumerate(rows)
    ]


def _alternate_orders(marks: Iterable[str], *, repeated: bool = False) -> Outcomes:
    """Build a question of two options in alternating orders from its hits (1) and misses (0).

    repeated: whether later variants in the original order count as the original, too.
    """
    return [
        VariantOutcome(
            variant,
            int(mark == "0"),
            answer=0,
            order=(0, 1) if variant % 2 == 0 else (1, 0),
            original=variant == 0 or (repeated and variant % 2 == 0),
        )
        for variant, mark in enumerate(marks)
    ]


def _build_questions(*variants: str) -> tuple[Outcomes, ...]:
    """Build questions of two options from hits (1) and misses (0): a text per variant, a character per question."""
    return tuple(map(_alternate_orders, zip(*variants, strict=True)))


def _repeat_both_orders(*marks: str) -> tuple[Outcomes, ...]:
    """Build questions of two options, each in both orders in turn and then again, from hits (1) and misses (0)."""
    return tuple(_alternate_orders(question_marks, repeated=True) for question_marks in marks)


FOUR_ORDERS: Final = Dataset(
    "four-orders",
    "Four orders",
    "One question with the options a, b, c and d; b is right. Its four rotations, the original first, are answered "
    "b, b, b and c.",
    (_rotations(1, 1, 1, 2),),
)
STEADY: Final = Dataset(
    "four-orders-matched",
    "Four orders, matched",
    "The same question under another protocol, which matches written answers to the options: b, b, b and b.",
    (_rotations(1, 1, 1, 1),),
)
RETEST: Final = Dataset(
    "ten-questions",
    "Ten questions, two orders",
    "Ten questions in the original order and in one other. Five are right in the original order, four of them in the "
    "other order too.",
    _build_questions("1111100000", "1111000000"),
)
TWO_ORDERS: Final = Dataset(
    "two-orders",
    "Two orders with probabilities",
    "One question with the options a and b; a is right. In the original order the labels have probabilities .8 and "
    ".2. In the reversed order they have .4 and .4, which is .5 and .5 once renormalised.",
    (_two_orders(0, (0.8, 0.2), (0.5, 0.5)),),
)
PRIOR: Final = Dataset(
    "position-bias",
    "A model that favours the first position",
    "Two questions with the options a and b. In the question `first`, a is right; its labels have probabilities .8 "
    "and .2, and .6 and .4 in the reversed order. In the question `second`, b is right; its labels have .65 and .35, "
    "and .7 and .3 reversed.",
    (_two_orders(0, (0.8, 0.2), (0.6, 0.4), "first"), _two_orders(1, (0.65, 0.35), (0.7, 0.3), "second")),
)
FOUR_VARIANTS: Final = Dataset(
    "four-variants",
    "Two questions, four variants",
    "Two questions with four variants each, the original first; 1 is a right answer: 1111 and 1010.",
    _build_questions("11", "10", "11", "10"),
)
THREE_RUNS: Final = Dataset(
    "three-runs",
    "Three runs",
    "Ten questions of two options, each asked three times: the original, then the right option moved to either "
    "position. The runs have 6, 7 and 8 right answers.",
    _build_questions("1111110000", "1111111000", "1111111100"),
)
MATCHED_RUNS: Final = Dataset(
    "three-runs-matched",
    "Three runs, matched",
    "The same ten questions under the protocol that matches: 7, 7 and 8 right answers.",
    _build_questions("1111111000", "1111111000", "1111111100"),
)
WITHOUT_QUESTION: Final = Dataset(
    "without-the-question",
    "With and without the question",
    "One question with the options a, “no”, and b, “probably”; a is right. Their log-probabilities are −1 and −2 with "
    "the question, −4 and −2.5 without it. In UTF-8 they take 2 and 8 bytes.",
    (
        [
            VariantOutcome(
                0,
                0,
                answer=0,
                order=(0, 1),
                logprobs=(-1.0, -2.0),
                logprobs_without_question=(-4.0, -2.5),
                option_bytes=tuple(len(text.encode()) for text in ("no", "probably")),
                original=True,
            )
        ],
    ),
)
REPEATED_ORDERS: Final = Dataset(
    "two-orders-twice",
    "Two orders, asked twice",
    "Two questions of two options, each asked in both orders, and then in both again. In its first order either is "
    "right twice. In its second order the first question is right the first time alone, the second question never.",
    _repeat_both_orders("1110", "1010"),
)

DATASETS: Final = (
    FOUR_ORDERS,
    RETEST,
    TWO_ORDERS,
    PRIOR,
    FOUR_VARIANTS,
    THREE_RUNS,
    WITHOUT_QUESTION,
    REPEATED_ORDERS,
    STEADY,
    MATCHED_RUNS,
)
