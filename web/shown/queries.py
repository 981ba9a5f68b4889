"""SELECTs over evaluations and their questions. HTML and JSON are made from the same rows.

Numbers come from the SQL views; names and texts from the tables, since no view has them yet. The session determines
which benchmarks are included: it reads as the viewer's audience. Functions take the session first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import (
    JSON,
    ColumnElement,
    Select,
    and_,
    case,
    func,
    not_,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.orm import Session

from registry.boards.store import answering
from registry.errors import NotFoundError
from registry.leaderboard.rows import UNFINISHED
from registry.lookups import NAMES, with_names
from registry.metrics import METRICS
from registry.predictions.prompts import prompts_of
from registry.predictions.stored import require_rows
from registry.predictions.texts import thought_of
from registry.prompting.prompts import Prompt
from registry.prompting.variants import load_variants
from registry.queue.progress import ACTIVE, progress_of_several
from registry.schema.selectables import (
    Row,
    evaluation_metrics,
    evaluation_provenance,
    list_rows,
    prediction_detail,
    question_metrics,
    rows_of,
)
from registry.scores.asked import ASKED
from registry.scores.computed import compute_metrics
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Board,
    Evaluation,
    EvaluationQuestion,
    Generation,
    Model,
    ModelRevision,
    Prediction,
    Protocol,
    Question,
    QuestionOption,
    QuestionScore,
    VariantSet,
)
from web.serving.page_cache import changes_with_time


def progress(session: Session, evaluation_ids: Iterable[int]) -> dict[int, Row]:
    """Return evaluations' progress documents, as in `shuffleboard evaluations show --json`, without the error."""
    by_evaluation = progress_of_several(session, evaluation_ids)
    if any(item.state in ACTIVE for item in by_evaluation.values()):
        changes_with_time()
    # An error may name a file on a worker's disk.
    return {evaluation_id: replace(item, error=None).document() for evaluation_id, item in by_evaluation.items()}


def progress_of(session: Session, evaluation_id: int) -> Row:
    """Return the progress document of one evaluation."""
    return progress(session, [evaluation_id])[evaluation_id]


# Evaluations


EVALUATIONS: Final[Select[*tuple[Any, ...]]] = with_names(
    select(
        Evaluation.id.label("evaluation_id"),
        *NAMES,
        Evaluation.replicate,
        Evaluation.state,
        Evaluation.seal.is_not(None).label("complete"),
        Evaluation.priority,
        Evaluation.questions,
        Evaluation.prompts,
        Evaluation.created_at,
        Evaluation.started_at,
        Evaluation.sealed_at,
        *(getattr(Evaluation, name) for name in ASKED),
    )
)


def evaluations(
    session: Session,
    *,
    states: Sequence[str] | None = None,
    model: str | None = None,
    benchmark: str | None = None,
    conditions: Iterable[ColumnElement[bool]] = (),
    limit: int,
    offset: int = 0,
) -> tuple[list[Row], int]:
    """Return evaluations with their progress, newest first, and their total number."""
    query = EVALUATIONS.where(*conditions)
    if states is not None:
        query = query.where(Evaluation.state.in_(states))
    if model is not None:
        query = query.where(func.lower(Model.name) == model.lower())
    if benchmark is not None:
        query = query.where(Benchmark.name == benchmark)
    total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    rows = rows_of(session, query.order_by(Evaluation.id.desc()).limit(limit).offset(offset))
    states_of = progress(session, [row["evaluation_id"] for row in rows])
    return [row | {"progress": states_of[row["evaluation_id"]]} for row in rows], total


WAITING: Final = 200
"""Most evaluations in progress on a board's page."""


def in_progress(session: Session, board: Board) -> list[Row]:
    """Return a board's unsealed evaluations, with their progress, newest first."""
    answers = answering(board.entries)
    return evaluations(session, states=UNFINISHED, conditions=[answers(Evaluation)], limit=WAITING)[0]


def list_sealed(session: Session, conditions: Iterable[ColumnElement[bool]], *, limit: int) -> list[Row]:
    """Return sealed evaluations, newest first, with the facts that show whether two of them had the same prompts.

    of_questions: number of questions in the whole benchmark. question_filter: the part that is used, if not all.
    """
    query = EVALUATIONS.add_columns(
        Evaluation.seal,
        Evaluation.asked_digest,
        Evaluation.benchmark_version_id,
        Evaluation.protocol_id,
        Evaluation.variant_set_id,
        BenchmarkVersion.questions.label("of_questions"),
        type_coerce(Evaluation.specification, JSON())["questions"].label("question_filter"),
    ).where(Evaluation.seal.is_not(None), *conditions)
    return rows_of(session, query.order_by(Evaluation.id.desc()).limit(limit))


def evaluation(session: Session, evaluation_id: int) -> Row:
    """Return an evaluation with its identity. Raises NotFoundError if the session does not see it."""
    query = EVALUATIONS.add_columns(
        Evaluation.specification,
        Evaluation.specification_digest,
        Evaluation.requester,
        Evaluation.conflict_of_interest,
        Evaluation.seal,
        ModelRevision.kind,
        ModelRevision.location,
        ModelRevision.revision.label("commit"),
        ModelRevision.dtype,
        ModelRevision.quantisation,
        ModelRevision.weights_digest,
        ModelRevision.tokenizer_digest,
        BenchmarkVersion.content_digest,
        BenchmarkVersion.file_digest,
        BenchmarkVersion.licence,
        BenchmarkVersion.source,
        Protocol.digest.label("protocol_digest"),
        VariantSet.digest.label("variant_set_digest"),
        VariantSet.kind.label("variant_kind"),
        VariantSet.inserted,
    ).where(Evaluation.id == evaluation_id)
    rows = rows_of(session, query)
    if not rows:
        raise NotFoundError(f"no evaluation {evaluation_id}; /queue and /api/v1/evaluations list the existing ones")
    row = rows[0]
    row["location"] = hub_name(row["location"])
    return row


def hub_name(location: str | None) -> str | None:
    """Return a location if it is useful to others; None for a path on the server's disk, which is private."""
    return None if location is None or location.startswith(("/", "~", ".")) or ":\\" in location else location


def scopes(session: Session, evaluation_id: int, *, sealed: bool) -> list[Row]:
    """Return the metrics by scope, one row per scope and metric; computed now if the evaluation is unsealed."""
    if sealed:
        query = select(evaluation_metrics).where(evaluation_metrics.c.evaluation_id == evaluation_id)
        return sorted(rows_of(session, query), key=_scope_order)
    rows = []
    for scope in ("all", "unflagged"):
        values = compute_metrics(session, evaluation_id, scope).get(scope, {})
        rows += [
            {
                "evaluation_id": evaluation_id,
                "scope": scope,
                "metric": name,
                "definition_version": metric.definition_version,
                "value": values.get(name),
                "n": values.get(f"{name}_n", 0),
                "interval_low": None,
                "interval_high": None,
                "computed_at": None,
            }
            for name, metric in METRICS.items()
        ]
    return rows


def _scope_order(row: Row) -> tuple[Any, ...]:
    names = list(METRICS)
    first = {"all": 0, "unflagged": 1}.get(row["scope"], 2)
    return (first, row["scope"], names.index(row["metric"]) if row["metric"] in names else len(names), row["metric"])


def shards(session: Session, evaluation_id: int) -> list[Row]:
    """Return the view `evaluation_provenance`: each shard's worker, time and device."""
    query = (
        select(evaluation_provenance)
        .where(evaluation_provenance.c.evaluation_id == evaluation_id)
        .order_by(evaluation_provenance.c.shard)
    )
    return rows_of(session, query)


# Questions of an evaluation

# The counts behind the fractions of question_metrics. Questions without predictions have no such row.
_m, _o = question_metrics.c, QuestionScore
_COUNTS: Final = tuple(
    func.coalesce(getattr(_o, name), 0).label(name) for name in ("variants", "valid", "correct", "agreeing")
)
# Only completely scored questions are right or wrong everywhere: an unscored question is never wrong.
QUESTION_FILTERS: Final[dict[str, tuple[str, ColumnElement[bool] | None]]] = {
    "all": ("All", None),
    "right": ("Right everywhere", and_(_m.scored, _o.variants > 0, _o.correct == _o.variants)),
    "flips": ("Answer flips", and_(_m.scored, _o.variants > 1, _o.agreeing < _o.variants)),
    "wrong": ("Wrong everywhere", and_(_m.scored, _o.variants > 0, _o.correct == 0)),
    "invalid": ("No valid answer", _o.valid < _o.variants),
    "unscored": ("Not scored yet", not_(_m.scored)),
}
"""Filter → label and condition. Flips may include questions with an invalid answer in some variant."""

# The conditions of the filter "flips", on columns of QuestionScore alone.
_FLIPS: Final = (_o.stored >= _o.expected, _o.variants > 1, _o.agreeing < _o.variants)


def question_counts(
    session: Session, evaluation_id: int, among: Select[*tuple[Any, ...]] | None = None
) -> dict[str, int]:
    """Count the questions that pass each filter, only among the ids that `among` selects."""
    kept = [
        (func.count() if condition is None else func.count().filter(condition)).label(name)
        for name, (_, condition) in QUESTION_FILTERS.items()
    ]
    row = rows_of(session, _questions(select(*kept), evaluation_id, among))[0]
    return {name: int(value) for name, value in row.items()}


def _questions(
    query: Select[*tuple[Any, ...]], evaluation_id: int, among: Select[*tuple[Any, ...]] | None
) -> Select[*tuple[Any, ...]]:
    statement = (
        query.select_from(question_metrics)
        .outerjoin(_o, and_(_o.evaluation_id == _m.evaluation_id, _o.question_id == _m.question_id))
        .join(Question, Question.id == _m.question_id)
        .where(_m.evaluation_id == evaluation_id)
    )
    return statement if among is None else statement.where(_m.question_id.in_(among))


def questions(
    session: Session,
    evaluation_id: int,
    *,
    only: str,
    limit: int,
    offset: int,
    among: Select[*tuple[Any, ...]] | None = None,
) -> list[Row]:
    """Return the questions of an evaluation in the benchmark's order, with their metrics and counts."""
    condition = QUESTION_FILTERS[only][1]
    kept = _questions(select(_m.question_id), evaluation_id, among)
    if condition is not None:
        kept = kept.where(condition)
    # In separate queries: otherwise all questions would be joined before any is excluded.
    ids = session.scalars(kept.order_by(Question.ordinal).limit(limit).offset(offset)).all()
    query = _questions(select(question_metrics, *_COUNTS, Question.text), evaluation_id, None)
    return rows_of(session, query.where(_m.question_id.in_(ids)).order_by(Question.ordinal))


def flips_beside(session: Session, evaluation_id: int, asked: Row) -> Row:
    """Return the flipping questions before and after a question, in the benchmark's order: `previous`, `next`.

    The ids are None if there is no such question. `flips`: number of all flipping questions; `place`: the number of
    this question among them, None if it does not flip itself.
    """
    place = asked["ordinal"]
    statement = (
        select(
            func.count().label("flips"),
            func.count().filter(Question.ordinal <= place).label("up_to"),
            func.count().filter(Question.ordinal == place).label("own"),
            func.max(case((Question.ordinal < place, Question.ordinal))).label("previous"),
            func.min(case((Question.ordinal > place, Question.ordinal))).label("next"),
        )
        .select_from(_o)
        .join(Question, Question.id == _o.question_id)
        .where(_o.evaluation_id == evaluation_id, *_FLIPS)
    )
    flips = rows_of(session, statement)[0]
    near = [flips[side] for side in ("previous", "next") if flips[side] is not None]
    ids: dict[int, int] = {}
    if near:
        query = select(Question.ordinal, Question.id).where(
            Question.benchmark_version_id == asked["benchmark_version_id"],
            Question.ordinal.in_(near),
            ~Question.few_shot,
        )
        ids = {row.ordinal: row.id for row in session.execute(query)}
    return {
        "flips": flips["flips"],
        "place": flips["up_to"] if flips["own"] else None,
        **{side: ids.get(flips[side]) for side in ("previous", "next")},
    }


def flipping_parts(session: Session, evaluation_ids: Sequence[int], *, limit: int) -> list[Row]:
    """Return the subjects with the most flips in sealed evaluations: rows of the view `evaluation_metrics`.

    They are sorted by the lower end of the interval of their fluctuation rate, so that a subject with few questions
    does not come first by luck. A subject that is the whole evaluation is omitted.
    """
    c = evaluation_metrics.c
    query = (
        select(c.evaluation_id, c.scope, c.value, c.n, c.interval_low, c.interval_high)
        .join(Evaluation, Evaluation.id == c.evaluation_id)
        .where(
            c.evaluation_id.in_(evaluation_ids),
            c.metric == "fluctuation_rate",
            c.scope.like("subject:%"),
            c.value > 0,
            c.n < Evaluation.questions,
        )
        .order_by(c.interval_low.desc().nulls_last(), c.value.desc(), c.n.desc(), c.evaluation_id, c.scope)
        .limit(limit)
    )
    return rows_of(session, query)


def flipping_questions(session: Session, evaluation_id: int, *, limit: int) -> list[Row]:
    """Return the questions whose answers agree least over the orders: `agreement`, in [0, 1], and counts."""
    pairs = _o.variants * (_o.variants - 1) / 2.0
    agreement = (_o.equal_pairs / pairs).label("agreement")
    query = (
        select(
            _o.question_id, _o.correct, _o.variants, agreement, Question.external_id, Question.subject, Question.text
        )
        .join(Question, Question.id == _o.question_id)
        .where(_o.evaluation_id == evaluation_id, *_FLIPS, _o.equal_pairs.is_not(None))
        .order_by(agreement, Question.ordinal)
        .limit(limit)
    )
    return rows_of(session, query)


def predictions(session: Session, evaluation_id: int, question_id: int) -> list[Row]:
    """Return the view `prediction_detail` of one question: one row per variant, by ordinal. Raises ArchivedError."""
    require_rows(session, evaluation_id)
    c = prediction_detail.c
    query = select(prediction_detail).where(c.evaluation_id == evaluation_id, c.question_id == question_id)
    return rows_of(session, query.order_by(c.variant))


def thoughts(session: Session, evaluation_id: int, question_id: int) -> dict[int, str]:
    """Map variant → the stored thought before its answer."""
    query = select(Generation.variant, Generation.thought).where(
        Generation.evaluation_id == evaluation_id,
        Generation.question_id == question_id,
        Generation.thought.is_not(None),
    )
    require_rows(session, evaluation_id)
    rows = session.execute(query)
    return {row.variant: thought_of(row.thought) or "" for row in rows}


def questions_answered_with(session: Session, evaluation_id: int, words: str) -> list[int]:
    """Return the ids of questions whose written answers contain this text, ignoring case."""
    query = (
        select(Generation.question_id)
        .where(Generation.evaluation_id == evaluation_id, Generation.text.icontains(words, autoescape=True))
        .distinct()
    )
    require_rows(session, evaluation_id)
    return [row.question_id for row in session.execute(query)]


def predictions_after(session: Session, evaluation_id: int, after: tuple[int, int] | None, *, limit: int) -> list[Row]:
    """Return an evaluation's predictions by question and variant, after the pair `after`: (question, variant)."""
    c = prediction_detail.c
    query = select(prediction_detail).where(c.evaluation_id == evaluation_id)
    if after is not None:
        query = query.where(tuple_(c.question_id, c.variant) > tuple_(*after))
    require_rows(session, evaluation_id)
    return list_rows(session.execute(query.order_by(c.question_id, c.variant).limit(limit)))


def find_question(session: Session, evaluation_id: int, question_id: int) -> tuple[Row, int]:
    """Return a question of an evaluation and its expected number of variants. Raises NotFoundError."""
    query = select(EvaluationQuestion.n_variants).filter_by(evaluation_id=evaluation_id, question_id=question_id)
    expected = session.scalar(query)
    if expected is None:
        raise NotFoundError(
            f"evaluation {evaluation_id} does not ask a question {question_id}; its page lists the questions it asks"
        )
    return question(session, question_id), expected


def exact_prompts(session: Session, row: Row, question_id: int, asked: Sequence[Row]) -> dict[int, Prompt]:
    """Map variant → its prompt, rebuilt; empty if the prompts were not recorded.

    asked: predictions whose digests show that a prompt was recorded.
    """
    variants = {prediction["variant"] for prediction in asked if prediction["prompt_digest"] is not None}
    stored = session.get_one(Evaluation, row["evaluation_id"])
    if not variants or not load_variants(stored.variant_set).is_current(stored.variant_set.version):
        return {}
    built = prompts_of(session, stored, [session.get_one(Question, question_id)])
    return {item.variant.ordinal: item.prompt for item in built if item.variant.ordinal in variants}


# A question


QUESTION: Final[Select[*tuple[Any, ...]]] = (
    select(
        Question.id.label("question_id"),
        Question.external_id,
        Question.ordinal,
        Question.subject,
        Question.context,
        Question.text,
        Question.answer,
        Question.refers_to_options,
        Question.sorted_numeric,
        Benchmark.name.label("benchmark"),
        BenchmarkVersion.version.label("benchmark_version"),
        BenchmarkVersion.id.label("benchmark_version_id"),
    )
    .join(BenchmarkVersion, BenchmarkVersion.id == Question.benchmark_version_id)
    .join(Benchmark)
)


def question(session: Session, question_id: int) -> Row:
    """Return a question with its options. Raises NotFoundError if the session does not see it."""
    rows = rows_of(session, QUESTION.where(Question.id == question_id, ~Question.few_shot))
    if not rows:
        raise NotFoundError(f"no question {question_id}; a benchmark's page lists its questions")
    options = select(QuestionOption.text).filter_by(question_id=question_id).order_by(QuestionOption.ordinal)
    return rows[0] | {"options": list(session.scalars(options))}


def question_everywhere(session: Session, question_id: int, *, limit: int, offset: int) -> tuple[list[Row], int]:
    """Return a question's outcome in every evaluation that includes it, newest first, and the total."""
    of_question = (
        select(EvaluationQuestion.evaluation_id)
        .join(Evaluation, Evaluation.id == EvaluationQuestion.evaluation_id)
        .where(EvaluationQuestion.question_id == question_id, Evaluation.state != "cancelled")
    )
    total = session.scalar(select(func.count()).select_from(of_question.subquery())) or 0
    page = of_question.order_by(EvaluationQuestion.evaluation_id.desc()).limit(limit).offset(offset)
    ids = list(session.scalars(page))
    outcomes = {
        row["evaluation_id"]: row
        for row in rows_of(
            session,
            select(question_metrics, *_COUNTS)
            .outerjoin(_o, and_(_o.evaluation_id == _m.evaluation_id, _o.question_id == _m.question_id))
            .where(_m.evaluation_id.in_(ids), _m.question_id == question_id),
        )
    }
    named = rows_of(session, EVALUATIONS.where(Evaluation.id.in_(ids)).order_by(Evaluation.id.desc()))
    # Nested, since "variants" is a number in the outcome and a name in the evaluation.
    return [row | {"outcome": outcomes[row["evaluation_id"]]} for row in named], total


def choices(session: Session, question_id: int, evaluation_ids: Sequence[int]) -> dict[int, dict[int | None, int]]:
    """Map evaluation → how often each option of a question was chosen; None stands for no valid answer.

    Only variants that show the question with exactly its own options count. Archived evaluations are left out.
    """
    p = Prediction
    query = (
        select(p.evaluation_id, p.chosen_option, func.count())
        .where(p.evaluation_id.in_(evaluation_ids), p.question_id == question_id, p.question_shown, p.own_options)
        .group_by(p.evaluation_id, p.chosen_option)
    )
    by_evaluation: dict[int, dict[int | None, int]] = {}
    for evaluation_id, option, prompts in session.execute(query):
        by_evaluation.setdefault(evaluation_id, {})[option] = prompts
    return by_evaluation
