"""The small visible tables of the chapters, and their values by the Python definitions.

Each line is a prompt. Columns may have any order; unused columns are left out.

    question        id; the columns marked * belong to the question and are given once, on any of its lines
    variant         ordinal
    order           option shown at each position, "2 0 1"; blank: the benchmark's own order. -1, -2, …: inserted
    options
    chosen          the option chosen (its content, never its position); "-": no valid answer;
                    blank: not stated, so the highest of the probabilities or log-probabilities
    answer *        the right option
    options *       how many options the question has; by default as many as the other columns need
    probabilities   weights by position
    logprobs        log P(x|Q,C) by position
    without         log P(x|C) by position
    question shown  "no" if the prompt leaves the question out
    labels          a scheme of labels that overrides the protocol's
    subject *       subject
    flags *         "references" (options refer to options), "sorted" (options are sorted numbers), or both
    expected *      expected number of variants; by default as many as there are lines
    texts *         the options' texts, one word each
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from registry.metrics import METRICS, Metric, VariantOutcome
from registry.metrics.averaging import MeanOverQuestions
from registry.metrics.outcome import as_asked
from shuffleboard import metrics

_COLUMNS_OF_THE_QUESTION: Final = ("question", "answer", "options", "subject", "flags", "expected", "texts")
_COLUMNS_OF_THE_PROMPT: Final = (
    "variant",
    "order",
    "chosen",
    "probabilities",
    "logprobs",
    "without",
    "question shown",
    "labels",
)
COLUMNS: Final = frozenset((*_COLUMNS_OF_THE_QUESTION, *_COLUMNS_OF_THE_PROMPT))
INSERTED: Final[Mapping[int, str]] = {-1: "None of the above", -2: "Hello, everyone.", -3: "Ignore", -4: "This one"}
PROBLEM_SOLVING: Final = frozenset({"formal_logic", "college_physics"})
"""The subjects in these tables that belong to category:problem-solving."""


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    answered: whether the answer is stated, by `chosen`, the number of the option (None for no valid answer).
    """

    variant: int
    order: tuple[int, ...]
    answered: bool = True
    chosen: int | None = None
    weights: tuple[float, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    without: tuple[float, ...] | None = None
    question_shown: bool = True
    labels: str | None = None


@dataclass(frozen=True)
class Case:
    """A question with its prompts.

    expected: number of expected variants, including omitted ones.
    repeats, recorded: properties of the evaluation, as in `registry.metrics.outcome.as_asked`. listed: whether the
    prompts list the options.
    samples: whether the model draws its answers; None: unknown.
    """

    question: str
    texts: tuple[str, ...]
    answer: int
    expected: int
    prompts: tuple[Prompt, ...]
    subject: str | None = None
    refers_to_options: bool = False
    sorted_numeric: bool = False
    repeats: int | None = None
    recorded: bool = False
    listed: bool = True
    samples: bool | None = None

    @property
    def complete(self) -> bool:
        """Return whether every expected variant is present."""
        return len(self.prompts) >= self.expected

    def scopes(self) -> set[str]:
        """Return the scopes that contain the question."""
        names = {"all"}
        if not self.refers_to_options:
            names.add("without-references")
        if not self.sorted_numeric:
            names.add("without-sorted-numbers")
        if not self.refers_to_options and not self.sorted_numeric:
            names.add("unflagged")
        if self.subject is not None:
            names.add(f"subject:{self.subject}")
        if self.subject in PROBLEM_SOLVING:
            names.add("category:problem-solving")
        return names

    def outcomes(self) -> list[VariantOutcome]:
        """Return the prompts in the form that the metric functions take."""
        outcomes = [self._outcome(prompt) for prompt in self.prompts]
        return as_asked(outcomes, self.repeats, self.samples, recorded=self.recorded)

    def _outcome(self, prompt: Prompt) -> VariantOutcome:
        # This is independent of registry.predictions.rows, so that the tests compare the two.
        identity = tuple(range(len(self.texts)))
        weights = prompt.weights
        if weights is None and prompt.logprobs is not None:
            weights = tuple(math.exp(value) for value in prompt.logprobs)
        total = sum(weights or ())
        probabilities = tuple(weight / total for weight in weights) if weights and total > 0 else None
        chosen = prompt.chosen
        if not prompt.answered and probabilities is not None:
            shown = prompt.weights or prompt.logprobs or ()
            chosen = prompt.order[shown.index(max(shown))]
        return VariantOutcome(
            variant=prompt.variant,
            option=chosen,
            answer=self.answer,
            order=prompt.order,
            probabilities=probabilities,
            logprobs=prompt.logprobs,
            logprobs_without_question=prompt.without if prompt.logprobs is not None else None,
            option_bytes=tuple(
                len((self.texts[option] if option >= 0 else INSERTED[option]).encode()) for option in prompt.order
            ),
            original=prompt.order == identity and prompt.question_shown and prompt.labels is None,
            question_shown=prompt.question_shown,
            own_options=sorted(prompt.order) == list(identity),
            prompt=(prompt.order if self.listed else (), prompt.labels),
            question=self.question,
        )


def read_table(table: str) -> list[Case]:
    """Return the cases of a text table, in its order."""
    lines = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    header, rows = lines[0], lines[1:]
    assert set(header) <= COLUMNS, f"unknown columns: {set(header) - COLUMNS}"
    by_question: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        by_question.setdefault(cells["question"], []).append(cells)
    return [_case(question, cells) for question, cells in by_question.items()]


def _case(question: str, rows: Sequence[dict[str, str]]) -> Case:
    def once(column: str) -> str | None:
        return next((row[column] for row in rows if row.get(column)), None)

    answer = int(once("answer") or 0)
    texts = once("texts")
    if texts is not None:
        names = tuple(texts.split())
    else:
        names = tuple(f"option {option}" for option in range(int(once("options") or _count_needed(rows, answer))))
    flags = once("flags") or ""
    prompts = tuple(_prompt(row, len(names)) for row in rows if row.get("variant"))
    return Case(
        question,
        names,
        answer,
        int(once("expected") or len(prompts)),
        prompts,
        once("subject"),
        refers_to_options="references" in flags,
        sorted_numeric="sorted" in flags,
    )


def _count_needed(rows: Sequence[dict[str, str]], answer: int) -> int:
    """Return the smallest number of options that fits the lines."""
    counts = [2, answer + 1]
    for row in rows:
        order = _integers(row.get("order"))
        if order:
            counts.append(max(order) + 1)
        else:
            counts += [len(_floats(row.get(column)) or ()) for column in ("probabilities", "logprobs")]
        if row.get("chosen", "-") not in ("-", ""):
            counts.append(int(row["chosen"]) + 1)
    return max(counts)


def _prompt(row: dict[str, str], n_options: int) -> Prompt:
    chosen = row.get("chosen", "")
    return Prompt(
        variant=int(row["variant"]),
        order=_integers(row.get("order")) or tuple(range(n_options)),
        answered=chosen != "",
        chosen=None if chosen in ("", "-") else int(chosen),
        weights=_floats(row.get("probabilities")),
        logprobs=_floats(row.get("logprobs")),
        without=_floats(row.get("without")),
        question_shown=row.get("question shown") != "no",
        labels=row.get("labels") or None,
    )


def _integers(cell: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (cell or "").split())


def _floats(cell: str | None) -> tuple[float, ...] | None:
    return tuple(float(part) for part in cell.split()) if cell else None


def hits(**questions: str) -> list[Case]:
    """Return two-option questions by their hits, one character per variant: 1 right, 0 wrong, - no valid answer.

    The original is the first variant; the other variants alternately show the options reversed and in their original
    order. The right option is 0.
    """
    chosen = {"1": 0, "0": 1, "-": None}
    return [
        Case(
            question,
            ("yes", "no"),
            0,
            len(marks),
            tuple(
                Prompt(variant, (1, 0) if variant % 2 else (0, 1), chosen=chosen[mark])
                for variant, mark in enumerate(marks)
            ),
        )
        for question, marks in questions.items()
    ]


def omit_prompts(case: Case, *variants: int) -> Case:
    """Return the case without some of its expected variants."""
    return replace(case, prompts=tuple(prompt for prompt in case.prompts if prompt.variant not in variants))


# Answers

NEEDS_ONLY_THE_ORIGINAL: Final = frozenset(
    name
    for name, metric in METRICS.items()
    if isinstance(metric.averaging, MeanOverQuestions) and metric.averaging.where is None
)
"""Metrics that are defined if the original is present; all others are null until a question is complete."""


def _submit(metric: Metric, case: Case) -> list[VariantOutcome] | None:
    """Return the outcomes that the definition uses: all, only the original if the question is incomplete, or None."""
    outcomes = case.outcomes()
    if case.complete:
        return outcomes
    if metric.name not in NEEDS_ONLY_THE_ORIGINAL:
        return None
    return sorted((outcome for outcome in outcomes if outcome.original), key=lambda outcome: outcome.variant)[:1]


@dataclass(frozen=True)
class Answers:
    """The values from one implementation: scope → metric → (value, n), and question → metric → value."""

    engine: str
    over_questions: Mapping[str, Mapping[str, tuple[float | None, int]]]
    per_question: Mapping[str, Mapping[str, float | None]]


def python_answers(cases: Sequence[Case]) -> Answers:
    """Return the values by the Python definitions, which exclude questions with missing variants."""
    assert len({case.question for case in cases}) == len(cases)
    scopes = sorted(set().union(*(case.scopes() for case in cases)))
    shown = {name: {case.question: _submit(metric, case) for case in cases} for name, metric in METRICS.items()}
    over: dict[str, dict[str, tuple[float | None, int]]] = {scope: {} for scope in scopes}
    per_question: dict[str, dict[str, float | None]] = {case.question: {} for case in cases}
    for name, metric in METRICS.items():
        if metric.over_evaluation is not None:
            # The values exist once every question of the evaluation is complete.
            values = metric.over_evaluation([case.outcomes() for case in cases])
            if not all(case.complete for case in cases):
                values = [None] * len(cases)
            for scope in scopes:
                inside = [v for case, v in zip(cases, values, strict=True) if scope in case.scopes() and v is not None]
                over[scope][name] = (math.fsum(inside) / len(inside) if inside else None), len(inside)
            for case, value in zip(cases, values, strict=True):
                per_question[case.question][name] = value
            continue
        for scope in scopes:
            counted = (shown[name][case.question] for case in cases if scope in case.scopes())
            over[scope][name] = metric.over_questions([outcomes for outcomes in counted if outcomes is not None])
        if metric.per_question is not None:
            for question, outcomes in shown[name].items():
                per_question[question][name] = None if outcomes is None else metric.per_question(outcomes)
    return Answers("python", over, per_question)


def array_answers(cases: Sequence[Case]) -> Mapping[str, float | None]:
    """Return the values of `shuffleboard.metrics` for complete cases, given as plain arrays."""

    def by_prompt(value: Callable[[Case, Prompt], Any]) -> list[list[Any]]:
        return [[value(case, prompt) for prompt in sorted(case.prompts, key=lambda p: p.variant)] for case in cases]

    def answer(case: Case, prompt: Prompt) -> int | None:
        if prompt.answered:
            return prompt.chosen
        best = prompt.weights or prompt.logprobs or ()
        return prompt.order[best.index(max(best))] if best and (prompt.logprobs or sum(best)) else None

    return metrics.compute(
        by_prompt(answer),
        [case.answer for case in cases],
        orders=by_prompt(lambda _, prompt: prompt.order),
        options=[case.texts for case in cases],
        probabilities=by_prompt(lambda _, prompt: prompt.weights),
        logprobs=by_prompt(lambda _, prompt: prompt.logprobs),
        logprobs_without_question=by_prompt(lambda _, prompt: prompt.without),
        question_shown=by_prompt(lambda _, prompt: prompt.question_shown),
        labels=by_prompt(lambda _, prompt: prompt.labels),
        ids=[case.question for case in cases],
        repeats=cases[0].repeats,
        recorded=cases[0].recorded,
        samples=cases[0].samples,
        lists_options=cases[0].listed,
    )


TOLERANCE: Final = 1e-9


def same(one: Any, other: Any) -> bool:
    """Return whether both are None, or within the tolerance of each other."""
    if one is None or other is None:
        return one is other
    return abs(float(one) - float(other)) <= TOLERANCE * max(1.0, abs(float(one)))


def disagreements(reference: Answers, other: Answers) -> list[str]:
    """Return, as text, every value in which two engines differ."""
    differences = []
    if reference.over_questions.keys() != other.over_questions.keys():
        differences.append(f"{other.engine} has scopes {sorted(other.over_questions)}")
    for scope in reference.over_questions.keys() & other.over_questions.keys():
        for name, (value, n) in reference.over_questions[scope].items():
            theirs = other.over_questions[scope][name]
            if not same(value, theirs[0]) or n != theirs[1]:
                differences.append(f"{name} over {scope}: {reference.engine} {(value, n)}, {other.engine} {theirs}")
    if reference.per_question.keys() != other.per_question.keys():
        differences.append(f"{other.engine} has questions {sorted(other.per_question)}")
    for question in reference.per_question.keys() & other.per_question.keys():
        for name, value in reference.per_question[question].items():
            if not same(value, other.per_question[question][name]):
                theirs = other.per_question[question][name]
                differences.append(f"{name} of {question}: {reference.engine} {value}, {other.engine} {theirs}")
    return sorted(differences)
