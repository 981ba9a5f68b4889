"""Records of a log: a recorded answer checked against its question, or a record as an audit sees it."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from registry.benchmarks.lines import LONGEST_MESSAGE, Place, check_text, quote, shorten
from registry.errors import IngestError
from registry.files.documents import as_written
from registry.logs.labels import Written
from registry.untrusted import decode

_LISTED: Final = re.compile(r"\[\s*\d{1,3}(?:\s*,\s*\d{1,3}){0,99}\s*\]")
MAX_VARIANT: Final = 32767
"""The highest variant ordinal that fits a smallint."""
NOT_MULTIPLE_CHOICE: Final = "not-multiple-choice"
"""The finding about a record without options."""
SEVERAL_RIGHT: Final = "several-right"
"""The finding about a record with several right options."""


class Item(Place):
    """A place in a file that has no lines: `request 3`, or a name within an archive."""

    __slots__ = ("name",)

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, 0)
        self.name = name

    def describe(self) -> str:
        """Return the place within its file."""
        return shorten(self.name)

    def reject(self, problem: str) -> NoReturn:
        """Raise IngestError: file, item, problem with value and remedy."""
        raise IngestError(f"{self.path.name} {shorten(self.name)}: {shorten(problem, LONGEST_MESSAGE)}")


@dataclass(frozen=True)
class KnownQuestion:
    """A question of the benchmark, for checks of outputs. `ordinal`: its place in the file, from 0."""

    question_id: int
    external_id: str
    ordinal: int
    text: str
    options: tuple[str, ...]
    answer: int
    context: str | None = None


@dataclass(frozen=True)
class Recorded:
    """One line of outputs: the options shown and the answer. Sequences are indexed by position.

    order: option ordinals, or names of inserted options. answered: whether the answer is stated, by `position` (None:
    no valid answer); if not, it is the highest probability. weights: probabilities of any sum. answer: a label that is
    read under one of several conventions, in place of `position`. key: the label that the log calls right. stated: its
    score.
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
    stated: float | None = None
    excuse: str | None = None
    reasoning: str | None = None
    """A thought that was recorded separately from the text."""
    answer: Written | None = None
    key: Written | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Short texts and numbers of the record, one of which may name its subject or task."""

    @property
    def shown_position(self) -> int | None:
        """Return the position of the answer, stated or most probable; None for no valid answer."""
        if self.answered:
            return self.position
        values = self.logprobs if self.weights is None else self.weights
        if values is None or (values is self.weights and not any(values)):
            return None
        return values.index(max(values))


@dataclass(slots=True)
class Seen:
    """One record of a log as written, for an audit: no benchmark confirms it. Sequences are indexed by position.

    place: in its file, such as "line 7". text: of the question, None if the log has none. options: as shown; if the log
    has no texts, their identifiers. key: position of the right option, None if unknown. position: of the recorded
    answer, None for no valid answer. variant: the number of this prompt among its question's; None if not recorded.
    stated: the score that the log gives the answer. prompt: everything shown to the model, examples included. output:
    its text. problems: findings that only the reader can see, as (name, detail).
    """

    place: str
    question_id: str
    text: str | None
    options: tuple[str, ...]
    key: int | None
    position: int | None
    variant: int | None = None
    stated: float | None = None
    prompt: str | None = None
    output: str | None = None
    reasoning: str | None = None
    cut_off: bool = False
    refused: bool = False
    texts: bool = True
    """Whether `options` are texts."""
    scored: bool = False
    """Whether options were scored by log-likelihood, so that a prompt may end with one."""
    problems: tuple[tuple[str, str], ...] = ()
    listed: bool = False
    """True if the prompt lists `options`."""
    answer: Written | None = None
    keyed: Written | None = None
    """Labels that are read under one of several conventions, in place of `position` and `key`."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Short texts and numbers of the record, one of which may name its subject or task."""


@dataclass(slots=True)
class Unusable:
    """A record that cannot be scored. detail: the reason. name: the finding to report."""

    place: str
    detail: str
    name: str = "unusable-answer"


@dataclass
class Source:
    """A log as it describes itself, with its records.

    stated: its own accuracy. declared: whether it states that only some of the questions were run. remarks: the reasons
    why files next to it could not be read.
    """

    path: Path
    format: str
    model: str
    task: str
    records: Iterator[Seen | Unusable]
    stated: float | None = None
    declared: bool = False
    part: str = ""
    """The part that distinguishes it from other logs of the same file."""
    remarks: list[str] = field(default_factory=list)


Known = dict[str, tuple[str, tuple[str, ...], int]]
"""Question id → (text, options, right option), from the files of questions in the same audit."""


def record_of(place: str, read: Callable[[], Iterator[Seen | Unusable]]) -> list[Seen | Unusable]:
    """Return the results of `read` for one record; report invalid content as Unusable, so that the log goes on."""
    try:
        with as_written(place, "repair or remove it"):
            return list(read())
    except IngestError as error:
        return [unusable(place, error)]


def unusable(place: str, error: IngestError) -> Unusable:
    """Return a rejected record with the reason."""
    return Unusable(place, str(error).split(": ", 1)[-1])


def only(value: Any) -> Any:
    """Return the innermost value of nested lists with one item each; other values unchanged."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def one_index(value: Any) -> Any:
    """Return the item of a list with one item, even if the list is written as text, such as "[2]"; else the value."""
    if isinstance(value, str) and _LISTED.fullmatch(value.strip()):
        value = decode(value)
    return only(value)


def find_question(place: Place, questions: Mapping[str, KnownQuestion], question_id: Any) -> KnownQuestion:
    """Return the benchmark's question with this id; reject an unknown one."""
    if isinstance(question_id, int) and not isinstance(question_id, bool):
        question_id = str(question_id)
    if not isinstance(question_id, str) or question_id not in questions:
        place.reject(
            f"question {quote(question_id)} is not among the {len(questions)} questions of the benchmark; check "
            "--benchmark or the id"
        )
    return questions[question_id]


def check_variant(place: Place, variant: Any) -> int:
    """Return a variant ordinal if it is a whole number from 0 to MAX_VARIANT; reject anything else."""
    if isinstance(variant, bool) or not isinstance(variant, int) or not 0 <= variant <= MAX_VARIANT:
        place.reject(f"variant {quote(variant)} is not a whole number from 0 to {MAX_VARIANT}")
    return variant


def check_order(place: Place, question: KnownQuestion, order: Any) -> tuple[int | str, ...]:
    """Check the options shown: ordinals of the question and names of inserted options, each at most once."""
    if not isinstance(order, list) or not order:
        place.reject(f"order {quote(order)} is not a list of the options shown; give ordinals such as [2, 0, 1]")
    for item in order:
        if isinstance(item, str):
            if not item or "+" in item or len(item) > 100:
                place.reject(f"order: inserted option {quote(item)} needs a short name without '+', such as \"nota\"")
            check_text(place, "order", item)
        elif isinstance(item, bool) or not isinstance(item, int):
            place.reject(f"order: {quote(item)} is neither an option ordinal nor the name of an inserted option")
        elif not 0 <= item < len(question.options):
            place.reject(
                f"order: option {item} is outside 0 … {len(question.options) - 1}, the ordinals of question "
                f"{question.external_id}"
            )
    if len(set(order)) != len(order):
        twice = next(item for item in order if order.count(item) > 1)
        place.reject(f"order: option {quote(twice)} is shown twice; give each option one position")
    return tuple(order)


def check_position(place: Place, position: Any, n_shown: int) -> int | None:
    """Return the answered position if it is valid, or None for no valid answer; reject anything else."""
    if position is None:
        return None
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < n_shown:
        place.reject(
            f"position {quote(position)} is not among 0 … {n_shown - 1}, the positions shown; null means no valid "
            "answer"
        )
    return position


def check_numbers(
    place: Place, name: str, values: Any, n_shown: int, *, low: float, high: float
) -> tuple[float, ...] | None:
    """Return numbers by position if they are finite and within [low, high]; None if the key is absent or null."""
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != n_shown:
        got = len(values) if isinstance(values, list) else quote(values)
        place.reject(f"{name}: {got} values for {n_shown} positions; give one number per position of the order")
    return tuple(_check_number(place, name, value, low, high) for value in values)


def _check_number(place: Place, name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        place.reject(f"{name}: {quote(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        place.reject(f"{name}: {quote(value)} is not a finite number")
    if not low <= number <= high:
        bound = f"not be below {low:g}" if number < low else f"not exceed {high:g}"
        place.reject(f"{name}: {number!r} must {bound}")
    return number


def optional_text(place: Place, value: Any) -> str | None:
    """Return a generated text if it can be stored; None if there is none."""
    if value is None:
        return None
    if not isinstance(value, str):
        place.reject(f"text {quote(value)} is not text; put it in quotation marks")
    return check_text(place, "text", value)


def match_options(question: KnownQuestion, shown: Sequence[str]) -> tuple[int, ...] | None:
    """Return the order of a question's options that these texts show; None if they are not its options.

    Equal options are taken in the benchmark's order: no log records which of two equal texts was meant.
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


def check_permutation(place: Place, order: Any, n_choices: int) -> list[int]:
    """Return the order in which another program showed the choices at our request; reject anything but an order."""
    if not isinstance(order, list) or {type(item) for item in order} != {int} or sorted(order) != [*range(n_choices)]:
        place.reject(f"order {quote(order)} is no order of its {n_choices} choices; the log is damaged")
    return order


def match_permuted(question: KnownQuestion, choices: Sequence[str], order: Sequence[int]) -> tuple[int, ...] | None:
    """Return the options at the positions of `choices`; None if they are not the question's.

    order: the option at each position as our extension recorded it, which distinguishes equal texts.
    """
    matched = match_options(question, [choices[order.index(option)] for option in range(len(choices))])
    return None if matched is None else tuple(matched[option] for option in order)


def with_answer_at(order: tuple[int | str, ...], question: KnownQuestion, correct: int) -> tuple[int | str, ...]:
    """Return the order in which the option that the file calls correct is the answer, if two options have its text."""
    here = order[correct]
    if here == question.answer or not isinstance(here, int) or question.answer not in order:
        return order
    if question.options[here].strip() != question.options[question.answer].strip():
        return order
    swapped = list(order)
    swapped[order.index(question.answer)], swapped[correct] = here, question.answer
    return tuple(swapped)


def _normalise(text: str) -> str:
    return " ".join(text.split())


class QuestionFinder:
    """Finds the question that a log means, by its options and text; its id decides between several that fit.

    Logs number their samples, so an id alone proves nothing: any benchmark may have a question "1".
    """

    def __init__(self, questions: Mapping[str, KnownQuestion]) -> None:
        self._questions = questions
        self._by_options: dict[tuple[str, ...], list[KnownQuestion]] = {}
        for question in questions.values():
            self._by_options.setdefault(_key(question.options), []).append(question)
        self._found: dict[str, KnownQuestion] = {}
        self._taken: set[int] = set()

    def find(self, place: Place, log_id: str, text: str, options: Sequence[str]) -> KnownQuestion:
        """Return the benchmark's question with this text and these options, in any order.

        log_id: its id in the log; the same id means the same question again. If several questions are equal, each id
        gets the next one. Rejects an unknown question, or an id that is used for two questions.
        """
        fitting = self._find_fitting(text, options)
        if log_id in self._found:
            if self._found[log_id] not in fitting:
                place.reject(f"id {quote(log_id)} is used for two different questions; ids must be unique")
            return self._found[log_id]
        if not fitting:
            self._reject_unknown(place, text, options)
        named = [question for question in fitting if question.external_id == log_id]
        free = named or [question for question in fitting if question.question_id not in self._taken]
        if not free or free[0].question_id in self._taken:
            place.reject(f"question {fitting[0].external_id} is also in the file under another id; keep one of them")
        self._found[log_id] = free[0]
        self._taken.add(free[0].question_id)
        return free[0]

    def _find_fitting(self, text: str, options: Sequence[str]) -> list[KnownQuestion]:
        normalised = _normalise(text)
        same_options = self._by_options.get(_key(options), [])
        exact = [question for question in same_options if _is_question(question, normalised)]
        return exact or [question for question in same_options if _normalise(question.text) in normalised]

    def _reject_unknown(self, place: Place, text: str, options: Sequence[str]) -> NoReturn:
        for question in self._questions.values():
            if _is_question(question, _normalise(text)):
                place.reject(
                    f"options {quote(list(options))} are not those of question {question.external_id}: "
                    f"{quote(list(question.options))}; import the version of the benchmark that was asked"
                )
        place.reject(
            f"question {quote(shorten(text))} with the options {quote(list(options))} is not among the "
            f"{len(self._questions)} questions of the benchmark; check --benchmark, or import "
            "the benchmark from this file"
        )


def _key(options: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(text.strip() for text in options))


def _is_question(question: KnownQuestion, asked: str) -> bool:
    """Return whether a text is exactly this question, or the question together with its context."""
    text = _normalise(question.text)
    if question.context is None:
        return text == asked
    return text in asked and _normalise(question.context) in asked
