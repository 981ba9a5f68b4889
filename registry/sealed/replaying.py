"""Replays: evaluations made from the stored answers of another, with another key or with texts read by other rules.

No model is run. Texts are read before the write transaction begins, so that other writers need not wait for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry.benchmarks.versions import DIFFERENCES, Content, contents_of, examples_of
from registry.boards.snapshots import refresh_boards
from registry.code_identity import code_identity
from registry.db import is_in, one_at_a_time, read_session, write_session
from registry.digests import specification_digest
from registry.errors import QueueError, UsageError
from registry.lookups import find_evaluation, find_sealed, find_version, not_withdrawn
from registry.names import plural
from registry.predictions.bulk import insert_predictions, insert_rows, renew_statistics
from registry.predictions.rows import compute_keyed_columns
from registry.predictions.stored import require_rows
from registry.prompting.protocols.replayed import read_by, reading_rules
from registry.prompting.protocols.store import find_definition, store_protocol
from registry.prompting.variants import QuestionShape, load_variants
from registry.proposals import propose
from registry.queue.claims import fingerprint_id
from registry.queue.evaluations import choose_again
from registry.scores.asked import as_specified, compute_asked_digest
from registry.scores.question_scores import write_question_scores
from registry.sealed.rereading import CHUNK, LISTED, Match, Readings, Report, StoredReading, read_texts
from registry.sealed.seal import seal_together
from registry.sealed.withdrawals import withdrawal_of
from registry.tables import (
    UNANSWERED_STATES,
    BenchmarkVersion,
    EngineFingerprint,
    Evaluation,
    EvaluationQuestion,
    Generation,
    Prediction,
    QuestionOption,
    Shard,
)

ENGINE: Final = "stored-answers"
"""The engine's name in the fingerprint of a replay."""


@dataclass(frozen=True)
class ReplayRequest:
    """A sealed evaluation, and the changes that its replay makes.

    benchmark: NAME or NAME@VERSION with the answer keys to use; None for the source's. protocol: its rules read the
    texts again; None leaves the answers as they were read.
    """

    source: int
    benchmark: str | None = None
    protocol: str | None = None
    requester: str | None = None


@dataclass(frozen=True)
class _Key:
    """A question in the replay's benchmark version. changed: its correct option differs from the source's."""

    question_id: int
    answer: int
    changed: bool


@dataclass(frozen=True)
class _Plan:
    """A replay that is not stored yet. keys: by the question's number in the source."""

    source: int
    version: int
    specification: dict[str, Any]
    rereads: bool
    keys: Mapping[int, _Key]

    @property
    def digest(self) -> str:
        return specification_digest(self.specification)


def replay(engine: Engine, request: ReplayRequest, match: Match, report: Report | None = None) -> tuple[int, bool]:
    """Store a sealed evaluation's answers as a new sealed evaluation; return its number, and whether it is new.

    If the registry already has the same replay, and it was not withdrawn, that replay is returned. match: called for
    answers in free text. Raises QueueError if the source is not sealed or no longer counts, ArchivedError if it is
    archived, UsageError if nothing would differ, the questions are not the same or texts are missing, ProtocolError for
    rules that cannot read the texts. After an error nothing is stored.
    """
    progress = report or (lambda _what, _done, _total: None)
    with read_session(engine) as session:
        plan = _plan(session, request)
        if (existing := _find_existing(session, plan)) is not None:
            return existing, False
        rules = reading_rules(plan.specification["protocol"])
        readings = None
        if plan.rereads:
            readings = read_texts(session, plan.source, rules, list(plan.keys), match, progress)
    with write_session(engine) as session:
        one_at_a_time(session, "submit")
        _find_source(session, request.source)  # it may have been withdrawn or archived since
        if (existing := _find_existing(session, plan)) is not None:
            return existing, False
        evaluation = _store_evaluation(session, plan, request.requester)
        _store_answers(session, evaluation, plan, readings, progress)
        renew_statistics(session, evaluation.prompts)
        write_question_scores(session, evaluation.id)
        progress("sealing", 0, 1)
        seal_together(session, [evaluation.id], lambda done: progress("sealing", done, 1))
        evaluation_id = evaluation.id
    refresh_boards(engine)
    return evaluation_id, True


# Plan


def _plan(session: Session, request: ReplayRequest) -> _Plan:
    source = _find_source(session, request.source)
    original = source.protocol.definition
    definition = original
    if request.protocol is not None:
        definition = read_by(original, find_definition(session, request.protocol))
    version = source.benchmark_version if request.benchmark is None else find_version(session, request.benchmark)
    if version.id == source.benchmark_version_id and definition == original:
        raise UsageError(
            f"evaluation {source.id} is on {_name_version(version)} and read by {reading_rules(original)['name']} "
            "already, so nothing would differ; give another --benchmark NAME@VERSION or another --protocol"
        )
    keys, question_filter = _match_questions(session, source, version)
    specification = source.specification | {
        "benchmark": {"name": version.benchmark.name, "content_digest": version.content_digest},
        "protocol": definition,
        "engine": source.specification["engine"] | {"replayed_from": source.seal},
        "questions": question_filter,
    }
    return _Plan(source.id, version.id, specification, definition != original, keys)


def _suggest_rerun(source: Evaluation) -> str:
    model, benchmark = source.model_revision.model.name, source.benchmark_version.benchmark.name
    return propose("evaluations submit", "--model", model, "--benchmark", benchmark, "--replicate")


def _find_source(session: Session, evaluation_id: int) -> Evaluation:
    source = find_sealed(session, evaluation_id)
    if (row := withdrawal_of(session, source.id)) is not None:
        other = "" if row.superseded_by is None else " that superseded it"
        raise QueueError(
            f"evaluation {source.id} was {row.kind} ({row.reason}), so nothing is made from its answers; replay the "
            f"evaluation{other or ' that takes its place'}, or ask the model again: "
            f"{_suggest_rerun(source)}"
        )
    require_rows(session, source.id)
    return source


def _find_existing(session: Session, plan: _Plan) -> int | None:
    """Return the newest evaluation that has this specification and counts."""
    query = select(Evaluation.id).where(
        Evaluation.specification_digest == plan.digest, Evaluation.seal.is_not(None), not_withdrawn()
    )
    return session.scalar(query.order_by(Evaluation.replicate.desc()).limit(1))


def _name_version(version: BenchmarkVersion) -> str:
    return f"{version.benchmark.name}@{version.version}"


# The same questions


def _match_questions(
    session: Session, source: Evaluation, version: BenchmarkVersion
) -> tuple[dict[int, _Key], dict[str, Any]]:
    """Map the source's question numbers to the questions of a version; also return the filter that selects them.

    Raises UsageError, naming the reason and the first questions, if the version's questions are not the source's.
    """
    before = source.benchmark_version
    ids = set(session.scalars(select(EvaluationQuestion.question_id).filter_by(evaluation_id=source.id)))
    contents = {name: item for name, item in contents_of(session, before.id).items() if item.question_id in ids}
    if version.id == before.id:
        unchanged = {item.question_id: _Key(item.question_id, item.answer, changed=False) for item in contents.values()}
        return unchanged, source.specification["questions"]
    others = contents_of(session, version.id)
    _require_same(source, version, "missing from it", contents.keys() - others.keys())
    chosen, question_filter = choose_again(session, version, source.specification["questions"])
    names = {question.external_id for question in chosen}
    _require_same(source, version, "that the evaluation did not ask", names - contents.keys())
    _require_same(source, version, "that its filter leaves out", contents.keys() - names)
    pairs = {name: (contents[name], others[name]) for name in contents}
    for reason, differs in DIFFERENCES.items():
        _require_same(source, version, reason, [name for name, pair in pairs.items() if differs(*pair)])
    if source.protocol.shots and examples_of(session, before.id) != examples_of(session, version.id):
        raise UsageError(
            f"evaluation {source.id} cannot be replayed on {_name_version(version)}: it was shown examples, and the "
            "few-shot pool is another one; give a version with the same pool"
        )
    _require_same(source, version, "whose orders follow the key", _find_moved_by_key(source, pairs))
    keys = {one.question_id: _Key(new.question_id, new.answer, one.answer != new.answer) for one, new in pairs.values()}
    return keys, question_filter


def _require_same(source: Evaluation, version: BenchmarkVersion, reason: str, names: Iterable[str]) -> None:
    listed = sorted(names)
    if not listed:
        return
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    raise UsageError(
        f"evaluation {source.id} cannot be replayed on {_name_version(version)}: {plural(len(listed), 'question')} "
        f"{reason}: "
        f"{', '.join(listed[:LISTED])}{more}; give a version with the same questions, options and order of options, or "
        f"ask the model again: {_suggest_rerun(source)}"
    )


def _find_moved_by_key(source: Evaluation, pairs: Mapping[str, tuple[Content, Content]]) -> Iterator[str]:
    """Yield the questions whose variants depend on the key, so that the stored orders would not fit the new key."""
    definition = load_variants(source.variant_set)
    if definition.kind == "imported":
        return
    for name, (one, other) in pairs.items():
        if one.answer != other.answer:
            shapes = (QuestionShape(name, len(one.options), answer) for answer in (one.answer, other.answer))
            if len({tuple(definition.variants(shape)) for shape in shapes}) > 1:
                yield name


# Storing


def _store_evaluation(session: Session, plan: _Plan, requester: str | None) -> Evaluation:
    """Store the replay with its questions and one shard, but without answers."""
    source = find_evaluation(session, plan.source)
    version = session.get_one(BenchmarkVersion, plan.version)
    same = select(Evaluation.replicate).filter_by(specification_digest=plan.digest)
    latest = session.scalar(same.order_by(Evaluation.replicate.desc()).limit(1))
    evaluation = Evaluation(
        specification=plan.specification,
        specification_digest=plan.digest,
        asked_digest=compute_asked_digest(plan.specification, source.questions, version.questions),
        replicate=0 if latest is None else latest + 1,
        model_revision=source.model_revision,
        benchmark_version=version,
        protocol=store_protocol(session, plan.specification["protocol"]),
        variant_set=source.variant_set,
        requester=requester,
        conflict_of_interest=source.conflict_of_interest,
        questions=source.questions,
        prompts=source.prompts,
        repeats=source.repeats,
        **(as_specified(plan.specification) | {"recorded": source.recorded}),
        state="running",
    )
    session.add(evaluation)
    session.flush()
    shard = Shard(
        evaluation_id=evaluation.id,
        ordinal=0,
        queue="cpu",
        state="done",
        prompts=source.prompts,
        engine_fingerprint_id=fingerprint_id(session, _build_fingerprint(session, source)),
    )
    session.add(shard)
    session.flush()
    counts = select(EvaluationQuestion.question_id, EvaluationQuestion.n_variants).filter_by(evaluation_id=source.id)
    rows = [
        {
            "evaluation_id": evaluation.id,
            "question_id": plan.keys[question_id].question_id,
            "n_variants": n_variants,
            "shard_id": shard.id,
        }
        for question_id, n_variants in session.execute(counts.order_by(EvaluationQuestion.question_id))
    ]
    insert_rows(session, EvaluationQuestion, rows)
    return evaluation


def _build_fingerprint(session: Session, source: Evaluation) -> dict[str, Any]:
    """Return the inputs of a replay's numbers that its specification lacks: this code, and the source's engines."""
    query = select(EngineFingerprint.digest).join(Shard).where(Shard.evaluation_id == source.id).distinct()
    return {
        "engine": ENGINE,
        "code": code_identity(),
        "source": source.seal,
        "scored_by": sorted(session.scalars(query)),
    }


def _store_answers(
    session: Session, evaluation: Evaluation, plan: _Plan, readings: Readings | None, progress: Report
) -> None:
    """Store the source's predictions and texts under the replay's key and reading."""
    inserted = {int(ordinal): text for ordinal, text in evaluation.variant_set.inserted.items()}
    done = 0
    for ids in _batch_keys(plan.keys):
        options = _load_options(session, [number for number in ids if plan.keys[number].changed])
        predictions = list(_read_rows(session, Prediction, plan.source, ids))
        for row in predictions:
            number = row["question_id"]
            key = plan.keys[number]
            if readings is not None:
                row.update(_read_columns(row, readings[number, row["variant"]], key.answer))
            if key.changed:
                row.update(compute_keyed_columns(row, options[number], key.answer, inserted))
            row.update(evaluation_id=evaluation.id, question_id=key.question_id)
        insert_predictions(session, predictions)
        texts = list(_read_rows(session, Generation, plan.source, ids))
        for row in texts:
            number = row["question_id"]
            if readings is not None:
                row["extracted"] = readings[number, row["variant"]].text
            row.update(evaluation_id=evaluation.id, question_id=plan.keys[number].question_id)
        insert_rows(session, Generation, texts)
        done += len(predictions)
        progress("storing", done, evaluation.prompts)


def _batch_keys(keys: Mapping[int, _Key]) -> Iterator[list[int]]:
    numbers = list(keys)
    for start in range(0, len(numbers), CHUNK):
        yield numbers[start : start + CHUNK]


def _read_rows(
    session: Session, table: type[Prediction | Generation], evaluation_id: int, ids: Sequence[int]
) -> Iterator[dict[str, Any]]:
    columns = table.__table__.columns
    query = select(*columns).where(columns.evaluation_id == evaluation_id, is_in(columns.question_id, ids))
    for row in session.execute(query.order_by(columns.question_id, columns.variant)).mappings():
        yield {str(name): value for name, value in row.items()}


def _load_options(session: Session, ids: Sequence[int]) -> dict[int, list[str]]:
    """Map each of these questions to the texts of its options."""
    query = select(QuestionOption.question_id, QuestionOption.text).where(is_in(QuestionOption.question_id, ids))
    options: dict[int, list[str]] = {}
    for question_id, text in session.execute(query.order_by(QuestionOption.question_id, QuestionOption.ordinal)):
        options.setdefault(question_id, []).append(text)
    return options


def _read_columns(row: Mapping[str, Any], reading: StoredReading, answer: int) -> dict[str, Any]:
    """Return the columns of a prediction that depend on how its text is read."""
    option = None if reading.position is None else row["shown"][reading.position]
    return {
        "chosen_position": reading.position,
        "chosen_option": option,
        "correct": option == answer,
        "tied": False,
        "extraction_rule": reading.rule,
        "state": reading.state if reading.state in UNANSWERED_STATES else None,
    }
