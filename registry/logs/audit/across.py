"""Comparison of logs with the same questions: models that differ, and answers that flip between two versions of one."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.logs.audit.catalogue import KINDS, Finding
from registry.logs.audit.checks import Checked
from registry.statistics.bootstrap import resample_means
from registry.statistics.comparison import mcnemar
from registry.statistics.paired import Paired, paired
from registry.statistics.power import smallest_difference_of_differing
from registry.statistics.simultaneous import compare_all

IN_COMMON: Final = 0.5
"""The share of the smaller log's questions that two logs must have in common to be compared."""
LEAST: Final = 30
MOST: Final = 60
"""The most logs that are compared with each other."""
RESAMPLES: Final = 2_000
SAME: Final = 0.99
_DATED: Final = re.compile(r"(?:[@:_-](?:v?\d[\w.-]*|main|latest|rev\w*|[0-9a-f]{7,40}))+$", re.IGNORECASE)


@dataclass(frozen=True)
class Pair:
    """Comparison of two logs over the questions that both have.

    difference: accuracy of the first less the second's; interval: its 95 % interval; p_value: McNemar's mid-p; seen:
    the smallest difference that these questions would show with 80 % power; only_first, only_second: questions that
    only one has right; changed: share of questions with different chosen options.
    """

    first: str
    second: str
    questions: int
    difference: float
    interval: tuple[float, float] | None
    p_value: float
    seen: float | None
    only_first: int
    only_second: int
    changed: float
    one_model: bool


@dataclass(frozen=True)
class Compared:
    """Comparison of a group of logs with the same questions.

    ranks: the 95 % interval of each log's rank, simultaneous over all logs; only for three or more.
    """

    logs: tuple[str, ...]
    questions: int
    accuracies: tuple[float, ...]
    ranks: tuple[tuple[int, int], ...]
    pairs: tuple[Pair, ...]

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return asdict(self)


def compare(logs: Sequence[Checked]) -> tuple[list[Compared], list[Finding]]:
    """Compare the logs within each group that shares its questions; return the comparisons and findings."""
    findings: list[Finding] = []
    compared = []
    for group in _group_logs([log for log in logs if len(log.right) >= LEAST]):
        common = set(group[0].right)
        for log in group[1:]:
            common &= log.right.keys()
        for log in group:
            if len(log.right) > len(common) * 1.001:
                detail = f"{len(log.right):,} questions, {len(common):,} in common with the others of its task"
                findings.append(Finding(KINDS["different-questions"], log.gathered.label, detail))
        if len(common) >= LEAST:
            numbers = np.array(sorted(common))
            _compare_keys(group, numbers, findings)
            compared.append(_compare_group(group, numbers, findings))
    return compared, findings


def _group_logs(logs: Sequence[Checked]) -> list[list[Checked]]:
    groups: list[list[Checked]] = []
    for log in logs:
        for group in groups:
            other = group[0].right
            common = len(other.keys() & log.right.keys())
            if common >= max(LEAST, IN_COMMON * min(len(other), len(log.right))) and len(group) < MOST:
                group.append(log)
                break
        else:
            groups.append([log])
    return [group for group in groups if len(group) > 1]


def _column_by_question(log: Checked, name: str, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return a column's values at the first record of each of these questions."""
    question = log.gathered.column("question")
    unique, first = np.unique(question, return_index=True)
    return log.gathered.column(name)[first[np.searchsorted(unique, numbers)]]


def _compare_keys(group: Sequence[Checked], numbers: NDArray[Any], findings: list[Finding]) -> None:
    reference = _column_by_question(group[0], "keyed", numbers)
    for log in group[1:]:
        keyed = _column_by_question(log, "keyed", numbers)
        differ = numbers[(keyed != reference) & (keyed != 0) & (reference != 0)]
        if len(differ):
            question = log.gathered.column("question")
            places = [
                log.gathered.place(int(np.flatnonzero(question == number)[0]))
                for number in differ[: log.gathered.most_places]
            ]
            findings.append(
                Finding(
                    KINDS["keys-differ-between-logs"],
                    log.gathered.label,
                    f"another key than in {group[0].gathered.label}",
                    len(differ),
                    len(numbers),
                    tuple(places),
                )
            )


def model_of(name: str) -> str:
    """Return a model's name without its version or date, as far as its form shows it.

    >>> model_of("org/Model@main"), model_of("model-2026-11-02"), model_of("Llama-3-8B")
    ('org/model', 'model', 'llama-3-8b')
    """
    return _DATED.sub("", name).casefold() if re.search(r"@|\d{4}-?\d{2}-?\d{2}|[:_-]v\d|:", name) else name.casefold()


def _compare_group(group: Sequence[Checked], numbers: NDArray[Any], findings: list[Finding]) -> Compared:
    right = np.array([[log.right[number] for number in numbers.tolist()] for log in group], dtype=np.float64).T
    accuracies = right.mean(axis=0)
    zero_or_one = bool(np.isin(right, (0.0, 1.0)).all())
    labels = tuple(log.gathered.label for log in group)
    ranks: tuple[tuple[int, int], ...] = ()
    distinguished = None
    values = [float(value) for value in accuracies]
    pairs = paired([[right]], zero_or_one=zero_or_one)
    if len(group) > 2:
        samples = resample_means(right, resamples=RESAMPLES)
        comparisons = compare_all(values, samples, "higher", len(numbers), pairs)
        ranks = tuple(comparisons.rank_intervals())
        distinguished = comparisons.told_apart
    chosen = [_column_by_question(log, "chosen", numbers) for log in group]
    models = [model_of(log.gathered.source.model) for log in group]
    shown = [] if len(group) > 12 else list(combinations(range(len(group)), 2))
    compared_pairs = []
    for one, other in shown or _pair_neighbours(values):
        first, second = right[:, one] > 0.5, right[:, other] > 0.5
        test = _test_pairs(right[:, one], right[:, other], pairs, (one, other), zero_or_one=zero_or_one)
        differing = (test.only_first + test.only_second) / len(numbers)
        stated = pairs.interval(one, other, len(numbers))
        interval = None if stated is None else (stated.low, stated.high)
        same_model = (
            models[one] == models[other] and group[one].gathered.source.task == group[other].gathered.source.task
        )
        pair = Pair(
            labels[one],
            labels[other],
            len(numbers),
            values[one] - values[other],
            interval,
            test.p_value,
            smallest_difference_of_differing(differing, len(numbers)) if differing else None,
            test.only_first,
            test.only_second,
            float((chosen[one] != chosen[other]).mean()),
            same_model,
        )
        compared_pairs.append(pair)
        is_distinguished = (
            bool(distinguished[one, other])
            if distinguished is not None
            else interval is not None and not interval[0] <= 0 <= interval[1]
        )
        if not is_distinguished and not same_model and len(shown) <= 3:
            detectable = "" if pair.seen is None else f"; {100 * pair.seen:.1f} points could be seen"
            detail = f"{values[one]:.1%} and {values[other]:.1%} on {len(numbers):,} questions{detectable}"
            findings.append(Finding(KINDS["not-told-apart"], f"{labels[one]} / {labels[other]}", detail))
        wrong = ~first & ~second & (chosen[one] != 0)
        if same_model and pair.changed == 0 and wrong.any():
            detail = f"all {len(numbers):,} answers are equal"
            findings.append(Finding(KINDS["same-answers"], f"{labels[one]} / {labels[other]}", detail))
        elif same_model:
            detail = (
                f"{values[one]:.1%} and {values[other]:.1%}; {differing:.1%} of the questions right in only one, "
                f"{pair.changed:.1%} answered otherwise"
            )
            findings.append(Finding(KINDS["versions-flip"], f"{labels[one]} / {labels[other]}", detail))
        if not same_model and wrong.sum() >= 10 and 1 - pair.changed >= SAME:
            detail = f"{1 - pair.changed:.1%} of {len(numbers):,} answers are equal, {int(wrong.sum())} of them wrong"
            findings.append(Finding(KINDS["same-answers"], f"{labels[one]} / {labels[other]}", detail))
    return Compared(labels, len(numbers), tuple(values), ranks, tuple(compared_pairs))


@dataclass(frozen=True)
class _Test:
    """The test of a difference between two logs. only_first, only_second: questions on which one log does better."""

    p_value: float
    only_first: int
    only_second: int


def _test_pairs(
    first: NDArray[Any], second: NDArray[Any], pairs: Paired, places: tuple[int, int], *, zero_or_one: bool
) -> _Test:
    """Test whether two logs differ: McNemar's test, or the test of the mean difference if answers are shares.

    Answers are shares if a question has several. zero_or_one: whether all are 0 or 1. pairs: the result of
    `paired` for all logs. places: the positions of the two logs among them.
    """
    if zero_or_one:
        exact = mcnemar((first > 0.5).tolist(), (second > 0.5).tolist())
        return _Test(exact.mid_p, exact.only_first, exact.only_second)
    difference = first - second
    p_value = pairs.p_value(*places, len(difference))
    return _Test(1.0 if p_value is None else p_value, int((difference > 0).sum()), int((difference < 0).sum()))


def _pair_neighbours(values: Sequence[float]) -> list[tuple[int, int]]:
    ranked = sorted(range(len(values)), key=lambda at: -values[at])
    return list(pairwise(ranked))
