"""A board's values, intervals, ranks and tiers, from the sealed evaluations of its entries."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.chosen import facts_of_models, takes
from registry.boards.definition import BoardDefinition, Column, evaluations_asked
from registry.boards.store import board_definition, column_entries, evaluations_of_entry, suite_definition
from registry.db import is_in
from registry.metrics import METRICS
from registry.metrics.averaging import Runs, average_over_tasks
from registry.metrics.catalogue import BESIDE, QUESTION_METRICS
from registry.queue.evaluations import choose_again
from registry.scores.clusters import Clusters, clusters_of
from registry.scores.intervals import (
    FUNCTIONS_OF_TWO_MEANS,
    ORDER_LOSS,
    base_metrics,
    lacks_questions,
    question_values_of_each,
    resting_on,
)
from registry.scores.outcomes import answers_in_runs, runs_over
from registry.statistics.bootstrap import (
    MINIMUM_QUESTIONS,
    RANK_RESAMPLES,
    SEED,
    Interval,
    combine,
    design_effect,
    percentile_intervals,
    resample_means,
    sampling_factor,
)
from registry.statistics.competition_ranks import ranks
from registry.statistics.order_loss import lift_of_means, limit_order_loss
from registry.statistics.paired import Paired, differing, enough_differ, paired, with_errors
from registry.statistics.ranks import rank_intervals, tiers
from registry.statistics.simultaneous import Comparisons, compare_all
from registry.tables import (
    Board,
    BoardEntry,
    Evaluation,
    EvaluationMetric,
    ModelRevision,
)

Array = NDArray[np.float64]

DECIMALS: Final = 12
"""Values are kept to so many in a snapshot: databases sum in different orders and differ beyond that."""
STEP: Final = 1e-6
"""By how much a mean is changed to measure how fast a function of it rises."""
MOST_OF_IT: Final = 0.5
"""A small task is named from this share of the uncertainty on."""
MOST_IN_MATRIX: Final = 40
"""Models of a column whose pairs are listed one by one; with more, the counts of each model's row are read."""


@dataclass(frozen=True)
class Above:
    """A model compared with the next higher-ranked model. difference: never negative, in the metric's units.

    p_value: two-sided, for this pair alone; p_holm: corrected for all pairs of the column. told_apart: whether the
    higher model is shown to be better, all pairs at once. All but `revision` and `difference` are None or False if the
    pair is not compared.
    """

    revision: ModelRevision
    difference: float
    standard_error: float | None
    p_value: float | None
    p_holm: float | None
    told_apart: bool

    def document(self) -> dict[str, Any]:
        """Return the form stored in a snapshot."""
        numbers = ("difference", "standard_error", "p_value", "p_holm")
        return {
            "model": self.revision.model.name,
            "revision": self.revision.number,
            **{name: _round(getattr(self, name)) for name in numbers},
            "told_apart": self.told_apart,
        }


@dataclass(frozen=True)
class Uncertainty:
    """A task with few questions, and its share of the variance of the mean over tasks: the models' mean, in [0, 1]."""

    task: str
    questions: int
    share: float


@dataclass(frozen=True)
class Together:
    """All pairs of a column's ranked models, compared at once.

    pairs: those compared. neighbours: pairs of models that are next to each other in the ranking.
    critical_value: as `Comparisons` has it. standard_error: the median pair's. matrix: if there are at most
    MOST_IN_MATRIX models, one text for each, best first, with one character for each model: "+" if the first is better,
    "-" if it is worse, "." if the two are not distinguished. uncertainty: the small task that most of the uncertainty
    comes from; None: there is none.
    """

    models: int
    pairs: int
    pairs_told_apart: int
    neighbours: int
    neighbours_told_apart: int
    critical_value: float | None
    standard_error: float | None
    matrix: list[str]
    uncertainty: "Uncertainty | None" = None

    def document(self) -> dict[str, Any]:
        """Return the form stored in a snapshot."""
        return asdict(self) | {
            "critical_value": _round(self.critical_value, 6),
            "standard_error": _round(self.standard_error),
            "uncertainty": None
            if self.uncertainty is None
            else asdict(self.uncertainty) | {"share": _round(self.uncertainty.share, 6)},
        }


@dataclass
class Standing:
    """A model revision in one column.

    samples: the column's value over the bootstrap's resamples; None: no interval.

    clusters: the number of independent units of the questions, None if each is independent; otherwise `samples` and the
    ranks and tiers from them are over resampled clusters, and only `interval` is over resampled questions.
    rank_low, rank_high, tier: of this model on its own; all_rank_low, all_rank_high, all_tier: of all models at once.
    tasks: each task's column, if all their questions have values; place: the model's row there. resting_on: the number
    of questions behind the interval; over several tasks the number from `Precision`. shares: each task's share of the
    variance, if that is known.
    """

    value: float | None
    n: int
    samples: Array | None = None
    interval: tuple[float, float] | None = None
    clusters: int | None = None
    cluster_interval: tuple[float, float] | None = None
    design_effect: float | None = None
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    tier: int | None = None
    all_rank_low: int | None = None
    all_rank_high: int | None = None
    all_tier: int | None = None
    above: Above | None = None
    tasks: Sequence["TaskColumn"] = ()
    place: int = 0
    resting_on: int = 0
    shares: tuple[float, ...] = ()

    @property
    def units(self) -> int:
        """Return the number of independent units behind its comparisons with others."""
        return self.clusters or self.resting_on

    def document(self) -> dict[str, Any]:
        """Return the form stored in a snapshot."""
        clustered = {
            "clusters": self.clusters,
            "cluster_interval": _round_interval(self.cluster_interval),
            "design_effect": _round(self.design_effect, 6),
        }
        return {
            "value": _round(self.value),
            "n": self.n,
            "interval": _round_interval(self.interval),
            **({} if self.clusters is None else clustered),
            "rank": self.rank,
            "rank_interval": None if self.rank_low is None else [self.rank_low, self.rank_high],
            "tier": self.tier,
            "all_rank_interval": None if self.all_rank_low is None else [self.all_rank_low, self.all_rank_high],
            "all_tier": self.all_tier,
            "above": None if self.above is None else self.above.document(),
        }


def _round(value: float | None, decimals: int = DECIMALS) -> float | None:
    return None if value is None else round(value, decimals) + 0.0


def _round_interval(interval: tuple[float, float] | None) -> list[float | None] | None:
    return None if interval is None else [_round(end) for end in interval]


Placed = tuple[ModelRevision, Standing]


@dataclass
class BoardRow:
    """A model revision on a board. evaluations: the sealed evaluation behind each entry; None if there is none."""

    revision: ModelRevision
    evaluations: list[Evaluation | None]
    standings: dict[str, Standing] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether every entry has a sealed evaluation of all its questions: only then the model is ranked."""
        return all(evaluation is not None for evaluation in self.evaluations)


@dataclass(frozen=True)
class BoardStandings:
    """A board: its rows by name and revision, and the compared pairs of each column."""

    rows: list[BoardRow]
    together: dict[str, Together]


@dataclass(frozen=True)
class _Means:
    """Per-question values of one task and column: (questions,) for each base metric; NaN if undefined.

    clusters: as for `resample_means`; None if all questions are independent.
    """

    base: tuple[Array, ...]
    clusters: Clusters | None


def board_standings(session: Session, board: Board) -> BoardStandings:
    """Compute the standings of every model revision with a sealed evaluation of the board, by name and revision.

    Intervals and rank intervals come from one bootstrap over questions: RANK_RESAMPLES draws, seed SEED plus the task's
    number, the same draws for all models and columns, so that models are compared on the same questions. If questions
    belong together, clusters are drawn for the ranks, and for a second interval.
    """
    definition = board_definition(board)
    columns = definition.parsed_columns
    entries = list(board.entries)
    answered = [evaluations_of_entry(session, entry) for entry in entries]
    revisions = session.scalars(
        select(ModelRevision).where(ModelRevision.id.in_({key for found in answered for key in found}))
    )
    rows = [
        BoardRow(revision, [found.get(revision.id) for found in answered])
        for revision in sorted(revisions, key=lambda revision: (revision.model.name, revision.number))
    ]
    if definition.models is not None:
        known_facts = facts_of_models(session, [(row.revision, row.evaluations) for row in rows])
        chosen = [number for number, facts in enumerate(known_facts) if takes(definition.models, facts)]
        rows = [row for number, row in enumerate(rows) if number in set(chosen)]
    tasks = list(dict.fromkeys(entry.task for entry in entries))
    numbers = task_numbers(board)
    weights = weights_of(definition, tasks)
    by_task = [
        task_standings(session, [entry for entry in entries if entry.task == task], columns, rows, SEED + numbers[task])
        for task in tasks
    ]
    placed, together = standings_over(
        columns, [(number, row.revision, row.complete) for number, row in enumerate(rows)], by_task, weights
    )
    for row, of_row in zip(rows, placed, strict=True):
        row.standings = of_row
    return BoardStandings(rows, together)


def task_numbers(board: Board) -> dict[str, int]:
    """Map each task of the board's suite to its number there, from which the seed of its draws is computed.

    It is the same on a board that leaves out some of the tasks, so that both draw the same questions.
    """
    asked = evaluations_asked(suite_definition(board.suite), board_definition(board).benchmarks)
    return {task: number for number, task in enumerate(dict.fromkeys(one.task for one in asked))}


def weights_of(definition: BoardDefinition, tasks: Sequence[str]) -> list[int] | None:
    """Return the weight of each task; None if all are equal."""
    weights = [definition.weights.get(task, 1) for task in tasks]
    return None if len(set(weights)) == 1 else weights


def standings_over(
    columns: Sequence[Column],
    rows: Sequence[tuple[int, ModelRevision, bool]],
    by_task: Sequence[Mapping[str, "TaskColumn"]],
    weights: Sequence[int] | None,
    compared: Collection[str] | None = None,
) -> tuple[list[dict[str, Standing]], dict[str, Together]]:
    """Return for each row column to standing, and for each column the comparison of all pairs.

    rows: their positions in the tasks' columns, revisions, and whether they are complete. by_task: for each task the
    result of `task_standings`. weights: from `weights_of`. compared: names of columns in which models have ranks with
    the interval of all at once, and neither tiers nor neighbours; in other columns they only have values, intervals and
    ranks. None: everything in every column.
    """
    found: list[dict[str, Standing]] = [{} for _ in rows]
    together = {}
    for column in columns:
        tasks = [of_task[column.name] for of_task in by_task]
        over = _average_tasks(column.metric, tasks, [place for place, *_ in rows], weights)
        for standings, standing in zip(found, over, strict=True):
            standings[column.name] = standing
    for column in columns:
        complete = [
            (revision, standings[column.name])
            for (_, revision, whole), standings in zip(rows, found, strict=True)
            if whole
        ]
        known = _rank(column.metric, complete)
        pairs = _compare(column.metric, known, weights) if compared is None or column.name in compared else None
        if pairs is not None and compared is None:
            together[column.name] = _place(column.metric, known, pairs)
    return found, together


@dataclass(frozen=True)
class TaskValues:
    """A model's values of one task and column. base: (questions,) for each base metric, NaN if undefined."""

    base: tuple[Array, ...]


@dataclass
class TaskStanding:
    """One model, one task, one column. means: the base metrics' means; samples: (resamples, base).

    resting_on: the number of questions behind its interval. clustered, clusters: samples over resampled clusters and
    the number of clusters, if questions belong together. values: per question; None for metrics over runs or cells.
    stated: the interval of the one evaluation behind it, as its own page states it; None if there are several or none.
    """

    value: float | None
    n: int
    means: tuple[float | None, ...] = ()
    samples: Array | None = None
    resting_on: int = 0
    clustered: Array | None = None
    clusters: int | None = None
    values: TaskValues | None = None
    stated: tuple[float, float] | None = None


@dataclass(frozen=True)
class TaskColumn:
    """One column on one task: the standing of each row, and arrays that every selection of the rows reuses.

    factor: from `sampling_factor`, below 1 if the task's questions are a sample. task: its name.
    """

    metric: str
    standings: Sequence[TaskStanding]
    factor: float = 1.0
    task: str = ""

    @cached_property
    def alone(self) -> list[tuple[Array, ...] | None]:
        """Return for each row the values to average over tasks in each resample; None without resamples."""
        return [
            None if standing.samples is None else _average_samples(self.metric, standing.samples)
            for standing in self.standings
        ]

    @cached_property
    def together(self) -> list[tuple[Array, ...] | None]:
        """Return the same over resampled clusters, if questions belong together."""
        return [
            drawn if standing.clustered is None else _average_samples(self.metric, standing.clustered)
            for standing, drawn in zip(self.standings, self.alone, strict=True)
        ]

    @cached_property
    def in_clusters(self) -> list[bool]:
        """Return for each row whether it has resampled clusters."""
        return [standing.clustered is not None for standing in self.standings]

    @cached_property
    def resting_on(self) -> list[int]:
        """Return for each row the number of questions behind its interval."""
        return [standing.resting_on for standing in self.standings]

    @cached_property
    def base(self) -> tuple[Array, ...]:
        """Stack the base metrics of the questions, each of shape (rows, questions); NaN if missing.

        Empty if no row has any.
        """
        known = [(row, standing.values) for row, standing in enumerate(self.standings) if standing.values is not None]
        if not known:
            return ()
        shape = (len(self.standings), len(known[0][1].base[0]))
        parts = tuple(np.full(shape, np.nan) for _ in known[0][1].base)
        for row, values in known:
            for part, standing in zip(parts, values.base, strict=True):
                part[row] = standing
            # From now on a view of the stacked rows, so that nothing is in memory twice.
            self.standings[row].values = replace(values, base=tuple(part[row] for part in parts))
        return parts

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Return the sums of squared and fourth-power deviations of each row's questions from their mean, each (rows,).

        For a metric computed from two means, a question's deviation is its part in the value's, to first order.
        """
        known = ~np.isnan(self.base[0])
        counts = np.maximum(1, known.sum(axis=1))[:, np.newaxis]
        apart = [np.where(known, part, 0.0) for part in self.base]
        means = [part.sum(axis=1, keepdims=True) / counts for part in apart]
        apart = [np.where(known, part - mean, 0.0) for part, mean in zip(apart, means, strict=True)]
        function = FUNCTIONS_OF_TWO_MEANS.get(self.metric)
        total = apart[0]
        if function is not None:
            slopes = _slopes(function.function, *means)
            total = slopes[0] * apart[0] + slopes[1] * apart[1]
        return np.einsum("ij,ij->i", total, total), np.einsum("ij,ij,ij,ij->i", total, total, total, total)

    @cached_property
    def differing(self) -> NDArray[np.uint16]:
        """Return `registry.statistics.paired.differing` for the rows."""
        return differing([part.T for part in self.base])


def _slopes(function: Callable[..., Array], first: Array, second: Array) -> tuple[Array, Array]:
    """Return how fast a function of two means rises with either; 0 if it is undefined there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = (function(first + STEP, second) - function(first - STEP, second)) / (2 * STEP)
        other = (function(first, second + STEP) - function(first, second - STEP)) / (2 * STEP)
    return np.nan_to_num(one, posinf=0.0, neginf=0.0), np.nan_to_num(other, posinf=0.0, neginf=0.0)


def _average_samples(metric: str, samples: Array) -> tuple[Array, ...]:
    """Return both means for a share of the first mean, else the metric over each resample; NaN if undefined."""
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is None:
        return (samples[:, 0],)
    both = samples[:, 0], samples[:, 1]
    return both if function.share_of_first else (combine(function.function, *both),)


def task_standings(
    session: Session, entries: Sequence[BoardEntry], columns: Sequence[Column], rows: Sequence[BoardRow], seed: int
) -> dict[str, TaskColumn]:
    """Map each column to the rows' standings on one task. The questions of joined benchmarks are pooled."""
    found: list[dict[str, TaskStanding]] = [{} for _ in rows]
    drawn: list[tuple[int, str, _Means]] = []
    alone: list[tuple[int, str, TaskStanding]] = []
    questions = {entry.ordinal: _question_ids(session, entry) for entry in entries}
    needed = {name for column in columns for name in base_metrics(column.metric)}
    needed |= {BESIDE[name] for name in needed if name in BESIDE}
    names = [name for name in QUESTION_METRICS if name in needed]
    of_entries: dict[int, dict[int, dict[str, Array]]] = {}

    def values_of(entry: BoardEntry) -> dict[int, dict[str, Array]]:
        """Map each evaluation of the entry to its values, by a few statements for all of them."""
        if entry.ordinal not in of_entries:
            ids = [evaluation.id for row in rows if (evaluation := _evaluation(row, entry)) is not None]
            of_each = question_values_of_each(session, ids, questions[entry.ordinal], names)
            of_entries[entry.ordinal] = dict(of_each)
        return of_entries[entry.ordinal]

    grouped: dict[tuple[int, ...], Clusters | None] = {}
    for column in columns:
        of_column = column_entries("", column, entries)[entries[0].task]
        pooled = tuple(question for entry in of_column for question in questions[entry.ordinal])
        if pooled not in grouped:
            grouped[pooled] = clusters_of(session, pooled)
        metric = METRICS[column.metric]
        for number, row in enumerate(rows):
            evaluations = [_evaluation(row, entry) for entry in of_column]
            if any(evaluation is None for evaluation in evaluations):
                found[number][column.name] = TaskStanding(None, 0)
                continue
            known = [evaluation for evaluation in evaluations if evaluation is not None]
            parts = [values_of(entry)[evaluation.id] for entry, evaluation in zip(of_column, known, strict=True)]
            if metric.over_runs is not None:
                runs, n = _runs(session, known, [questions[entry.ordinal] for entry in of_column])
                found[number][column.name] = TaskStanding(metric.over_runs(runs), n)
                continue
            of_metric = base_metrics(column.metric)
            beside = [BESIDE[name] for name in of_metric if name in BESIDE]
            values = {name: np.concatenate([part[name] for part in parts]) for name in (*of_metric, *beside)}
            base = [values[name] for name in of_metric]
            # Functions of two means are taken over the questions that have both.
            undefined = np.isnan(np.stack(base)).any(axis=0)
            undefined |= lacks_questions(column.metric, values)
            means = _Means(tuple(np.where(undefined, np.nan, values) for values in base), grouped[pooled])
            drawn.append((number, column.name, means))
            found[number][column.name] = _standing_of_means(column.metric, means)
            found[number][column.name].values = TaskValues(means.base)
            if len(known) == 1:
                alone.append((known[0].id, column.metric, found[number][column.name]))
    _take_stated(session, alone)
    factor = min(map(_factor, entries))
    _draw(found, drawn, seed, factor)
    task = entries[0].task
    return {
        column.name: TaskColumn(column.metric, [standings[column.name] for standings in found], factor, task)
        for column in columns
    }


def _take_stated(session: Session, alone: Sequence[tuple[int, str, TaskStanding]]) -> None:
    """Give each standing with one evaluation the interval that is stored for the same value over the same questions.

    Otherwise a board and the page of an evaluation would state two intervals of one number.
    """
    metric_row = EvaluationMetric
    query = (
        select(
            metric_row.evaluation_id,
            metric_row.metric,
            metric_row.value,
            metric_row.n,
            metric_row.interval_low,
            metric_row.interval_high,
        )
        .where(
            metric_row.scope == "all",
            metric_row.metric.in_({name for _, name, _ in alone}),
            metric_row.interval_high.is_not(None),
        )
        .where(is_in(metric_row.evaluation_id, sorted({number for number, *_ in alone})))
        .order_by(metric_row.definition_version)
    )
    stored = {(row[0], row[1]): row[2:] for row in session.execute(query)}
    for number, name, standing in alone:
        value, n, low, high = stored.get((number, name), (None, 0, None, None))
        if value is None or low is None or high is None or standing.value is None or n != standing.n:
            continue
        if abs(value - standing.value) < 1e-9:
            standing.stated = (low, high)


def _evaluation(row: BoardRow, entry: BoardEntry) -> Evaluation | None:
    return row.evaluations[entry.ordinal]


def _factor(entry: BoardEntry) -> float:
    """Return the factor of standard errors on an entry's questions: below 1 if they are a sample."""
    sample = entry.question_filter.get("sample")
    return 1.0 if sample is None else sampling_factor(sample["questions"], sample["of"])


def _draw(found: list[dict[str, TaskStanding]], drawn: list[tuple[int, str, _Means]], seed: int, factor: float) -> None:
    """Resample all columns of all models at once that are over the same number of questions, as they are.

    factor: of `sampling_factor`.
    """
    alike: dict[tuple[int, bytes | None], list[tuple[int, str, _Means]]] = {}
    for item in drawn:
        clusters = item[2].clusters
        key = (len(item[2].base[0]), None if clusters is None else clusters.tobytes())
        alike.setdefault(key, []).append(item)
    for items in alike.values():
        stacked = np.stack([values for _, _, means in items for values in means.base], axis=1)
        clusters = items[0][2].clusters
        # Each model's own lie side by side: selections add them up again and again.
        samples = np.asfortranarray(resample_means(stacked, resamples=RANK_RESAMPLES, seed=seed, factor=factor))
        together = None
        if clusters is not None:
            drawn_clusters = resample_means(
                stacked, resamples=RANK_RESAMPLES, seed=seed, clusters=clusters, factor=factor
            )
            together = np.asfortranarray(drawn_clusters)
        place = 0
        for number, name, means in items:
            own = slice(place, place + len(means.base))
            standing = found[number][name]
            standing.samples = samples[:, own]
            if together is not None and clusters is not None:
                standing.clustered, standing.clusters = together[:, own], int(clusters.max()) + 1
            place = own.stop


def _standing_of_means(metric: str, means: _Means) -> TaskStanding:
    averages = tuple(_mean(values) for values in means.base)
    n = int(np.count_nonzero(~np.isnan(means.base[0])))
    combine = FUNCTIONS_OF_TWO_MEANS.get(metric)
    value = combine.value(*averages) if combine else averages[0]
    return TaskStanding(value, n, averages, resting_on=resting_on(metric, means.base))


def _mean(values: Array) -> float | None:
    defined = values[~np.isnan(values)]
    return math.fsum(defined.tolist()) / len(defined) if len(defined) else None


def _average_tasks(
    metric: str, tasks: Sequence[TaskColumn], rows: Sequence[int], weights: Sequence[int] | None
) -> list[Standing]:
    """Return for each row the mean over its tasks, unweighted without `weights`; None if any task has none.

    A share of the first mean is computed from the two macro means.
    """

    def by_row(of_tasks: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        return zip(*([of_task[row] for row in rows] for of_task in of_tasks), strict=True)

    standings_of = list(by_row(task.standings for task in tasks))
    found = [_value_over(metric, standings, weights) for standings in standings_of]
    drawn: list[tuple[Standing, Array, int]] = []
    clustered: list[tuple[Standing, Array, int]] = []
    compared = tasks if all(task.base for task in tasks) else ()
    precise = _precisions(tasks, rows, weights) if compared and len(tasks) > 1 else None
    for number, (row, standing, standings, parts, units, in_clusters) in enumerate(
        zip(
            rows,
            found,
            standings_of,
            by_row(task.alone for task in tasks),
            by_row(task.resting_on for task in tasks),
            by_row(task.in_clusters for task in tasks),
            strict=True,
        )
    ):
        if standing.value is None:
            continue
        alone = _macro_samples(metric, parts, weights)
        if alone is None:
            continue
        precision = None if precise is None else precise[number]
        standing.samples = alone
        standing.resting_on = min(units) if precision is None else precision.questions(units)
        standing.shares = () if precision is None else precision.shares
        standing.tasks, standing.place = compared, row
        drawn.append((standing, _stretch_samples(alone, precision, min(units)), standing.resting_on))
        if any(in_clusters):
            together = _macro_samples(metric, [task.together[row] for task in tasks], weights)
            if together is not None:
                of_tasks = [standing_of_task.clusters or standing_of_task.resting_on for standing_of_task in standings]
                standing.samples = together
                standing.clusters = sum(
                    standing_of_task.clusters or standing_of_task.n for standing_of_task in standings
                )
                standing.design_effect = design_effect(together, alone)
                number_of = min(of_tasks) if precision is None else precision.questions(of_tasks)
                clustered.append((standing, _stretch_samples(together, precision, min(of_tasks)), number_of))
    for standing, ends in _ends(metric, drawn):
        standing.interval = ends
    if len(tasks) == 1:
        for standing, (standing_of_task,) in zip(found, standings_of, strict=True):
            standing.interval = standing_of_task.stated or standing.interval
    for standing, ends in _ends(metric, clustered):
        standing.cluster_interval = ends
    return found


@dataclass(frozen=True)
class Precision:
    """How precise a mean over tasks is.

    shares: each task's share of its variance; at_worst: likewise, if a task of fewer than MINIMUM_QUESTIONS has the
    largest variance that it can have. stretch: see `_precisions`.
    """

    shares: tuple[float, ...]
    at_worst: tuple[float, ...]
    stretch: float

    def questions(self, units: Sequence[int]) -> int:
        """Return the questions that the mean rests on: 1 more than Satterthwaite's degrees of freedom.

        units: how many questions, or clusters, each task has. A small task counts with its
        largest possible variance: by the measured variance, an interval would be stated exactly when it is too small.
        """
        uncertain = sum(share**2 / max(1, count - 1) for share, count in zip(self.at_worst, units, strict=True))
        return int(1 / uncertain + 1 + 1e-6) if uncertain > 0 else sum(units)


def _precisions(tasks: Sequence[TaskColumn], rows: Sequence[int], weights: Sequence[int] | None) -> list[Precision]:
    """Return the precision of the mean over tasks, for each row.

    A few questions with equal values determine a task's variance poorly. So two are added to each task, with the
    deviations h and −h, where h² = Σx⁴/Σx² over all tasks is the square of a typical deviation. stretch: the factor by
    which this raises the standard deviation.
    Source: Satterthwaite, *An Approximate Distribution of Estimates of Variance Components* (1946).
    """
    times = [1] * len(tasks) if weights is None else weights
    of_rows = np.asarray(rows, dtype=np.intp)
    second = np.stack([task.moments[0][of_rows] for task in tasks])
    fourth = np.stack([task.moments[1][of_rows] for task in tasks])
    n = np.stack([np.array([of.n for of in task.standings], dtype=np.float64)[of_rows] for task in tasks])
    scale = np.array([(of * task.factor) ** 2 for of, task in zip(times, tasks, strict=True)])[:, np.newaxis]
    total = second.sum(axis=0)
    typical = np.divide(fourth.sum(axis=0), total, out=np.zeros_like(total), where=total > 0)
    numbers = np.maximum(1.0, n)
    variances = scale * (second + 2 * typical) / (n + 2) / numbers
    metric = METRICS[tasks[0].metric]
    largest = np.inf if metric.low is None or metric.high is None else (metric.high - metric.low) ** 2 / 4
    at_worst = np.where(n < MINIMUM_QUESTIONS, np.maximum(variances, scale * largest / numbers), variances)
    resampled = (scale * second / numbers**2).sum(axis=0)
    stretch = np.sqrt(np.divide(variances.sum(axis=0), resampled, out=np.ones_like(total), where=resampled > 0))
    return [
        Precision(tuple(shares), tuple(largest_shares), max(1.0, by))
        for shares, largest_shares, by in zip(
            _shares(variances).T.tolist(), _shares(at_worst).T.tolist(), stretch.tolist(), strict=True
        )
    ]


def _shares(variances: Array) -> Array:
    """Return each task's share, shape (tasks, rows); all is that of tasks whose variance is not bounded."""
    unbounded = np.isinf(variances)
    variances = np.where(unbounded.any(axis=0), unbounded, variances)
    whole = variances.sum(axis=0)
    return np.asarray(np.divide(variances, whole, out=np.zeros(variances.shape), where=whole > 0))


def _stretch_samples(samples: Array, precision: Precision | None, fewest: int) -> Array:
    """Return resampled values with larger deviations, if a task has too few questions for its variance to be known."""
    if precision is None or fewest >= MINIMUM_QUESTIONS or precision.stretch == 1.0:
        return samples
    middle = np.nanmean(samples)
    return np.asarray(middle + precision.stretch * (samples - middle))


def _value_over(metric: str, tasks: Sequence[TaskStanding], weights: Sequence[int] | None) -> Standing:
    """Return the value over tasks, without anything computed from resamples."""
    n = sum([task.n for task in tasks])
    values = [task.value for task in tasks]
    if None in values:
        return Standing(None, n)
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is not None and function.share_of_first:
        value = average_over_tasks(function, [task.means for task in tasks], weights)
    else:
        value = average_over_tasks(None, list(zip(values, strict=True)), weights)
    return Standing(value, n)


def _macro_samples(
    metric: str, of_tasks: Sequence[tuple[Array, ...] | None], weights: Sequence[int] | None
) -> Array | None:
    """Return the column's value over the resamples, from `_average_samples` of each task; None if any has none."""
    if None in of_tasks:
        return None
    means = [_average(parts, weights) for parts in zip(*filter(None, of_tasks), strict=True)]
    return means[0] if len(means) == 1 else combine(FUNCTIONS_OF_TWO_MEANS[metric].function, *means)


def _average(parts: Sequence[Array], weights: Sequence[int] | None) -> Array:
    """Compute `np.average` of the parts without a table of them."""
    if len(parts) == 1:
        return parts[0]
    times = [1] * len(parts) if weights is None else weights
    total = times[0] * parts[0]
    scaled = np.empty_like(total)
    for times_of_task, part in zip(times[1:], parts[1:], strict=True):
        total += part if times_of_task == 1 else np.multiply(part, times_of_task, out=scaled)
    total /= sum(times)
    return total


def _ends(
    metric: str, drawn: Sequence[tuple[Standing, Array, int]]
) -> list[tuple[Standing, tuple[float, float] | None]]:
    """Return each standing with its interval. drawn: standings with resampled values and the number of units."""
    if not drawn:
        return []
    found = percentile_intervals(np.stack([samples for _, samples, _ in drawn]), [units for *_, units in drawn])
    if metric == ORDER_LOSS:
        found = [
            None if ends is None else limit_order_loss(ends, units, lift=lift_of_means(samples))
            for (_, samples, units), ends in zip(drawn, found, strict=True)
        ]
    return [(standing, _interval(ends)) for (standing, *_), ends in zip(drawn, found, strict=True)]


def _interval(found: Interval | None) -> tuple[float, float] | None:
    return None if found is None else (found.low, found.high)


def _rank(metric: str, standings: Sequence[Placed]) -> list[Placed]:
    """Set the ranks of complete models; return those with a value."""
    known = [(revision, standing) for revision, standing in standings if standing.value is not None]
    values = [standing.value for _, standing in known]
    for (_, standing), rank in zip(known, ranks(values, METRICS[metric].better), strict=True):
        standing.rank = rank
    return known


@dataclass(frozen=True)
class _Compared:
    """All pairs of a column's models, compared at once.

    samples: shape (resamples, models). questions, pairs: as for `compare_all`.
    """

    samples: Array
    questions: int | None
    pairs: Paired | None
    all_at_once: Comparisons


def _compare(metric: str, known: Sequence[Placed], weights: Sequence[int] | None) -> _Compared | None:
    """Compare all models, and set their ranks' intervals of all at once; None without a bootstrap."""
    better = METRICS[metric].better
    sampled = [standing.samples for _, standing in known]
    if better == "neither" or not known or any(samples is None for samples in sampled):
        return None
    matrix = np.stack([samples for samples in sampled if samples is not None]).T
    pairs = _paired(metric, [standing for _, standing in known], matrix, weights)
    questions: int | None = min(standing.units for _, standing in known)
    if pairs is not None and pairs.freedom is not None and _enough_together(known):
        questions = None  # each pair has its own degrees of freedom
    compared = compare_all([standing.value for _, standing in known], matrix, better, questions, pairs)
    for (_, standing), everywhere in zip(known, compared.rank_intervals(), strict=True):
        standing.all_rank_low, standing.all_rank_high = everywhere
    return _Compared(matrix, questions, pairs, compared)


def _place(metric: str, known: Sequence[Placed], compared: _Compared) -> Together:
    """Set each model's own rank interval, its tiers and neighbours; return the comparison of all pairs."""
    better, values = METRICS[metric].better, [standing.value for _, standing in known]
    for (_, standing), interval, tier, shared in zip(
        known,
        rank_intervals(compared.samples, better),
        tiers(values, compared.samples, better, compared.questions, compared.pairs),
        compared.all_at_once.tiers(values, better),
        strict=True,
    ):
        if interval is not None:
            standing.rank_low, standing.rank_high = interval
        standing.tier = None if tier is None else tier.number
        standing.all_tier = None if shared is None else shared.number
    return _together(known, compared.all_at_once, better)


def _enough_together(known: Sequence[Placed]) -> bool:
    """Return whether every model has MINIMUM_QUESTIONS questions, or clusters of them, over all tasks together."""
    return min(standing.clusters or standing.n for _, standing in known) >= MINIMUM_QUESTIONS


def _paired(
    metric: str, standings: Sequence[Standing], samples: Array, weights: Sequence[int] | None = None
) -> Paired | None:
    """Compare every pair by the questions; None for metrics over runs or cells, which questions have no value of.

    samples: shape (resamples, models). If questions belong together, errors are at least those over the clusters.
    """
    tasks, places = standings[0].tasks, [standing.place for standing in standings]
    if not tasks:
        return None
    factors = [task.factor for task in tasks]
    if METRICS[metric].zero_or_one:
        values = [[part[places].T for part in task.base] for task in tasks]
        pairs = paired(values, zero_or_one=True, weights=weights, factors=factors)
    else:
        pairs = enough_differ([task.differing for task in tasks]).of(places)
        if metric not in FUNCTIONS_OF_TWO_MEANS:
            times = [1] * len(tasks) if weights is None else weights
            pairs = with_errors(pairs.enough, [task.base[0][places].T for task in tasks], times, factors)
    if all(standing.clusters is None for standing in standings):
        return pairs
    return pairs.at_least(np.sqrt(_variances_of_differences(samples)))


def _variances_of_differences(samples: Array) -> Array:
    """Return the variance of each pair's difference, shape (models, models), from samples (resamples, models)."""
    centred = np.nan_to_num(samples - np.nanmean(samples, axis=0))
    together = centred.T @ centred / len(samples)
    own = np.diag(together)
    return np.asarray(np.maximum(0.0, np.add.outer(own, own) - 2 * together))


def _together(known: Sequence[Placed], compared: Comparisons, better: str) -> Together:
    """Summarise the comparisons of all pairs, and compare every standing except the first with the one above it."""
    apart = compared.told_apart
    order = sorted(range(len(known)), key=lambda place: known[place][1].value or 0.0, reverse=better == "higher")
    own, holm = compared.p_values(order[:-1], order[1:])
    for place, (one, next_one) in enumerate(pairwise(order)):
        first, second = known[one][1].value, known[next_one][1].value
        known[next_one][1].above = Above(
            known[one][0],
            abs((first or 0.0) - (second or 0.0)),
            _number(compared.standard_errors[one, next_one]),
            _number(own[place]),
            _number(holm[place]),
            bool(apart[one, next_one]),
        )
    errors = compared.standard_errors[np.triu(~np.isnan(compared.standard_errors), 1)]
    return Together(
        models=len(known),
        pairs=errors.size,
        pairs_told_apart=int(apart.sum()) // 2,
        neighbours=len(known) - 1,
        neighbours_told_apart=sum(bool(apart[pair]) for pair in pairwise(order)),
        critical_value=compared.critical_value,
        standard_error=float(np.median(errors)) if errors.size else None,
        matrix=_matrix(compared, order) if len(order) <= MOST_IN_MATRIX else [],
        uncertainty=_uncertainty([standing for _, standing in known]),
    )


def _uncertainty(known: Sequence[Standing]) -> Uncertainty | None:
    """Return the task that more than MOST_OF_IT of the uncertainty comes from, if it is small.

    Small is a task with at most half as many questions as the median one of the others.
    """
    shared = [standing for standing in known if standing.shares]
    if not shared:
        return None
    shares = np.mean([standing.shares for standing in shared], axis=0)
    largest = int(shares.argmax())
    sizes = [max(item.n for item in task.standings) for task in shared[0].tasks]
    others = [size for place, size in enumerate(sizes) if place != largest]
    if shares[largest] < MOST_OF_IT or 2 * sizes[largest] > float(np.median(others)):
        return None
    return Uncertainty(shared[0].tasks[largest].task, sizes[largest], float(shares[largest]))


def _matrix(compared: Comparisons, order: Sequence[int]) -> list[str]:
    def sign(one: int, other: int) -> str:
        return "+" if compared.beats[one, other] else "-" if compared.beats[other, one] else "."

    return ["".join(sign(one, other) for other in order) for one in order]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def pool_questions(session: Session, entries: Sequence[BoardEntry], column: Column) -> list[int]:
    """Return the questions of a column on one task, given by its entries, in their order."""
    of_column = column_entries("", column, entries)[entries[0].task]
    return [question for entry in of_column for question in _question_ids(session, entry)]


def _question_ids(session: Session, entry: BoardEntry) -> list[int]:
    found, _ = choose_again(session, entry.benchmark_version, entry.question_filter)
    return [question.id for question in found]


def _runs(
    session: Session,
    evaluations: Sequence[Evaluation],
    questions: Sequence[Sequence[int]],
) -> tuple[Runs, int]:
    """Return the runs over the pooled questions, and the number of these questions."""
    return runs_over(
        answer
        for evaluation, question_ids in zip(evaluations, questions, strict=True)
        for answer in answers_in_runs(session, evaluation, question_ids)
    )
