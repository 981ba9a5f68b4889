r"""What moves an accuracy, axis by axis: the order of the options, the wording, noise, or asking again.

A balanced design asks every question in every combination of the levels of some axes; a combination is a cell. What one
axis does is counted while all others stay as they are. Only the questions that were asked in one full set of cells
count, the set that most of them were asked in. The variance components are those of a random-effects model with
questions and axes as random: two right answers to different questions agree by what the cells have in common, so that

    σ²(axis) = mean of y·y′ over pairs that share the level of this axis alone − the same over pairs that share nothing,

over all pairs of answers to different questions; σ²(question × axis) is the same of pairs of answers to one question,
less σ²(axis). For a balanced design this is the method of moments of the analysis of variance.

Source: Searle, Casella and McCulloch, *Variance Components* (1992), ch. 4. What is stored is computed with arrays in
registry/statistics/axes.py, which gives the same. Which axes there are: docs/decisions/0069 and 0080.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

from registry.metrics import examples
from registry.metrics.averaging import OverCells, Value
from registry.metrics.entry import Example, Metric
from registry.metrics.outcome import Outcomes, VariantOutcome
from registry.metrics.papers import nalbandyan

Cell = tuple[int, ...]


@dataclass(frozen=True)
class Design:
    """The questions that were asked in one full set of cells: of each the outcome in every cell.

    levels: of every axis that has two or more, the one in question first. A cell has a level of each, in this order.
    """

    questions: tuple[Mapping[Cell, VariantOutcome], ...]
    levels: tuple[tuple[int, ...], ...]

    @property
    def others(self) -> list[Cell]:
        """The combinations of the levels of the other axes."""
        return list(itertools.product(*self.levels[1:]))

    def lines(self) -> list[list[VariantOutcome]]:
        """Of each question and each combination of the others, the outcomes over the axis's levels."""
        return [
            [question[level, *rest] for level in self.levels[0]] for question in self.questions for rest in self.others
        ]


def design_of(questions: Sequence[Outcomes], axis: str) -> Design | None:
    """What the questions tell of an axis; None where it was not varied, or not in every combination with the others."""
    asked: dict[frozenset[tuple[tuple[str, int], ...]], list[dict[tuple[tuple[str, int], ...], VariantOutcome]]] = {}
    for outcomes in questions:
        of_question = {tuple(sorted(outcome.levels.items())): outcome for outcome in outcomes if outcome.question_shown}
        if of_question:
            asked.setdefault(frozenset(of_question), []).append(of_question)
    if not asked:
        return None
    cells = max(asked, key=lambda cells: (len(asked[cells]), len(cells)))
    levels: dict[str, set[int]] = {}
    for name, level in itertools.chain.from_iterable(cells):
        levels.setdefault(name, set()).add(level)
    varied = sorted((name for name, of_axis in levels.items() if len(of_axis) > 1), key=lambda name: name != axis)
    full = math.prod(len(of_axis) for of_axis in levels.values()) == len(cells)
    if not full or axis not in varied or len(asked[cells]) < 2:
        return None
    return Design(
        tuple(
            {tuple(dict(cell)[name] for name in varied): outcome for cell, outcome in of_question.items()}
            for of_question in asked[cells]
        ),
        tuple(tuple(sorted(levels[name])) for name in varied),
    )


def moves(design: Design) -> float:
    """Standard deviation (divisor: levels − 1) of the accuracy over the axis's levels, in percentage points.

    The root of its mean square over the combinations of the others, each of which stays at one level.
    """
    accuracies = (
        [fmean(float(question[level, *rest].correct) for question in design.questions) for level in design.levels[0]]
        for rest in design.others
    )
    return 100 * math.sqrt(fmean(map(variance, accuracies)))


def fluctuation_rate(design: Design) -> float:
    """Share of questions whose answer changes over the axis's levels, averaged over combinations of the others."""
    return fmean(float(len({row.option for row in line}) > 1 or line[0].option is None) for line in design.lines())


def worst_accuracy(design: Design) -> float:
    """Share of questions right at every level of the axis, averaged over combinations of the others."""
    return fmean(float(all(row.correct for row in line)) for line in design.lines())


def shared_variance(design: Design) -> float:
    """σ²(axis): what the axis does to all questions alike, in squared percentage points; may be negative."""
    return 10_000 * _shared(design)


def question_variance(design: Design) -> float:
    """σ²(question × axis): what the axis does to single questions, in squared percentage points; may be negative."""
    own = _agreement(design, shared=True, same_question=True) - _agreement(design, shared=False, same_question=True)
    return 10_000 * (own - _shared(design))


def _shared(design: Design) -> float:
    together, apart = (_agreement(design, shared=shared, same_question=False) for shared in (True, False))
    return together - apart


def _agreement(design: Design, *, shared: bool, same_question: bool) -> float:
    """Mean of y·y′ over pairs of answers that share no level of another axis; of this one as told."""
    cells = list(itertools.product(*design.levels))
    right = {cell: [float(question[cell].correct) for question in design.questions] for cell in cells}
    number = len(design.questions)
    found = []
    for one, other in itertools.product(cells, cells):
        if (one[0] == other[0]) != shared or any(a == b for a, b in zip(one[1:], other[1:], strict=True)):
            continue
        own = math.fsum(a * b for a, b in zip(right[one], right[other], strict=True))
        if same_question:
            # An answer is no pair with itself; where no other axis was varied, its square stands for the pair.
            found.append(own / number)
        else:
            found.append((math.fsum(right[one]) * math.fsum(right[other]) - own) / (number * (number - 1)))
    return fmean(found)


OfDesign = Callable[[Design], float]


def _over(function: OfDesign, axis: str) -> Callable[[Sequence[Outcomes]], Value]:
    """The function of what questions tell of an axis, and how many of them do."""

    def over(questions: Sequence[Outcomes]) -> Value:
        design = design_of(questions, axis)
        return (None, 0) if design is None else (function(design), len(design.questions))

    return over


@dataclass(frozen=True)
class _Axis:
    """An axis of the catalogue.

    cause, levels: in labels. varied: what it stands for in a sentence. such_as: variants that vary it. first: whether
    it is the first of the two axes of its data set.
    """

    name: str
    cause: str
    levels: str
    varied: str
    such_as: str
    dataset: examples.Dataset
    first: bool


_TWO_ORDERS, _TWICE = examples.ORDERS_AND_WORDINGS, examples.NOISE_AND_REPEATS
_AXES: Final = (
    _Axis("order", "order", "orders", "the order of the options", "`cyclic`", _TWO_ORDERS, first=True),
    _Axis(
        "wording",
        "wording",
        "wordings",
        "the wording of the task",
        "`wording`",
        examples.ORDERS_AND_WORDINGS,
        first=False,
    ),
    _Axis("noise", "noise", "noise", "noise in the texts", "`noise`", _TWICE, first=True),
    _Axis("repeats", "asking again", "repeats", "asking again", "", _TWICE, first=False),
)
"""The axes that boards can state. In the example the first of the data set's axes moves less than the second."""

AXES: Final = tuple(axis.name for axis in _AXES)
REPEATS: Final = "repeats"
"""The axis of replicates. What it does is told by several evaluations, and stored with none of them."""


def _needs(axis: _Axis) -> str:
    if axis.name == REPEATS:
        return (
            "Two or more sealed replicates of an evaluation. No single evaluation has it: a board's column states it, "
            "and so does “shuffleboard statistics axes”."
        )
    return f"Variants that vary it, such as {axis.such_as}, alone or in every combination with others."


def _of_axis(axis: _Axis) -> tuple[Metric, ...]:
    undefined = "the axis was not varied, or not in every combination"
    if axis.name == REPEATS:
        undefined = "always: replicates tell it together"
    sources = (nalbandyan("the axes"),)

    def metric(
        kind: str,
        label: str,
        summary: str,
        formula: str,
        function: OfDesign,
        arithmetic: tuple[str, str],
        values: tuple[str, str],
        *,
        low: float | None = 0.0,
        high: float | None = None,
        unit: str = "fraction",
        better: str = "lower",
        unless: str = "",
    ) -> Metric:
        place = 0 if axis.first else 1
        return Metric(
            name=f"{axis.name}_{kind}",
            label=label,
            better="higher" if better == "higher" else "lower",
            summary=summary.format(axis.varied),
            formulas=(formula,),
            sources=sources,
            needs=_needs(axis),
            example=Example(axis.dataset, arithmetic[place], values[place]),
            low=low,
            high=high,
            unit=unit,
            averaging=OverCells(axis.name, kind, _over(function, axis.name), stored=axis.name != REPEATS),
            undefined=f"{undefined}{unless}",
        )

    points, squared = "percentage points", "squared percentage points"
    return (
        metric(
            "moves",
            f"Moved by {axis.cause}",
            "How far {} alone moves the accuracy: its standard deviation over the levels, all else kept. Above 0 even "
            "without an effect, if answers differ: “shuffleboard statistics axes” shows by how much.",
            r"100 \sqrt{ \frac{1}{B} \sum_{b} \frac{1}{A-1} \sum_{a} ( \text{acc}_{ab} - \text{acc}_{b} )^2 }",
            moves,
            (
                (
                    "Accuracies .75 and .5 under one level of the other axis, .25 and .25 under the other: variances "
                    ".03125 and 0, √.015625."
                ),
                (
                    "Accuracies .75 and .25 under one level of the other axis, .5 and .25 under the other: variances "
                    ".125 and .03125, √.078125."
                ),
            ),
            ("12.5", "28.0"),
            unit=points,
        ),
        metric(
            "fluctuation_rate",
            f"Fluctuation over {axis.levels}",
            "Questions whose answers are not all the same under several levels of {} alone.",
            r"1 - \frac{1}{B} \sum_{b} [ m_{1b} = m_{2b} = \ldots = m_{Ab} ]",
            fluctuation_rate,
            (
                "Of the eight pairs that differ in this axis alone, one answers differently.",
                "Of the eight pairs that differ in this axis alone, three answer differently.",
            ),
            ("0.125", "0.375"),
            high=1.0,
        ),
        metric(
            "worst_accuracy",
            f"Worst accuracy over {axis.levels}",
            "Questions answered right whatever {}, all else kept.",
            r"\frac{1}{B} \sum_{b} \prod_{a} [ m_{ab} = x ]",
            worst_accuracy,
            (
                "Of the eight pairs that differ in this axis alone, three are right twice.",
                "Of the eight pairs that differ in this axis alone, two are right twice.",
            ),
            ("0.375", "0.25"),
            high=1.0,
            better="higher",
        ),
        metric(
            "variance",
            f"Shared variance of {axis.levels}",
            "The effect that {} has on all questions equally, for the levels that were asked: the variance component "
            "of its main effect.",
            r"\sigma^2(\text{axis})",
            shared_variance,
            (
                (
                    "Of answers to different questions, pairs that share the level of this axis alone are both right "
                    "in 1/8, pairs that share nothing in 1/8."
                ),
                (
                    "Of answers to different questions, pairs that share the level of this axis alone are both right "
                    "in 1/6, pairs that share nothing in 1/8: 1/24."
                ),
            ),
            ("0.0", "416.7"),
            low=None,
            unit=squared,
        ),
        metric(
            "question_variance",
            f"Variance of {axis.levels} by question",
            "The effect that {} has on single questions, for the levels that were asked: the variance component of its "
            "interaction with them.",
            r"\sigma^2(\text{question} \times \text{axis})",
            question_variance,
            (
                (
                    "Of answers to one question, pairs that share the level of this axis alone are both right in 1/4, "
                    "pairs that share nothing in 1/4; less 0."
                ),
                (
                    "Of answers to one question, pairs that share the level of this axis alone are both right in 3/8, "
                    "pairs that share nothing in 1/4; less 1/24."
                ),
            ),
            ("0.0", "833.3"),
            low=None,
            unit=squared,
            unless="; also where answers are drawn at random, or may be, nothing else was varied, no prompt repeated",
        ),
    )


METRICS: Final = tuple(metric for axis in _AXES for metric in _of_axis(axis))
