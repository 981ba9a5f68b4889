"""Pages of the leaderboard: the evaluations, their order and their ranks.

The view `leaderboard` pivots every metric of every evaluation, which takes seconds for thousands of them. These
functions let the database count groups and sort one page, and rank only that page, with the same rows as the view.
Functions take the session first.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final

from sqlalchemy import (
    JSON,
    ColumnElement,
    FrameClause,
    FrameClauseType,
    Integer,
    Select,
    and_,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import Session, aliased

from registry.db import is_in
from registry.leaderboard.chance import CORRECTED, chances, compute_above_chance
from registry.leaderboard.costs import costs_of
from registry.leaderboard.facts import missing_shares
from registry.leaderboard.selection import Selection, evaluation_conditions
from registry.lookups import not_withdrawn, with_names
from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES, HEADLINES, SHOWN
from registry.schema.selectables import Row, evaluation_metrics, evaluation_sources, leaderboard, rows_of
from registry.scores.asked import ASKED, describe_orders, not_ranked, one_order
from registry.scores.written import WRITTEN
from registry.statistics.competition_ranks import RANK_TOLERANCE
from registry.statistics.guessing import correct_for_guessing
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    EngineFingerprint,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Model,
    ModelRevision,
    Protocol,
    Shard,
    VariantSet,
)
from registry.verdicts.facts import NO_VERDICT
from registry.verdicts.table import UNREADABLE

UNFINISHED: Final = ("queued", "running", "paused", "failed")
TEXT_COLUMNS: Final = ("model", "benchmark", "variants", "protocol")
SORTS: Final = (*TEXT_COLUMNS, "shots", "scored", "sealed_at", *METRICS)
"""The keys by which the leaderboard can be sorted."""
FALLBACK: Final = "accuracy"
"""The metric that ranks a group with one order if the chosen metric needs two."""
AT_ONCE: Final = 2000
"""Rows per batch when all rows are read: about 20 MB, and few statements."""
GROUP_COLUMNS: Final = ("benchmark", "variants", "protocol", "shots")
"""The columns that the members of a group share."""


def default_sort(metrics: Sequence[str]) -> str:
    """Return the default metric to sort by: the headline if it is shown, else the first in catalogue order."""
    return HEADLINES[0] if HEADLINES[0] in metrics else min(metrics, key=ALL_NAMES.index)


def natural_order(sort: str) -> str:
    """Return the default direction of a column: the best values, or the start of the alphabet, on top."""
    if sort in METRICS:
        return "asc" if METRICS[sort].better == "lower" else "desc"
    return "asc" if sort in TEXT_COLUMNS else "desc"


@dataclass(frozen=True)
class Ordering:
    """The order of rows, and the metric of their ranks.

    metrics: the shown metrics. order: `asc` or `desc`. grouped: whether evaluations of the same group are listed
    together.
    above_chance: whether rows also have the metrics of CORRECTED on the scale with guessing at 0. A list that is not
    grouped is then sorted by them; ranks still use the plain metrics.
    """

    metrics: tuple[str, ...] = HEADLINES[:1]
    sort: str = HEADLINES[0]
    order: str = "desc"
    grouped: bool = True
    above_chance: bool = False

    @property
    def rank_metric(self) -> str:
        """Return the metric of the ranks: the sorted metric, or the default one if another column is sorted."""
        return self.sort if self.sort in METRICS else default_sort(self.metrics)


def group_key(row: Row) -> tuple[Any, ...]:
    """Return the key of a row's group: only rows with the same questions in the same conditions are ranked together.

    Sorted by it, the whole benchmark comes before parts of it.
    """
    return (
        row["benchmark"],
        row["benchmark_version"],
        row["variants"],
        row["variant_set_id"],
        row["protocol"],
        row["shots"],
        row["protocol_id"],
        row["part"] is not None,
        json.dumps(row["part"], sort_keys=True),
        *_group(row),
    )


def _group(row: Row) -> tuple[str, int]:
    """Return the key of a group: the digest of its questions and conditions, and whether prompts were repeated."""
    return row["asked_digest"], row["repeated"]


def _has_repeats(evaluation: Any) -> ColumnElement[int]:
    """Return the SQL expression that is 1 if prompts were repeated, else 0.

    Imported variant sets with and without repeats can have the same name.
    evaluation: Evaluation, or an alias of it.
    """
    asked_again = and_(evaluation.variants_max > evaluation.distinct_prompts_max, evaluation.lists_options)
    return case((asked_again, literal_column("1", Integer)), else_=literal_column("0", Integer))


def split_by_group(rows: Sequence[Row]) -> list[list[Row]]:
    """Split rows into lists of neighbours from the same group."""
    return [list(group) for _, group in groupby(rows, key=group_key)]


@cache
def _select_superseded() -> Select[Any]:
    """Select the evaluations that another replicate of the same specification hides.

    The newest sealed replicate hides all others; if none is sealed, the newest does. Withdrawn and cancelled
    evaluations hide nothing, and sealed ones with and without repeats do not hide each other.

    The query starts at replicates other than the first, which are few: comparing every evaluation with its siblings
    costs more than the rest of a page.
    """
    replicate, loser, winner = aliased(Evaluation), aliased(Evaluation), aliased(Evaluation)
    later_winner = and_(winner.seal.is_not(None) == loser.seal.is_not(None), winner.replicate > loser.replicate)
    return (
        select(loser.id)
        .select_from(replicate)
        .join(loser, loser.specification_digest == replicate.specification_digest)
        .join(winner, winner.specification_digest == replicate.specification_digest)
        .where(
            replicate.replicate > 0,
            winner.state != "cancelled",
            not_withdrawn(winner),
            or_(and_(winner.seal.is_not(None), loser.seal.is_(None)), later_winner),
            or_(loser.seal.is_(None), _has_repeats(winner) == _has_repeats(loser)),
        )
    )


_MAX_LISTED: Final = 100
_SEALED: Final = Evaluation.seal.is_not(None)
_WHOLE: Final = Evaluation.questions >= BenchmarkVersion.questions
_FILTER: Final = type_coerce(Evaluation.specification, JSON())["questions"]
_SAME: Final = Evaluation.asked_digest
_REPEATED: Final = _has_repeats(Evaluation)
_PART: Final = case((~_WHOLE, _FILTER), else_=null())
_NAMES: Final = (
    Benchmark.name.label("benchmark"),
    BenchmarkVersion.version.label("benchmark_version"),
    VariantSet.name.label("variants"),
    Protocol.name.label("protocol"),
    Protocol.shots,
)


def _select_current(session: Session, *columns: Any) -> Select[Any]:
    """Select columns of the evaluations that are neither withdrawn nor superseded."""
    query = (
        select(*columns)
        .select_from(Evaluation)
        .join(BenchmarkVersion, BenchmarkVersion.id == Evaluation.benchmark_version_id)
        .where(not_withdrawn())
    )
    # Superseded evaluations are listed by id while they are few: planning a subquery in every statement takes longer
    # than running it.
    if "superseded" not in session.info:
        session.info["superseded"] = session.scalars(_select_superseded().distinct().limit(_MAX_LISTED + 1)).all()
    superseded = session.info["superseded"]
    if not superseded:
        return query
    return query.where(Evaluation.id.not_in(superseded if len(superseded) <= _MAX_LISTED else _select_superseded()))


def _join_names(query: Select[Any]) -> Select[Any]:
    """Join the tables that `_NAMES` and the order of rows need."""
    return (
        query.join(Benchmark, Benchmark.id == BenchmarkVersion.benchmark_id)
        .join(Protocol, Protocol.id == Evaluation.protocol_id)
        .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
    )


def count_groups(session: Session, selection: Selection) -> list[Row]:
    """Return a row for each group of selected sealed evaluations, with its names and its number of evaluations.

    part: the question filter if it leaves questions out, None for the whole benchmark.
    """
    cached: dict[Selection, list[Row]] = session.info.setdefault("groups", {})
    if selection not in cached:
        conditions = (_SEALED, *evaluation_conditions(session, selection))
        counted = (
            _select_current(session, func.max(Evaluation.id).label("newest"), func.count().label("evaluations"))
            .where(*conditions)
            .group_by(_SAME, _REPEATED)
            .subquery()
        )
        # Specifications are most of the table's bytes, so only one evaluation of each group is read.
        query = (
            select(
                _SAME,
                _REPEATED.label("repeated"),
                Evaluation.benchmark_version_id,
                Evaluation.protocol_id,
                Evaluation.variant_set_id,
                _PART.label("part"),
                Evaluation.questions,
                counted.c.evaluations,
                *_NAMES,
            )
            .join(counted, counted.c.newest == Evaluation.id)
            .join(BenchmarkVersion, BenchmarkVersion.id == Evaluation.benchmark_version_id)
        )
        cached[selection] = rows_of(session, _join_names(query))
    return cached[selection]


def filter_measured_groups(session: Session, groups: Iterable[Row], metric: str) -> list[Row]:
    """Return the groups in which some evaluation has a value of the metric over all questions."""
    stored = EvaluationMetric
    measured = (
        _select_current(session, _SAME, _REPEATED)
        .join(stored, stored.evaluation_id == Evaluation.id)
        .where(_SEALED, _match_scope(stored, "all"), stored.metric == metric, stored.value.is_not(None))
        .distinct()
    )
    measured_groups = {tuple(row) for row in session.execute(measured)}
    return [group for group in groups if _group(group) in measured_groups]


def filter_choices(session: Session) -> dict[str, list[str]]:
    """Return the choices of the filters: the leaderboard's benchmarks, variant sets, protocols and numbers of shots."""
    waiting = _join_names(_select_current(session, *_NAMES).where(Evaluation.state.in_(UNFINISHED)))
    unfinished = rows_of(session, waiting.distinct())
    rows = count_groups(session, Selection()) + unfinished
    return {key: sorted({str(row[key]) for row in rows}) for key in ("benchmark", "variants", "protocol", "shots")}


# Complete evaluations


def complete_rows(
    session: Session,
    selection: Selection,
    ordering: Ordering,
    *,
    limit: int | None,
    offset: int,
    metrics: Sequence[str] = ALL_NAMES,
    ranked: bool = True,
) -> tuple[list[Row], int]:
    """Return a page of sealed evaluations with their ranks, in the requested order, and their total number.

    metrics: the metrics in each row; its `counts` maps metric to n and interval. ranked: whether to compute ranks, for
    which all other evaluations of the groups are read.
    """
    ids, total = _complete_ids(session, selection, ordering, limit, offset)
    if not ranked:
        rows = _load_rows(session, ids, selection.scope, metrics)
        return [rows[evaluation_id] for evaluation_id in ids], total
    return _rank_rows(session, ids, selection.scope, ordering, metrics), total


def _complete_ids(
    session: Session, selection: Selection, ordering: Ordering, limit: int | None, offset: int
) -> tuple[list[int], int]:
    """Return the ids of one page of sealed evaluations, and their total number."""
    groups = count_groups(session, selection)
    total = sum(group["evaluations"] for group in groups)
    last = total if limit is None else min(total, offset + limit)
    if ordering.grouped:
        ids = _page_ids_by_group(session, selection, ordering, groups, offset, last)
    elif ordering.above_chance and ordering.sort in CORRECTED:
        ids = _ids_above_chance(session, selection, ordering)[offset:last]
    else:
        query = (
            _select_members(session, selection, ordering).limit(last - offset).offset(offset) if last > offset else None
        )
        ids = [] if query is None else [row[0] for row in session.execute(query)]
    return ids, total


def _rank_rows(
    session: Session, ids: Sequence[int], scope: str, ordering: Ordering, metrics: Sequence[str]
) -> list[Row]:
    metric = ordering.rank_metric
    needed = tuple(dict.fromkeys((*metrics, metric, FALLBACK)))
    rows = _load_rows(session, ids, scope, needed)
    ranks = _compute_ranks(session, rows.values(), metric, scope)
    by_fallback = _find_fallback_ranked(session, rows, metric, scope)
    if by_fallback:
        ranks |= _compute_ranks(session, [rows[evaluation_id] for evaluation_id in by_fallback], FALLBACK, scope)
    missing = missing_shares(session, ids)
    if ordering.above_chance:
        guessed = chances(session, ids, scope)
        for evaluation_id, row in rows.items():
            row["above_chance"] = compute_above_chance(row, guessed.get(evaluation_id))
    for evaluation_id, row in rows.items():
        unreadable = (missing.get(evaluation_id) or 0.0) > NO_VERDICT
        row["ranked_by"] = FALLBACK if evaluation_id in by_fallback else metric
        row["rank"] = None if unreadable else ranks.get(evaluation_id)
        row["missing_answers"] = missing.get(evaluation_id)
        row["alone"] = row["rank"] is None and not unreadable and row[row["ranked_by"]] is not None
        row["not_ranked"] = not_ranked(row, metric, UNREADABLE if unreadable else None)
    return [rows[evaluation_id] for evaluation_id in ids]


def _find_fallback_ranked(session: Session, rows: dict[int, Row], metric: str, scope: str) -> set[int]:
    """Return the evaluations to rank by FALLBACK: the metric needs two orders and has no value in their group."""
    if not METRICS[metric].needs_two_prompts:
        return set()
    lacking = {
        evaluation_id: row["asked_digest"]
        for evaluation_id, row in rows.items()
        if row[metric] is None and one_order(row)
    }
    if not lacking:
        return set()
    member = _select_measured(session, metric, scope, set(lacking.values())).subquery().c
    measured = set(session.scalars(select(member.asked_digest).distinct()))
    return {evaluation_id for evaluation_id, digest in lacking.items() if digest not in measured}


def all_rows(
    session: Session, selection: Selection, ordering: Ordering, metrics: Sequence[str] = ALL_NAMES
) -> Iterator[list[Row]]:
    """Yield all rows in batches of AT_ONCE, complete evaluations first. Only the ids of the rest are in memory."""
    ids, _ = _complete_ids(session, selection, ordering, None, 0)
    rows: list[Row] = []
    for start in range(0, len(ids), AT_ONCE):
        rows = _rank_rows(session, ids[start : start + AT_ONCE], selection.scope, ordering, metrics)
        if len(rows) == AT_ONCE:
            yield rows
            rows = []
    offset = 0
    while more := incomplete_rows(session, selection, limit=AT_ONCE - len(rows), offset=offset, metrics=metrics)[0]:
        offset += len(more)
        rows += more
        if len(rows) == AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _page_ids_by_group(
    session: Session, selection: Selection, ordering: Ordering, groups: list[Row], first: int, last: int
) -> list[int]:
    """Return the ids from `first` up to `last` in the order by group, reading only the groups in between."""
    on_page, skipped, passed = [], 0, 0
    for group in _sort_groups(groups, ordering):
        if passed + group["evaluations"] <= first:
            skipped += group["evaluations"]
        elif passed < last:
            on_page.append(group)
        passed += group["evaluations"]
    query = _select_members(session, selection, ordering, _SAME, _REPEATED.label("repeated"))
    if len(on_page) < len(groups):  # a long list would only mislead the planner
        query = query.where(_SAME.in_([group["asked_digest"] for group in on_page]))
    members: dict[tuple[str, int], list[int]] = {}
    for row in session.execute(query) if on_page else ():
        members.setdefault((row.asked_digest, row.repeated), []).append(row.id)
    ids = [evaluation_id for group in on_page for evaluation_id in members.get(_group(group), ())]
    return ids[first - skipped : last - skipped]


def _ids_above_chance(session: Session, selection: Selection, ordering: Ordering) -> list[int]:
    """Return the ids of all selected sealed evaluations, sorted by a metric above chance, undefined ones last."""
    values = _select_values(ordering.sort, selection.scope)
    query = _select_members(session, selection, ordering, values.c.value).outerjoin(
        values, values.c.evaluation_id == Evaluation.id
    )
    members = [(row[0], row[1]) for row in session.execute(query)]
    guessed = chances(session, [evaluation_id for evaluation_id, _ in members], selection.scope)
    sign = -1.0 if ordering.order == "desc" else 1.0

    def key(member: tuple[int, float | None]) -> tuple[bool, float]:
        value = correct_for_guessing(member[1], guessed.get(member[0]))
        return value is None, sign * (value or 0.0)

    return [evaluation_id for evaluation_id, _ in sorted(members, key=key)]


def _sort_groups(groups: list[Row], ordering: Ordering) -> list[Row]:
    """Sort groups by their number of answers, the benchmark with the largest group first.

    If the requested column is one of GROUP_COLUMNS, it is sorted by first.
    """
    largest: dict[str, int] = {}
    for group in groups:
        largest[group["benchmark"]] = max(_count_answers(group), largest.get(group["benchmark"], 0))
    in_order = sorted(groups, key=group_key)
    in_order.sort(key=lambda group: (-largest[group["benchmark"]], group["benchmark"], -_count_answers(group)))
    if ordering.sort in GROUP_COLUMNS:
        in_order.sort(key=lambda row: _comparable(row[ordering.sort]), reverse=ordering.order == "desc")
    return in_order


def _count_answers(group: Row) -> int:
    """Return the number of questions that all evaluations of a group answer together."""
    answers: int = group["evaluations"] * group["questions"]
    return answers


def _comparable(value: Any) -> Any:
    """Return the sort key of a value: letter case does not count."""
    return value.casefold() if isinstance(value, str) else value


def _select_members(session: Session, selection: Selection, ordering: Ordering, *columns: Any) -> Select[Any]:
    """Select the sealed evaluations of a selection in the requested order: NULL last, ties by model, then id.

    If the metric needs two orders, evaluations without a value are sorted by FALLBACK.
    """
    base = (
        _join_names(_select_current(session, Evaluation.id, *columns))
        .join(ModelRevision, ModelRevision.id == Evaluation.model_revision_id)
        .join(Model, Model.id == ModelRevision.model_id)
        .where(_SEALED, *evaluation_conditions(session, selection))
    )
    column, query = _sort_column(ordering.sort, selection.scope, base)
    direction = column.desc() if ordering.order == "desc" else column.asc()
    tie_breaks = []
    if ordering.sort in METRICS and METRICS[ordering.sort].needs_two_prompts:
        fallback, query = _sort_column(FALLBACK, selection.scope, query)
        tie_breaks = [fallback.desc().nulls_last()]
    return query.order_by(direction.nulls_last(), *tie_breaks, func.lower(Model.name), Evaluation.id)


def _sort_column(sort: str, scope: str, query: Select[Any]) -> tuple[ColumnElement[Any], Select[Any]]:
    texts = {
        "model": func.lower(Model.name),
        "benchmark": func.lower(Benchmark.name),
        "variants": func.lower(VariantSet.name),
        "protocol": func.lower(Protocol.name),
        "shots": Protocol.shots,
        "scored": Evaluation.questions,  # all questions of a sealed evaluation are scored
        "sealed_at": Evaluation.sealed_at,
    }
    if sort in texts:
        return texts[sort], query  # type: ignore[return-value]
    values = _select_values(sort, scope)
    return values.c.value, query.outerjoin(values, values.c.evaluation_id == Evaluation.id)


def _select_values(metric: str, scope: str) -> Any:
    """Select each evaluation's value of one metric over one scope."""
    c = evaluation_metrics.c
    return select(c.evaluation_id, c.value).where(_match_scope(c, scope), c.metric == metric).subquery()


def _match_scope(columns: Any, scope: str) -> ColumnElement[bool]:
    """Return the condition that a stored metric is over a scope.

    columns: EvaluationMetric, or the columns of its view.
    """
    # As a literal, so that prepared statements too can use the index of this scope.
    condition: ColumnElement[bool] = columns.scope == (literal_column("'all'") if scope == "all" else scope)
    return condition


def _compute_ranks(session: Session, rows: Iterable[Row], metric: str, scope: str) -> dict[int, int]:
    """Return each evaluation's rank: 1 + the number of its group's members that are better by RANK_TOLERANCE or more.

    A group with a single model has no ranks. Values under another definition of the metric are ignored.
    """
    if METRICS[metric].better == "neither":
        return {}
    ranked = {row["evaluation_id"]: row["asked_digest"] for row in rows}
    member = _select_measured(session, metric, scope, set(ranked.values())).subquery().c
    rank = 1 + func.count().over(
        partition_by=[member.asked_digest, member.repeated],
        order_by=member.value.asc() if METRICS[metric].better == "lower" else member.value.desc(),
        range_=FrameClause(None, RANK_TOLERANCE, FrameClauseType.UNBOUNDED, FrameClauseType.PRECEDING),
    )
    every = (
        select(
            member.id,
            rank.label("rank"),
            func.min(member.model_id).over(partition_by=[member.asked_digest, member.repeated]).label("first_model"),
            func.max(member.model_id).over(partition_by=[member.asked_digest, member.repeated]).label("last_model"),
        )
        .subquery()
        .c
    )
    query = select(every.id, every.rank).where(is_in(every.id, list(ranked)), every.first_model != every.last_model)
    return {row[0]: row[1] for row in session.execute(query)}


def _select_measured(session: Session, metric: str, scope: str, groups: Collection[str]) -> Select[Any]:
    """Select the evaluations of these groups that have a value under the metric's current definition."""
    stored = EvaluationMetric
    return (
        _select_current(
            session, Evaluation.id, _SAME, _REPEATED.label("repeated"), stored.value, ModelRevision.model_id
        )
        .join(ModelRevision, ModelRevision.id == Evaluation.model_revision_id)
        .join(stored, stored.evaluation_id == Evaluation.id)
        .where(
            _SEALED,
            _SAME.in_(set(groups)),
            _match_scope(stored, scope),
            stored.metric == metric,
            stored.definition_version == METRICS[metric].definition_version,
            stored.value.is_not(None),
        )
    )


# Rows


_Source = aliased(Evaluation)
_OF_EVALUATION: Final = (
    Evaluation.id.label("evaluation_id"),
    Model.name.label("model"),
    ModelRevision.number.label("revision"),
    Model.family,
    Model.parameters,
    ModelRevision.kind,
    ModelRevision.dtype,
    ModelRevision.quantisation,
    *_NAMES,
    Evaluation.replicate,
    Evaluation.state,
    _SEALED.label("complete"),
    Evaluation.questions,
    case((_SEALED, Evaluation.questions), else_=0).label("scored"),
    Evaluation.sealed_at,
    *(getattr(Evaluation, name) for name in ASKED),
    Evaluation.conflict_of_interest,
    *(getattr(Evaluation, name) for name in WRITTEN),
    select(_Source.id).where(_Source.seal == Evaluation.replayed_from).scalar_subquery().label("replayed_from"),
)
COLUMNS: Final = ("rank", *leaderboard.c.keys())
"""The rank, and the columns of the view `leaderboard`."""


def _load_rows(session: Session, ids: Sequence[int], scope: str, metrics: Sequence[str]) -> dict[int, Row]:
    """Return each evaluation's leaderboard row with these metrics, and the columns that ranking needs."""
    if not ids:
        return {}
    query = with_names(
        select(
            *_OF_EVALUATION,
            _SAME,
            _REPEATED.label("repeated"),
            Evaluation.benchmark_version_id,
            Evaluation.protocol_id,
            Evaluation.variant_set_id,
            Evaluation.prompts,
            _FILTER.label("question_filter"),
            _PART.label("part"),
        ).select_from(Evaluation)
    ).where(is_in(Evaluation.id, ids))
    flags = doubts(session, ids)
    rows = {
        row["evaluation_id"]: row | dict.fromkeys(metrics) | {"counts": {}} | flags[row["evaluation_id"]]
        for row in rows_of(session, query)
    }
    # The table is read rather than its view, which looks for a newer definition of each row: for many evaluations at
    # once that reads the metrics of all. Rows of newer definitions come later and replace older ones.
    stored = EvaluationMetric
    measured = (
        select(stored.evaluation_id, stored.metric, stored.value, stored.n, stored.interval_low, stored.interval_high)
        .where(is_in(stored.evaluation_id, ids), _match_scope(stored, scope), stored.metric.in_(metrics))
        .order_by(stored.definition_version)
    )
    for evaluation_id, metric, value, n, low, high in session.execute(measured):
        rows[evaluation_id][metric] = value
        rows[evaluation_id]["counts"][metric] = {"n": n, "interval_low": low, "interval_high": high}
    if scope != "all":
        guessed = chances(session, ids, scope)
        for evaluation_id, row in rows.items():
            row["chance"] = guessed.get(evaluation_id)
    return rows


def doubts(session: Session, ids: Collection[int]) -> dict[int, Row]:
    """Return for each evaluation whether several engines scored it, and whether it copies results withdrawn later."""
    changed = type_coerce(EngineFingerprint.document, JSON)["served_model_changed"].as_string()
    mixed = (
        select(Shard.evaluation_id)
        .outerjoin(EngineFingerprint, EngineFingerprint.id == Shard.engine_fingerprint_id)
        .where(is_in(Shard.evaluation_id, ids))
        .group_by(Shard.evaluation_id)
        .having(or_(func.count(Shard.engine_fingerprint_id.distinct()) > 1, func.count(changed) > 0))
    )
    c = evaluation_sources.c
    copied = select(c.evaluation_id).where(is_in(c.evaluation_id, ids), c.withdrawn)
    several, doubtful = set(session.scalars(mixed)), set(session.scalars(copied))
    return {item: {"mixed_engines": item in several, "copies_withdrawn": item in doubtful} for item in ids}


def incomplete_rows(
    session: Session, selection: Selection, *, limit: int | None, offset: int = 0, metrics: Sequence[str] = ALL_NAMES
) -> tuple[list[Row], int]:
    """Return a page of the evaluations that are not sealed yet, newest first, and their total number."""
    query = _select_current(session, Evaluation.id).where(
        ~_SEALED, Evaluation.state.in_(UNFINISHED), *evaluation_conditions(session, selection)
    )
    total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    if total == 0 or limit == 0:
        return [], total
    ids = list(session.scalars(query.order_by(Evaluation.id.desc()).limit(limit).offset(offset)))
    rows = _load_rows(session, ids, selection.scope, metrics)
    for evaluation_id, scored in _count_scored(session, ids).items():
        rows[evaluation_id]["scored"] = scored
    unknown = dict.fromkeys(("rank", "not_ranked", "ranked_by", "missing_answers")) | {"alone": False}
    return [rows[evaluation_id] | unknown for evaluation_id in ids], total


def _count_scored(session: Session, ids: Iterable[int]) -> dict[int, int]:
    """Map each evaluation to the number of its questions in shards that are done."""
    query = (
        select(EvaluationQuestion.evaluation_id, func.count())
        .join(Shard, Shard.id == EvaluationQuestion.shard_id)
        .where(Shard.state == "done", is_in(EvaluationQuestion.evaluation_id, list(ids)))
        .group_by(EvaluationQuestion.evaluation_id)
    )
    return {row[0]: row[1] for row in session.execute(query)}


@dataclass(frozen=True)
class Page:
    """A page of the leaderboard, complete evaluations before incomplete ones.

    total: the number of both on all pages.
    """

    rows: list[Row]
    total: int

    def documents(self, metrics: Collection[str] = ()) -> list[Row]:
        """Return the rows for JSON, with `n` and interval of every metric.

        metrics: metrics that exist for papers, to show in addition to SHOWN.
        """
        return [_document(row, {*SHOWN, *metrics}) for row in self.rows]


def _document(row: Row, metrics: Collection[str]) -> Row:
    counts = row["counts"]
    names = [name for name in METRICS if name in metrics]
    bounds = {name: [count["interval_low"], count["interval_high"]] for name, count in counts.items()}
    return {
        **{key: row[key] for key in (*COLUMNS, "prompts", "question_filter") if key not in METRICS or key in metrics},
        "asked": describe_orders(row),
        "not_ranked": row["not_ranked"],
        "ranked_by": row["ranked_by"],
        "missing_answers": row["missing_answers"],
        "cost": row["cost"],
        **({"above_chance": row["above_chance"]} if "above_chance" in row else {}),
        "n": {name: counts[name]["n"] if name in counts else None for name in names},
        "intervals": {name: bounds[name] if None not in bounds.get(name, [None]) else None for name in names},
    }


EVERYTHING: Final = Selection()
BY_DEFAULT: Final = Ordering()


def leaderboard_page(
    session: Session,
    selection: Selection = EVERYTHING,
    ordering: Ordering = BY_DEFAULT,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> Page:
    """Return the page of at most `limit` rows from `offset` on, with every metric and the costs of providers."""
    rows, sealed = complete_rows(session, selection, ordering, limit=limit, offset=offset)
    left = None if limit is None else limit - len(rows)
    more, waiting = incomplete_rows(session, selection, limit=left, offset=max(0, offset - sealed))
    shown = rows + more
    costs = costs_of(session, [row["evaluation_id"] for row in shown])
    return Page([row | {"cost": costs.get(row["evaluation_id"])} for row in shown], sealed + waiting)
