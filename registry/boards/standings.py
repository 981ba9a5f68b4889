"""Compute a board's values, intervals, ranks and tiers from the sealed evaluations of its entries."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
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
from registry.metrics.catalogue import COMPARED_WITH, QUESTION_METRICS
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
from registry.statistics.paired import Paired, differing, enough_differ, paired, squared_differences, with_errors
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
"""Decimals of values in a snapshot: databases sum in different orders, so further decimals may differ."""
STEP: Final = 1e-6
"""Step by which a mean is changed to approximate the derivative of a function of it."""
MOST_OF_IT: Final = 0.5
"""Share of the uncertainty from which a small task is named."""
MOST_IN_MATRIX: Final = 40
"""Maximum number of models whose pairs are listed; with more, readers use the counts in each model's row."""


@dataclass(frozen=True)
class Above:
    """A model's comparison with the next higher-ranked model. difference: never negative, in the metric's units.

    p_value: two-sided, for this pair alone. p_holm: corrected for all pairs of the column. told_apart: whether the
    higher model is significantly better when all pairs are tested together. If the pair is not compared, told_apart is
    False and the other numbers except `difference` are None.
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
    """A task with few questions that causes much of the uncertainty.

    share: its share of the variance of the mean over tasks, averaged over the models, in [0, 1].
    """

    task: str
    questions: int
    share: float


@dataclass(frozen=True)
class Together:
    """The comparison of all pairs of a column's ranked models.

    pairs: number of compared pairs. neighbours: number of pairs that are next to each other in the ranking.
    critical_value: see `Comparisons`. standard_error: the median pair's. matrix: empty if there are more than
    MOST_IN_MATRIX models, otherwise one text for each model, best first, with one character for each model: "+" if the
    first model is better, "-" if it is worse, "." if the two are not distinguished. uncertainty: the small task that
    causes most of the uncertainty; None if there is none.
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
    """A model revision's value, interval, ranks and tiers in one column.

    samples: the column's value in each resample of the bootstrap; None if there is no interval.

    clusters: number of independent units if questions belong together, else None. With clusters, `samples` and the
    ranks and tiers computed from it are over resampled clusters, and only `interval` is over resampled questions.
    rank_low, rank_high, tier: for this model separately; all_rank_low, all_rank_high, all_tier: for all models
    together.
    tasks: each task's column, if all questions have values; place: the model's row in these. resting_on: number of
    questions behind the interval; over several tasks the number from `Precision`. shares: each task's share of the
    variance, if known.
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
        """Return the number of independent units, clusters or else questions, behind its comparisons with others."""
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
    """A model revision on a board. evaluations: the sealed evaluation for each entry; None if there is none."""

    revision: ModelRevision
    evaluations: list[Evaluation | None]
    standings: dict[str, Standing] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether every entry has a sealed evaluation of all its questions; only then is the model ranked."""
        return all(evaluation is not None for evaluation in self.evaluations)


@dataclass(frozen=True)
class BoardStandings:
    """The standings of a board. rows: by name and revision. together: the comparison of all pairs, by column."""

    rows: list[BoardRow]
    together: dict[str, Together]


@dataclass(frozen=True)
class _Means:
    """A model's values per question for one task and column.

    base: an array (questions,) for each base metric, NaN if undefined. clusters: see `resample_means`; None if all
    questions are independent.
    """

    base: tuple[Array, ...]
    clusters: Clusters | None


def board_standings(session: Session, board: Board) -> BoardStandings:
    """Compute the standings of every model revision that has a sealed evaluation on the board, by name and revision.

    Intervals and rank intervals come from one bootstrap over questions: RANK_RESAMPLES draws, seed SEED plus the task's
    number, the same draws for all models and columns, so that models are compared on the same questions. If questions
    belong together, clusters are drawn for the ranks and for a second interval.
    """
    definition = board_definition(board)
    columns = definition.parsed_columns
    entries = list(board.entries)
    answered = [evaluations_of_entry(session, entry) for entry in entries]
    revisions = session.scalars(
        select(ModelRevision).where(ModelRevision.id.in_({key for evaluations in answered for key in evaluations}))
    )
    rows = [
        BoardRow(revision, [evaluations.get(revision.id) for evaluations in answered])
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
    for row, standings in zip(rows, placed, strict=True):
        row.standings = standings
    return BoardStandings(rows, together)


def task_numbers(board: Board) -> dict[str, int]:
    """Map each task of the board's suite to its number, which is added to the seed of its draws.

    A board that leaves out some tasks has the same numbers, so that both boards draw the same questions.
    """
    evaluations = evaluations_asked(suite_definition(board.suite), board_definition(board).benchmarks)
    return {task: number for number, task in enumerate(dict.fromkeys(evaluation.task for evaluation in evaluations))}


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
    """Return (for each row a map from column to standing, for each column the comparison of all pairs).

    rows: (position in the tasks' columns, revision, whether it is complete). by_task: the result of `task_standings`
    for each task. weights: from `weights_of`. compared: None computes everything in every column. Otherwise no column
    has tiers, neighbours or a comparison of pairs, and only the columns named here have rank intervals for all models
    together.
    """
    results: list[dict[str, Standing]] = [{} for _ in rows]
    comparisons = {}
    for column in columns:
        tasks = [columns_of_task[column.name] for columns_of_task in by_task]
        averaged = _average_tasks(column.metric, tasks, [place for place, *_ in rows], weights)
        for standings, standing in zip(results, averaged, strict=True):
            standings[column.name] = standing
    for column in columns:
        complete = [
            (revision, standings[column.name])
            for (_, revision, is_complete), standings in zip(rows, results, strict=True)
            if is_complete
        ]
        known = _rank(column.metric, complete)
        pairs = _compare(column.metric, known, weights) if compared is None or column.name in compared else None
        if pairs is not None and compared is None:
            comparisons[column.name] = _place_models(column.metric, known, pairs)
    return results, comparisons


@dataclass(frozen=True)
class TaskValues:
    """A model's values on one task and column. base: an array (questions,) for each base metric, NaN if undefined."""

    base: tuple[Array, ...]


@dataclass
class TaskStanding:
    """A model's standing in one column on one task.

    means: of the base metrics; samples: shape (resamples, base metrics).
    resting_on: number of questions behind the interval. clustered, clusters: samples over resampled clusters and the
    number of clusters, if questions belong together. values: per question; None for metrics over runs or cells. stated:
    the interval on the page of the only evaluation behind the standing; None if there are several, or none is stored.
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
    """One column on one task: the standing of each row, and cached arrays for selections of rows.

    factor: from `sampling_factor`, below 1 if the task's questions are a sample. task: its name. kept: see `_keep`.
    """

    metric: str
    standings: Sequence[TaskStanding]
    factor: float = 1.0
    task: str = ""
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def question_samples(self) -> list[tuple[Array, ...] | None]:
        """Return for each row the resampled values that are averaged over tasks; None for a row without resamples."""
        return [
            None if standing.samples is None else _average_samples(self.metric, standing.samples)
            for standing in self.standings
        ]

    @cached_property
    def cluster_samples(self) -> list[tuple[Array, ...] | None]:
        """Return the values of `question_samples`, but over resampled clusters if questions belong together."""
        return [
            drawn if standing.clustered is None else _average_samples(self.metric, standing.clustered)
            for standing, drawn in zip(self.standings, self.question_samples, strict=True)
        ]

    @cached_property
    def base(self) -> tuple[Array, ...]:
        """Return the values of each base metric, (rows, questions), NaN if missing; empty if no row has values."""
        known = [(row, standing.values) for row, standing in enumerate(self.standings) if standing.values is not None]
        if not known:
            return ()
        shape = (len(self.standings), len(known[0][1].base[0]))
        parts = tuple(np.full(shape, np.nan) for _ in known[0][1].base)
        for row, values in known:
            for part, standing in zip(parts, values.base, strict=True):
                part[row] = standing
            # Each row becomes a view of the stacked array, so that nothing is in memory twice.
            self.standings[row].values = replace(values, base=tuple(part[row] for part in parts))
        return parts

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Return the sums of squared and fourth-power deviations of each row's questions from their mean, each (rows,).

        For a metric computed from two means, the deviation is a question's contribution to the metric, to first order.
        """
        known = ~np.isnan(self.base[0])
        counts = np.maximum(1, known.sum(axis=1))[:, np.newaxis]
        deviations = [np.where(known, part, 0.0) for part in self.base]
        means = [part.sum(axis=1, keepdims=True) / counts for part in deviations]
        deviations = [np.where(known, part - mean, 0.0) for part, mean in zip(deviations, means, strict=True)]
        function = FUNCTIONS_OF_TWO_MEANS.get(self.metric)
        total = deviations[0]
        if function is not None:
            slopes = _approximate_slopes(function.function, *means)
            total = slopes[0] * deviations[0] + slopes[1] * deviations[1]
        return np.einsum("ij,ij->i", total, total), np.einsum("ij,ij,ij,ij->i", total, total, total, total)

    @cached_property
    def differing(self) -> NDArray[np.uint16]:
        """Return the result of `registry.statistics.paired.differing` for the rows."""
        return differing([part.T for part in self.base])


def _keep(tasks: Sequence[TaskColumn], name: str, compute: Callable[[], Any], rows: Sequence[int] = ()) -> Any:
    """Return a result over these tasks and rows that no weight changes; the first task caches the last one."""
    key = [task.task for task in tasks], list(rows)
    kept = tasks[0].kept.get(name)
    if kept is None or kept[0] != key:
        kept = tasks[0].kept[name] = key, compute()
    return kept[1]


def _approximate_slopes(function: Callable[..., Array], first: Array, second: Array) -> tuple[Array, Array]:
    """Return the partial derivatives of a function of two means; 0 if it is undefined there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = (function(first + STEP, second) - function(first - STEP, second)) / (2 * STEP)
        other = (function(first, second + STEP) - function(first, second - STEP)) / (2 * STEP)
    return np.nan_to_num(one, posinf=0.0, neginf=0.0), np.nan_to_num(other, posinf=0.0, neginf=0.0)


def _average_samples(metric: str, samples: Array) -> tuple[Array, ...]:
    """Return the resampled values to average over tasks, NaN if undefined.

    They are both base means if the metric is a share of the first, otherwise the metric itself.
    """
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is None:
        return (samples[:, 0],)
    both = samples[:, 0], samples[:, 1]
    return both if function.share_of_first else (combine(function.function, *both),)


def task_standings(
    session: Session, entries: Sequence[BoardEntry], columns: Sequence[Column], rows: Sequence[BoardRow], seed: int
) -> dict[str, TaskColumn]:
    """Map each column to the standings of the rows on one task, with the questions of joined benchmarks pooled."""
    results: list[dict[str, TaskStanding]] = [{} for _ in rows]
    drawn: list[tuple[int, str, _Means]] = []
    alone: list[tuple[int, str, TaskStanding]] = []
    questions = {entry.ordinal: _question_ids(session, entry) for entry in entries}
    needed = {name for column in columns for name in base_metrics(column.metric)}
    needed |= {COMPARED_WITH[name] for name in needed if name in COMPARED_WITH}
    names = [name for name in QUESTION_METRICS if name in needed]
    values_by_entry: dict[int, dict[int, dict[str, Array]]] = {}

    def values_of(entry: BoardEntry) -> dict[int, dict[str, Array]]:
        """Map each of the entry's evaluations to its values, which are read together the first time."""
        if entry.ordinal not in values_by_entry:
            ids = [evaluation.id for row in rows if (evaluation := _find_evaluation(row, entry)) is not None]
            pairs = question_values_of_each(session, ids, questions[entry.ordinal], names)
            values_by_entry[entry.ordinal] = dict(pairs)
        return values_by_entry[entry.ordinal]

    grouped: dict[tuple[int, ...], Clusters | None] = {}
    for column in columns:
        matching = column_entries("", column, entries)[entries[0].task]
        pooled = tuple(question for entry in matching for question in questions[entry.ordinal])
        if pooled not in grouped:
            grouped[pooled] = clusters_of(session, pooled)
        metric = METRICS[column.metric]
        for number, row in enumerate(rows):
            evaluations = [_find_evaluation(row, entry) for entry in matching]
            if any(evaluation is None for evaluation in evaluations):
                results[number][column.name] = TaskStanding(None, 0)
                continue
            known = [evaluation for evaluation in evaluations if evaluation is not None]
            parts = [values_of(entry)[evaluation.id] for entry, evaluation in zip(matching, known, strict=True)]
            if metric.over_runs is not None:
                runs, n = _read_runs(session, known, [questions[entry.ordinal] for entry in matching])
                results[number][column.name] = TaskStanding(metric.over_runs(runs), n)
                continue
            base_names = base_metrics(column.metric)
            companions = [COMPARED_WITH[name] for name in base_names if name in COMPARED_WITH]
            values = {name: np.concatenate([part[name] for part in parts]) for name in (*base_names, *companions)}
            base = [values[name] for name in base_names]
            # Functions of two means use only the questions that have both values.
            undefined = np.isnan(np.stack(base)).any(axis=0)
            undefined |= lacks_questions(column.metric, values)
            means = _Means(tuple(np.where(undefined, np.nan, values) for values in base), grouped[pooled])
            drawn.append((number, column.name, means))
            results[number][column.name] = _standing_of_means(column.metric, means)
            results[number][column.name].values = TaskValues(means.base)
            if len(known) == 1:
                alone.append((known[0].id, column.metric, results[number][column.name]))
    _set_stated_intervals(session, alone)
    factor = min(map(_get_factor, entries))
    _resample(results, drawn, seed, factor)
    task = entries[0].task
    return {
        column.name: TaskColumn(column.metric, [standings[column.name] for standings in results], factor, task)
        for column in columns
    }


def _set_stated_intervals(session: Session, alone: Sequence[tuple[int, str, TaskStanding]]) -> None:
    """Give each standing with one evaluation the interval stored for the same value over the same questions.

    Otherwise the board and the evaluation's page would show two different intervals for one number.
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


def _find_evaluation(row: BoardRow, entry: BoardEntry) -> Evaluation | None:
    return row.evaluations[entry.ordinal]


def _get_factor(entry: BoardEntry) -> float:
    """Return the factor for standard errors on an entry's questions: below 1 if they are a sample."""
    sample = entry.question_filter.get("sample")
    return 1.0 if sample is None else sampling_factor(sample["questions"], sample["of"])


def _resample(
    results: list[dict[str, TaskStanding]], drawn: list[tuple[int, str, _Means]], seed: int, factor: float
) -> None:
    """Resample the values in `drawn`, and set the samples of their standings in `results`.

    Values over the same number of questions and the same clusters share one resampling. factor: from `sampling_factor`.
    """
    groups: dict[tuple[int, bytes | None], list[tuple[int, str, _Means]]] = {}
    for item in drawn:
        clusters = item[2].clusters
        key = (len(item[2].base[0]), None if clusters is None else clusters.tobytes())
        groups.setdefault(key, []).append(item)
    for items in groups.values():
        stacked = np.stack([values for _, _, means in items for values in means.base], axis=1)
        clusters = items[0][2].clusters
        # Column-major, because selections repeatedly add up single columns.
        samples = np.asfortranarray(resample_means(stacked, resamples=RANK_RESAMPLES, seed=seed, factor=factor))
        together = None
        if clusters is not None:
            drawn_clusters = resample_means(
                stacked, resamples=RANK_RESAMPLES, seed=seed, clusters=clusters, factor=factor
            )
            together = np.asfortranarray(drawn_clusters)
        place = 0
        for number, name, means in items:
            columns = slice(place, place + len(means.base))
            standing = results[number][name]
            standing.samples = samples[:, columns]
            if together is not None and clusters is not None:
                standing.clustered, standing.clusters = together[:, columns], int(clusters.max()) + 1
            place = columns.stop


def _standing_of_means(metric: str, means: _Means) -> TaskStanding:
    averages = tuple(_average_defined(values) for values in means.base)
    n = int(np.count_nonzero(~np.isnan(means.base[0])))
    combine = FUNCTIONS_OF_TWO_MEANS.get(metric)
    value = combine.value(*averages) if combine else averages[0]
    return TaskStanding(value, n, averages, resting_on=resting_on(metric, means.base))


def _average_defined(values: Array) -> float | None:
    defined = values[~np.isnan(values)]
    return math.fsum(defined.tolist()) / len(defined) if len(defined) else None


def _average_tasks(
    metric: str, tasks: Sequence[TaskColumn], rows: Sequence[int], weights: Sequence[int] | None
) -> list[Standing]:
    """Return each row's standing over its tasks; the value is None if any task has none.

    weights: None for the unweighted mean. A share of the first mean is computed from the two means over tasks.
    """
    known = _keep(tasks, "rows", dict)
    over_tasks = [known.get(row) or known.setdefault(row, _OverTasks(metric, tasks, row)) for row in rows]
    averaged = [_value_over(metric, one, weights) for one in over_tasks]
    drawn: list[tuple[Standing, Array, int]] = []
    clustered: list[tuple[Standing, Array, int]] = []
    compared = tasks if all(task.base for task in tasks) else ()
    precision = _estimate_precision(tasks, rows, weights) if compared and len(tasks) > 1 else None
    stretches = [1.0] * len(rows) if precision is None else precision.stretches.tolist()
    shares = [()] * len(rows) if precision is None else list(zip(*precision.shares.tolist(), strict=True))
    questions = _count_behind(precision, [one.questions for one in over_tasks])
    clusters: list[int] = []
    if any(one.in_clusters for one in over_tasks):
        clusters = _count_behind(precision, [one.clusters for one in over_tasks])
    for number, (row, standing, one) in enumerate(zip(rows, averaged, over_tasks, strict=True)):
        if standing.value is None:
            continue
        alone = _macro_samples(metric, one.samples, weights)
        if alone is None:
            continue
        standing.samples, standing.resting_on, standing.shares = alone, questions[number], shares[number]
        standing.tasks, standing.place = compared, row
        stretch = stretches[number]
        drawn.append((standing, _stretch_samples(alone, stretch, one.questions), standing.resting_on))
        if one.in_clusters:
            together = _macro_samples(metric, one.cluster_samples, weights)
            if together is not None:
                standing.samples = together
                standing.clusters = sum(standing.clusters or standing.n for standing in one.standings)
                standing.design_effect = design_effect(together, alone)
                clustered.append((standing, _stretch_samples(together, stretch, one.clusters), clusters[number]))
    for standing, ends in _compute_intervals(metric, drawn):
        standing.interval = ends
    if len(tasks) == 1:
        for standing, one in zip(averaged, over_tasks, strict=True):
            standing.interval = one.standings[0].stated or standing.interval
    for standing, ends in _compute_intervals(metric, clustered):
        standing.cluster_interval = ends
    return averaged


class _OverTasks:
    """A row's standings on several tasks, and what no weight changes of its mean.

    questions, clusters: for each task, the number of questions behind its interval, and of independent units.
    """

    def __init__(self, metric: str, tasks: Sequence[TaskColumn], row: int) -> None:
        self._metric, self._tasks, self._row = metric, tasks, row
        self.standings = [task.standings[row] for task in tasks]
        self.n = sum([standing.n for standing in self.standings])
        self.values = [standing.value for standing in self.standings]
        self.questions = [standing.resting_on for standing in self.standings]
        self.clusters = [standing.clusters or standing.resting_on for standing in self.standings]
        self.in_clusters = any(standing.clustered is not None for standing in self.standings)

    @cached_property
    def samples(self) -> "list[_Summed] | None":
        """Return the resampled values to average over tasks; None if a task has none."""
        return _sum_samples([task.question_samples[self._row] for task in self._tasks])

    @cached_property
    def cluster_samples(self) -> "list[_Summed] | None":
        """Return the values of `samples`, but over resampled clusters if questions belong together."""
        return _sum_samples([task.cluster_samples[self._row] for task in self._tasks])


@dataclass(frozen=True)
class _Summed:
    """Resampled values on each task, and their sum."""

    parts: Sequence[Array]
    total: Array


def _sum_samples(of_tasks: Sequence[tuple[Array, ...] | None]) -> list[_Summed] | None:
    """Sum the result of `_average_samples` of each task; None if a task has none."""
    if None in of_tasks:
        return None
    summed = []
    for parts in zip(*filter(None, of_tasks), strict=True):
        total = parts[0]
        if len(parts) > 1:
            total = parts[0] + parts[1]
            for part in parts[2:]:
                total += part
        summed.append(_Summed(parts, total))
    return summed


@dataclass(frozen=True)
class Precision:
    """The precision of means over tasks.

    shares: each task's share of the variance, shape (tasks, rows). at_worst: the same if each task of fewer than
    MINIMUM_QUESTIONS had the largest possible variance. stretches: shape (rows,), see `_estimate_precision`.
    """

    shares: Array
    at_worst: Array
    stretches: Array

    def questions(self, units: Sequence[Sequence[int]]) -> list[int]:
        """Return the effective number of questions behind each mean: Satterthwaite's degrees of freedom plus 1.

        units: for each row, the number of questions, or clusters, of each task. A small task counts with its largest
        possible variance: if the measured variance counted, an interval would be stated just when that variance
        happens to be too small.
        """
        counts = np.array(units).T
        uncertain = (self.at_worst**2 / np.maximum(1, counts - 1)).sum(axis=0)
        known = uncertain > 0
        behind = np.divide(1, uncertain, out=np.zeros_like(uncertain), where=known) + 1 + 1e-6
        effective: list[int] = np.where(known, behind, counts.sum(axis=0)).astype(int).tolist()
        return effective


def _count_behind(precision: Precision | None, units: Sequence[Sequence[int]]) -> list[int]:
    """Return the effective number of questions, or clusters, behind each mean. units: as for `Precision.questions`."""
    return list(map(min, units)) if precision is None else precision.questions(units)


def _estimate_precision(tasks: Sequence[TaskColumn], rows: Sequence[int], weights: Sequence[int] | None) -> Precision:
    """Return the precision of the mean over tasks, for each row.

    A few questions with equal values determine a task's variance poorly. So two questions are added to each task, with
    the deviations h and −h, where h² = Σx⁴/Σx² over all tasks is the square of a typical deviation. stretches: the
    factors by which this raises the standard deviations.
    Source: Satterthwaite, *An Approximate Distribution of Estimates of Variance Components* (1946).
    """
    times = [1] * len(tasks) if weights is None else weights
    row_indexes = np.asarray(rows, dtype=np.intp)
    second = np.stack([task.moments[0][row_indexes] for task in tasks])
    fourth = np.stack([task.moments[1][row_indexes] for task in tasks])
    n = np.stack([np.array([of.n for of in task.standings], dtype=np.float64)[row_indexes] for task in tasks])
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
    return Precision(_shares(variances), _shares(at_worst), np.maximum(1.0, stretch))


def _shares(variances: Array) -> Array:
    """Return each task's share of the variance, shape (tasks, rows); tasks of unbounded variance share all of it."""
    unbounded = np.isinf(variances)
    variances = np.where(unbounded.any(axis=0), unbounded, variances)
    total = variances.sum(axis=0)
    return np.asarray(np.divide(variances, total, out=np.zeros(variances.shape), where=total > 0))


def _stretch_samples(samples: Array, stretch: float, units: Sequence[int]) -> Array:
    """Return the samples with larger deviations if a task has too few questions for its variance to be known."""
    if stretch == 1.0 or min(units) >= MINIMUM_QUESTIONS:
        return samples
    middle = np.nanmean(samples)
    return np.asarray(middle + stretch * (samples - middle))


def _value_over(metric: str, tasks: _OverTasks, weights: Sequence[int] | None) -> Standing:
    """Return the standing over tasks without anything that is computed from resamples."""
    if None in tasks.values:
        return Standing(None, tasks.n)
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is not None and function.share_of_first:
        value = average_over_tasks(function, [standing.means for standing in tasks.standings], weights)
    else:
        value = average_over_tasks(None, [(value,) for value in tasks.values], weights)
    return Standing(value, tasks.n)


def _macro_samples(metric: str, summed: Sequence[_Summed] | None, weights: Sequence[int] | None) -> Array | None:
    """Return the column's value in each resample; None if a task has no resamples."""
    if summed is None:
        return None
    means = [_average(one, weights) for one in summed]
    return means[0] if len(means) == 1 else combine(FUNCTIONS_OF_TWO_MEANS[metric].function, *means)


def _average(summed: _Summed, weights: Sequence[int] | None) -> Array:
    """Compute the weighted average over tasks: only unusual weights are added to the sum."""
    if weights is None:
        return summed.total if len(summed.parts) == 1 else np.asarray(summed.total / len(summed.parts))
    usual = max(weights, key=weights.count)
    average = usual * summed.total
    for times, part in zip(weights, summed.parts, strict=True):
        if times != usual:
            average += (times - usual) * part
    average /= sum(weights)
    return average


def _compute_intervals(
    metric: str, drawn: Sequence[tuple[Standing, Array, int]]
) -> list[tuple[Standing, tuple[float, float] | None]]:
    """Return each standing with its interval. drawn: (standing, resampled values, number of units)."""
    if not drawn:
        return []
    intervals = percentile_intervals(np.stack([samples for _, samples, _ in drawn]), [units for *_, units in drawn])
    if metric == ORDER_LOSS:
        intervals = [
            None if ends is None else limit_order_loss(ends, units, lift=lift_of_means(samples))
            for (_, samples, units), ends in zip(drawn, intervals, strict=True)
        ]
    return [(standing, _as_pair(ends)) for (standing, *_), ends in zip(drawn, intervals, strict=True)]


def _as_pair(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _rank(metric: str, standings: Sequence[Placed]) -> list[Placed]:
    """Set the ranks of complete models; return the models that have a value."""
    ranked = [(revision, standing) for revision, standing in standings if standing.value is not None]
    values = [standing.value for _, standing in ranked]
    for (_, standing), rank in zip(ranked, ranks(values, METRICS[metric].better), strict=True):
        standing.rank = rank
    return ranked


@dataclass(frozen=True)
class _PairComparison:
    """The comparison of all pairs of a column's models, and its inputs.

    samples: shape (resamples, models). questions, pairs: see `compare_all`.
    """

    samples: Array
    questions: int | None
    pairs: Paired | None
    all_at_once: Comparisons


def _compare(metric: str, ranked: Sequence[Placed], weights: Sequence[int] | None) -> _PairComparison | None:
    """Compare all models, and set their rank intervals for all models together; return None if there are no samples."""
    better = METRICS[metric].better
    sampled = [standing.samples for _, standing in ranked]
    if better == "neither" or not ranked or any(samples is None for samples in sampled):
        return None
    matrix = np.stack([samples for samples in sampled if samples is not None]).T
    pairs = _compare_pairs(metric, [standing for _, standing in ranked], matrix, weights)
    questions: int | None = min(standing.units for _, standing in ranked)
    if pairs is not None and pairs.freedom is not None and _have_enough_questions(ranked):
        questions = None  # each pair has its own degrees of freedom
    compared = compare_all([standing.value for _, standing in ranked], matrix, better, questions, pairs)
    for (_, standing), everywhere in zip(ranked, compared.rank_intervals(), strict=True):
        standing.all_rank_low, standing.all_rank_high = everywhere
    return _PairComparison(matrix, questions, pairs, compared)


def _place_models(metric: str, ranked: Sequence[Placed], compared: _PairComparison) -> Together:
    """Set each model's separate rank interval, its tiers and its neighbour; return the comparison of all pairs."""
    better, values = METRICS[metric].better, [standing.value for _, standing in ranked]
    for (_, standing), interval, tier, shared in zip(
        ranked,
        rank_intervals(compared.samples, better),
        tiers(values, compared.samples, better, compared.questions, compared.pairs),
        compared.all_at_once.tiers(values, better),
        strict=True,
    ):
        if interval is not None:
            standing.rank_low, standing.rank_high = interval
        standing.tier = None if tier is None else tier.number
        standing.all_tier = None if shared is None else shared.number
    return _summarise_pairs(ranked, compared.all_at_once, better)


def _have_enough_questions(ranked: Sequence[Placed]) -> bool:
    """Return whether every model has MINIMUM_QUESTIONS questions, or clusters of questions, over all tasks together."""
    return min(standing.clusters or standing.n for _, standing in ranked) >= MINIMUM_QUESTIONS


def _compare_pairs(
    metric: str, standings: Sequence[Standing], samples: Array, weights: Sequence[int] | None = None
) -> Paired | None:
    """Compare every pair by their values per question; None for metrics over runs or cells, which have no such values.

    samples: shape (resamples, models). If questions belong together, errors are at least the errors over the clusters.
    """
    tasks, places = standings[0].tasks, [standing.place for standing in standings]
    if not tasks:
        return None
    factors = [task.factor for task in tasks]
    if METRICS[metric].zero_or_one:
        values = [[part[places].T for part in task.base] for task in tasks]
        pairs = paired(values, zero_or_one=True, weights=weights, factors=factors)
    else:
        pairs = enough_differ([task.differing for task in tasks]).select(places)
        if metric not in FUNCTIONS_OF_TWO_MEANS:
            times = [1] * len(tasks) if weights is None else weights
            values_of_tasks = [task.base[0][places].T for task in tasks]
            typical = _keep(tasks, "squares", lambda: squared_differences(values_of_tasks), places)
            pairs = with_errors(pairs.enough, values_of_tasks, times, factors, typical)
    if all(standing.clusters is None for standing in standings):
        return pairs
    return pairs.at_least(np.sqrt(_variances_of_differences(samples)))


def _variances_of_differences(samples: Array) -> Array:
    """Return the variance of each pair's difference, shape (models, models), from samples (resamples, models)."""
    centred = np.nan_to_num(samples - np.nanmean(samples, axis=0))
    together = centred.T @ centred / len(samples)
    own = np.diag(together)
    return np.asarray(np.maximum(0.0, np.add.outer(own, own) - 2 * together))


def _summarise_pairs(ranked: Sequence[Placed], compared: Comparisons, better: str) -> Together:
    """Summarise the comparisons of all pairs, and set each standing's comparison with the one above it."""
    distinguished = compared.told_apart
    order = sorted(range(len(ranked)), key=lambda place: ranked[place][1].value or 0.0, reverse=better == "higher")
    uncorrected, holm = compared.p_values(order[:-1], order[1:])
    for place, (one, next_one) in enumerate(pairwise(order)):
        first, second = ranked[one][1].value, ranked[next_one][1].value
        ranked[next_one][1].above = Above(
            ranked[one][0],
            abs((first or 0.0) - (second or 0.0)),
            _nan_to_none(compared.standard_errors[one, next_one]),
            _nan_to_none(uncorrected[place]),
            _nan_to_none(holm[place]),
            bool(distinguished[one, next_one]),
        )
    errors = compared.standard_errors[np.triu(~np.isnan(compared.standard_errors), 1)]
    return Together(
        models=len(ranked),
        pairs=errors.size,
        pairs_told_apart=int(distinguished.sum()) // 2,
        neighbours=len(ranked) - 1,
        neighbours_told_apart=sum(bool(distinguished[pair]) for pair in pairwise(order)),
        critical_value=compared.critical_value,
        standard_error=float(np.median(errors)) if errors.size else None,
        matrix=_build_matrix(compared, order) if len(order) <= MOST_IN_MATRIX else [],
        uncertainty=_find_uncertain_task([standing for _, standing in ranked]),
    )


def _find_uncertain_task(standings: Sequence[Standing]) -> Uncertainty | None:
    """Return the small task that causes more than MOST_OF_IT of the uncertainty; None if there is none.

    A task is small if it has at most half as many questions as the median of the other tasks.
    """
    shared = [standing for standing in standings if standing.shares]
    if not shared:
        return None
    shares = np.mean([standing.shares for standing in shared], axis=0)
    largest = int(shares.argmax())
    sizes = [max(item.n for item in task.standings) for task in shared[0].tasks]
    others = [size for place, size in enumerate(sizes) if place != largest]
    if shares[largest] < MOST_OF_IT or 2 * sizes[largest] > float(np.median(others)):
        return None
    return Uncertainty(shared[0].tasks[largest].task, sizes[largest], float(shares[largest]))


def _build_matrix(compared: Comparisons, order: Sequence[int]) -> list[str]:
    def sign(one: int, other: int) -> str:
        return "+" if compared.beats[one, other] else "-" if compared.beats[other, one] else "."

    return ["".join(sign(one, other) for other in order) for one in order]


def _nan_to_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def pool_questions(session: Session, entries: Sequence[BoardEntry], column: Column) -> list[int]:
    """Return the ids of the questions that a column covers on one task. entries: all entries of that task."""
    matching = column_entries("", column, entries)[entries[0].task]
    return [question for entry in matching for question in _question_ids(session, entry)]


def _question_ids(session: Session, entry: BoardEntry) -> list[int]:
    questions, _ = choose_again(session, entry.benchmark_version, entry.question_filter)
    return [question.id for question in questions]


def _read_runs(
    session: Session,
    evaluations: Sequence[Evaluation],
    questions: Sequence[Sequence[int]],
) -> tuple[Runs, int]:
    """Return the runs over the pooled questions, and the number of questions in them."""
    return runs_over(
        answer
        for evaluation, question_ids in zip(evaluations, questions, strict=True)
        for answer in answers_in_runs(session, evaluation, question_ids)
    )
