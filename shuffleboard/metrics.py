"""The metrics as functions over plain arrays, without a registry or a database.

>>> from shuffleboard import metrics
>>> rotations = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
>>> metrics.worst_accuracy([[1, 1, 1, 2]], [1], orders=[rotations])
0.0
>>> metrics.average_accuracy([[1, 0, 3, 3]], [1], orders=[rotations], answers_are="positions")
0.75

Every name in `names()` is a function of this module with the arguments of `compute`. Sequences may be lists, tuples or
numpy arrays; questions may have different numbers of variants and of options.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from registry.errors import MetricInputError
from registry.metrics import METRICS as _COMPUTED
from registry.metrics import Metric, VariantOutcome
from registry.metrics.outcome import as_asked
from shuffleboard.frames import Values

AnswersAre = Literal["options", "positions", "texts"]

ARGUMENTS: Final = """
    answers: shape (questions, variants); what was answered. Option ordinals; with answers_are="positions" positions
    in the order shown, with "texts" texts of options. None, "" or a number below 0: no valid answer, which is wrong and
    equal to nothing. Instead of answers, probabilities or logprobs give the highest, of equals the lowest position.
    key: shape (questions,); ordinals of the right options, or their texts with answers_are="texts".
    orders: shape (questions, variants, options shown); the option at each position, an inserted one below 0. None:
    every variant shows the options as they are, so that nothing was varied.
    options: shape (questions, options); the texts. Without them metrics that end in _normalized are None.
    probabilities: shape (questions, variants, options shown), by position; of any sum, all zero for unknown.
    logprobs, logprobs_without_question: likewise, in nats, at most 0; with the question and with it left empty.
    question_shown: shape (questions, variants); False where the prompt leaves the question out. None: always.
    labels: shape (questions, variants); what tells wordings or labels of equal orders apart. None: nothing does.
    ids: shape (questions,); names of questions, which PriDe draws its estimation set by. None: their numbers.
    repeats: how often each prompt was asked in a row, as with `cyclic:repeats=4`; 1: equal prompts have one answer,
    None: each answer was drawn by itself. recorded: each was, however often prompts were asked, as in imported logs.
    samples: whether the model draws its answers at random. False: asked again it gives the same answer, as with
    log-probabilities and greedy decoding; None: unknown.
    lists_options: the prompts list the options. False (a protocol such as cloze): what order does is None.
    None stands for what a single prompt has not, in every array. Raises MetricInputError for unequal shapes.
"""


def names() -> tuple[str, ...]:
    """Return the names of all metrics."""
    return tuple(_COMPUTED)


def compute(
    answers: Sequence[Sequence[Any]] | None = None,
    key: Sequence[Any] = (),
    *,
    answers_are: AnswersAre = "options",
    orders: Sequence[Sequence[Sequence[int]]] | None = None,
    options: Sequence[Sequence[str]] | None = None,
    probabilities: Sequence[Sequence[Any]] | None = None,
    logprobs: Sequence[Sequence[Any]] | None = None,
    logprobs_without_question: Sequence[Sequence[Any]] | None = None,
    question_shown: Sequence[Sequence[bool]] | None = None,
    labels: Sequence[Sequence[Any]] | None = None,
    ids: Sequence[str] | None = None,
    repeats: int | None = None,
    recorded: bool = False,
    samples: bool | None = None,
    lists_options: bool = True,
) -> Values:
    """Compute every metric by name; None if undefined. `.frame()` makes a pandas data frame of them."""
    outcomes = _outcomes(
        answers,
        key,
        answers_are=answers_are,
        orders=orders,
        options=options,
        probabilities=probabilities,
        logprobs=logprobs,
        logprobs_without_question=logprobs_without_question,
        question_shown=question_shown,
        labels=labels,
        ids=ids,
        repeats=repeats,
        recorded=recorded,
        samples=samples,
        lists_options=lists_options,
    )
    return Values((name, _value(metric, outcomes, lengths=options is not None)) for name, metric in _COMPUTED.items())


compute.__doc__ = f"{compute.__doc__}\n{ARGUMENTS}"


def _value(metric: Metric, outcomes: Sequence[Sequence[VariantOutcome]], *, lengths: bool) -> float | None:
    if metric.name.endswith("_normalized") and not lengths:
        return None
    if metric.over_evaluation is not None:
        values = [value for value in metric.over_evaluation(outcomes) if value is not None]
        return math.fsum(values) / len(values) if values else None
    return metric.over_questions(outcomes)[0]


def _rows(name: str, values: Any, questions: int) -> list[Any]:
    """Return one entry for each question, all None if there are no values."""
    rows = [None] * questions if values is None else list(values)
    if len(rows) != questions:
        message = f"{name}: {len(rows)} questions, and the key has {questions}; give each question one row"
        raise MetricInputError(message)
    return rows


def _cells(name: str, row: Any, variants: int, question: int) -> list[Any]:
    cells = [None] * variants if row is None else list(row)
    if len(cells) != variants:
        message = f"{name}: question {question} has {len(cells)} variants, and {variants} elsewhere"
        raise MetricInputError(message)
    return cells


def _numbers(name: str, value: Any, shown: int, question: int) -> tuple[float, ...] | None:
    if value is None:
        return None
    numbers = tuple(float(number) for number in value)
    if len(numbers) != shown or not all(map(math.isfinite, numbers)):
        message = f"{name}: question {question} has {numbers} for {shown} options shown; give one finite number each"
        raise MetricInputError(message)
    return numbers


_PER_PROMPT: Final = (
    "answers", "orders", "probabilities", "logprobs", "logprobs_without_question", "question_shown", "labels",
)  # fmt: skip


def _outcomes(
    answers: Any,
    key: Any,
    *,
    answers_are: str,
    options: Any,
    ids: Any,
    repeats: int | None,
    recorded: bool,
    samples: bool | None,
    lists_options: bool,
    orders: Any,
    **arrays: Any,
) -> list[list[VariantOutcome]]:
    if answers_are not in ("options", "positions", "texts"):
        message = f"answers_are={answers_are!r}: give options, positions or texts"
        raise MetricInputError(message)
    keys = list(key)
    texts, named = _rows("options", options, len(keys)), _rows("ids", ids, len(keys))
    rows = {
        name: _rows(name, value, len(keys)) for name, value in {"answers": answers, "orders": orders, **arrays}.items()
    }
    outcomes_of_questions = []
    for question, right in enumerate(keys):
        arrays_of_question = {name: rows[name][question] for name in _PER_PROMPT}
        variants = next((len(row) for row in arrays_of_question.values() if row is not None), 0)
        cells = {name: _cells(name, row, variants, question) for name, row in arrays_of_question.items()}
        shown = None if texts[question] is None else [str(text) for text in texts[question]]
        if answers_are == "texts" and shown is None and orders is None:
            # Without orders only equality counts, so the other options do not matter.
            answer_texts = (str(text) for text in cells["answers"] if text not in (None, ""))
            shown = list(dict.fromkeys([str(right), *answer_texts, "another option"]))
        prompts = [{name: cells[name][variant] for name in _PER_PROMPT} for variant in range(variants)]
        answer, count = _key(right, shown, prompts, answers_are, question)
        outcomes = [
            _outcome(variant, prompt, answer, count, shown, answers_are, question, answered=answers is not None)
            for variant, prompt in enumerate(prompts)
        ]
        name = str(question if named[question] is None else named[question])
        if not lists_options:
            labels = (prompt["labels"] for prompt in prompts)
            outcomes = [replace(outcome, prompt=((), label)) for outcome, label in zip(outcomes, labels, strict=True)]
        named_outcomes = [replace(outcome, question=name) for outcome in outcomes]
        outcomes_of_questions.append(as_asked(named_outcomes, repeats, samples, recorded=recorded))
    return outcomes_of_questions


def _key(
    right: Any, shown: list[str] | None, prompts: list[dict[str, Any]], answers_are: str, question: int
) -> tuple[int, int]:
    """Return (ordinal of the right option, number of options)."""
    if answers_are == "texts":
        if shown is None:
            message = "answers_are='texts' with orders needs the texts of the options; give options"
            raise MetricInputError(message)
        if str(right) not in shown:
            message = f"key: {right!r} is none of the options of question {question}: {shown}"
            raise MetricInputError(message)
        return shown.index(str(right)), len(shown)
    counts = [len(shown)] if shown is not None else [int(right) + 1, 2]
    for prompt in prompts if shown is None else ():
        order = prompt["orders"]
        if order is not None:
            counts.append(max(map(int, order)) + 1)
        else:
            counts += [len(prompt[name]) for name in ("probabilities", "logprobs") if prompt[name] is not None]
            if answers_are == "options" and prompt["answers"] is not None:
                counts.append(int(prompt["answers"]) + 1)
    if not 0 <= int(right) < max(counts):
        message = f"key: {right!r} is no option of question {question}; ordinals count from 0"
        raise MetricInputError(message)
    return int(right), max(counts)


def _outcome(
    variant: int,
    prompt: Mapping[str, Any],
    answer: int,
    count: int,
    shown: list[str] | None,
    answers_are: str,
    question: int,
    *,
    answered: bool,
) -> VariantOutcome:
    identity = tuple(range(count))
    order = identity if prompt["orders"] is None else tuple(map(int, prompt["orders"]))
    weights = _numbers("probabilities", prompt["probabilities"], len(order), question)
    logprobs = _numbers("logprobs", prompt["logprobs"], len(order), question)
    without = _numbers("logprobs_without_question", prompt["logprobs_without_question"], len(order), question)
    best = weights if weights is not None else logprobs
    if weights is None and logprobs is not None:
        weights = tuple(math.exp(value) for value in logprobs)
    total = math.fsum(weights or ())
    probabilities = tuple(weight / total for weight in weights) if weights and total > 0 else None
    if answered:
        option = _find_chosen(prompt["answers"], order, shown, answers_are, question)
    else:
        option = order[best.index(max(best))] if best and probabilities is not None else None
    shows_question = prompt["question_shown"] is None or bool(prompt["question_shown"])
    label = None if prompt["labels"] is None else str(prompt["labels"])
    # The length of an inserted option is never used: normalised metrics are about the question's own options.
    lengths = tuple(len(shown[item].encode()) if shown is not None and item >= 0 else 1 for item in order)
    return VariantOutcome(
        variant,
        option,
        answer,
        order,
        probabilities,
        logprobs,
        without if logprobs is not None else None,
        lengths,
        original=order == identity and shows_question and label is None,
        question_shown=shows_question,
        own_options=sorted(order) == list(identity),
        prompt=(order, label),
    )


def _find_chosen(
    value: Any, order: Sequence[int], shown: list[str] | None, answers_are: str, question: int
) -> int | None:
    if value is None or value == "" or value != value:  # noqa: PLR0124 - NaN
        return None
    if answers_are == "texts":
        assert shown is not None
        # A text that is not an option is a separate answer: wrong, and equal to no other answer.
        return shown.index(str(value)) if str(value) in shown else None
    number = int(value)
    if answers_are == "positions":
        if number < 0:
            return None
        if number >= len(order):
            message = f"answers: position {number} of question {question} is beyond the {len(order)} options shown"
            raise MetricInputError(message)
        return order[number]
    if number not in order:
        if number < 0:
            return None
        message = f"answers: option {number} of question {question} is not among those shown, {list(order)}"
        raise MetricInputError(message)
    return number


def _function(name: str, metric: Metric) -> Callable[..., float | None]:
    def function(*args: Any, **arrays: Any) -> float | None:
        arguments = dict(zip(("answers", "key"), args, strict=False)) | arrays
        defaults: dict[str, Any] = dict.fromkeys((*_PER_PROMPT, "options", "ids", "repeats", "samples"))
        defaults |= {"key": (), "answers_are": "options", "lists_options": True, "recorded": False}
        unknown = arguments.keys() - defaults.keys()
        if unknown:
            message = f"{name}: unknown argument {min(unknown)!r}; those are in help(metrics.compute)"
            raise MetricInputError(message)
        return _value(metric, _outcomes(**(defaults | arguments)), lengths=arguments.get("options") is not None)

    low, high = (
        ("−∞" if metric.low is None else f"{metric.low:g}"),
        ("∞" if metric.high is None else f"{metric.high:g}"),
    )
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{metric.summary}\n\n{metric.label}: {metric.unit}, {low} to {high}; better: {metric.better}. "
        f"None if {metric.undefined}.\nNeeds: {metric.needs}\nSource: {metric.source}.\n{ARGUMENTS}"
    )
    return function


globals().update({name: _function(name, metric) for name, metric in _COMPUTED.items()})


def __getattr__(name: str) -> Callable[..., float | None]:
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


__all__ = ["compute", "names", *_COMPUTED]  # noqa: PLE0604 - names of metrics
