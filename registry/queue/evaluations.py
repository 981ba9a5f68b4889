"""Submit evaluations, and pause, resume, cancel or retry them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import case, insert, select, update
from sqlalchemy.orm import Session

from registry.db import MAX_INTEGER, one_at_a_time, update_one
from registry.digests import sha256_text, specification_digest
from registry.errors import NotFoundError, ProtocolError, QueueError, UsageError
from registry.lookups import find_evaluation, find_revision, find_version, not_withdrawn
from registry.predictions.prompts import prompts_of
from registry.prompting.protocols.presets import RECORDED
from registry.prompting.protocols.replayed import READ_BY, asking_name
from registry.prompting.protocols.store import find_definition, store_protocol
from registry.prompting.variants import VariantSetDefinition, parse_variants
from registry.proposals import propose
from registry.queue import exclusions
from registry.queue.hints import hint_at
from registry.queue.planning import SHARD_PROMPTS, plan_questions, plan_shards, store_shards
from registry.queue.thinking import read_server, read_template, why_not_honoured
from registry.revisions.endpoints import endpoint_of, provider_of
from registry.revisions.store import model_identity
from registry.scores.asked import as_specified, compute_asked_digest
from registry.settings import get_settings
from registry.tables import (
    BenchmarkVersion,
    Evaluation,
    ModelRevision,
    Question,
    Shard,
    Variant,
    VariantSet,
)

NO_CONFLICT: Final = "none"
"""The statement that there is no conflict of interest."""


@dataclass(frozen=True)
class EvaluationRequest:
    """A user's request for an evaluation.

    limit: keep the first questions in file order, after the other filters.
    options: only questions with this number of options.
    sample: number of questions to draw with `seed`, after the other filters; None keeps all.
    max_workers: most workers that may score it at once; None for no limit.
    shard_prompts: approximate number of prompts in a planned shard; it changes no result.
    variants: the text of a variant set, or the set with the files that it names.
    conflict_of_interest: the requester's statement; "none" if there is no conflict, None if nothing was stated.
    """

    model: str
    benchmark: str
    variants: str | VariantSetDefinition
    protocol: str = "symbols"
    shots: int = 0
    limit: int | None = None
    subjects: tuple[str, ...] = ()
    options: int | None = None
    sample: int | None = None
    seed: int = 0
    priority: int = 0
    queue: str = "cpu"
    max_workers: int | None = None
    new_replicate: bool = False
    requester: str | None = None
    shard_prompts: int = SHARD_PROMPTS
    conflict_of_interest: str | None = None

    def definition(self) -> VariantSetDefinition:
        """Return the requested variant set. Raises VariantError for an invalid text."""
        return parse_variants(self.variants) if isinstance(self.variants, str) else self.variants


def submit(session: Session, request: EvaluationRequest) -> tuple[Evaluation, bool]:
    """Queue an evaluation; return it, and whether it is new.

    If an evaluation has the same specification it is returned instead, unless a new replicate is requested or all such
    evaluations were withdrawn.
    Raises a ShuffleboardError that names the problem; then nothing is stored.
    """
    definition = request.definition()
    one_at_a_time(session, "submit")
    protocol_json = find_definition(session, request.protocol, request.shots)
    revision = find_revision(session, request.model)
    version = find_version(session, request.benchmark)
    if revision.kind == "external":
        raise UsageError(
            f"model {revision.model.name} is external: it cannot be asked; import its outputs: "
            f"{propose('evaluations import', 'FILE', '--model', revision.model.name, '--benchmark', 'BENCHMARK')}"
        )
    if revision.state != "ready":
        why = revision.error or f"no worker has hashed its files yet; start one with: {propose('worker')}"
        raise QueueError(f"model {revision.model.name} revision {revision.number} is not ready: {why}")
    check_askable(revision, protocol_json)
    _check_repeats(definition, protocol_json)
    if request.shots > version.few_shot_examples:
        raise ProtocolError(
            f"{request.shots} shots requested, but the few-shot pool of {version.benchmark.name} holds "
            f"{version.few_shot_examples}; import it with --fewshot FILE or request fewer"
        )
    questions, filter_json = choose_questions(
        session,
        version,
        limit=request.limit,
        subjects=request.subjects,
        options=request.options,
        sample=request.sample,
        seed=request.seed,
    )
    planned, names = plan_questions(questions, definition, protocol_json.get("labels"))
    engine = {"name": "endpoint" if revision.kind == "openai" else "transformers"}
    specification = build_specification(revision, version, protocol_json, definition, engine, filter_json)
    digest = specification_digest(specification)
    same_specification = select(Evaluation).filter_by(specification_digest=digest).order_by(Evaluation.replicate)
    replicates = session.scalars(same_specification).all()
    valid = session.scalars(same_specification.where(not_withdrawn())).all()
    if valid and not request.new_replicate:
        return valid[-1], False
    protocol = store_protocol(session, protocol_json)
    variant_set = store_variant_set(session, definition)
    store_variants(session, variant_set, names)
    evaluation = Evaluation(
        specification=specification,
        specification_digest=digest,
        asked_digest=compute_asked_digest(specification, len(planned), version.questions),
        replicate=replicates[-1].replicate + 1 if replicates else 0,
        model_revision=revision,
        benchmark_version=version,
        protocol=protocol,
        variant_set=variant_set,
        priority=request.priority,
        max_workers=request.max_workers,
        requester=request.requester,
        conflict_of_interest=check_statement(request.conflict_of_interest),
        questions=len(planned),
        prompts=sum(question.n_variants for question in planned),
        repeats=definition.repeats,
        **as_specified(specification),
    )
    session.add(evaluation)
    session.flush()
    _check_prompts(session, evaluation, questions)
    store_shards(session, evaluation.id, plan_shards(planned, request.shard_prompts), request.queue)
    hint_at(session, Shard.evaluation_id == evaluation.id)
    return evaluation, True


MAX_STATEMENT: Final = 500


def check_statement(text: str | None) -> str | None:
    """Normalise a statement of conflicts of interest: stripped, `none` in lower case, None if blank.

    Raises UsageError if it is too long or contains a control character.
    """
    stated = (text or "").strip()
    if len(stated) > MAX_STATEMENT or not stated.isprintable():
        raise UsageError(f"conflict of interest: give up to {MAX_STATEMENT} characters in one line, or none")
    return (NO_CONFLICT if stated.casefold() == NO_CONFLICT else stated) or None


def check_askable(revision: ModelRevision, protocol: dict[str, Any]) -> None:
    """Raise ProtocolError if no worker could evaluate the model under the protocol."""
    provider = provider_of(revision.location or "", get_settings()) if revision.kind == "openai" else None
    name = f"model {revision.model.name} revision {revision.number}"
    if protocol["format"] == RECORDED["format"]:
        raise ProtocolError(
            f"protocol {protocol['name']}: {name} cannot be asked by it, since it says that nobody knows how recorded "
            "answers were asked; use another, such as symbols"
        )
    if READ_BY in protocol:
        raise ProtocolError(
            f"protocol {protocol['name']}: {name} cannot be asked by it, since it says how stored answers were "
            f"read again; use {asking_name(protocol['name'])}"
        )
    check_written(name, provider, protocol)
    _check_thinking(name, revision, protocol)
    if not protocol["chat_template"]:
        return
    if revision.kind != "openai" and revision.chat_template is None:
        raise ProtocolError(
            f"protocol {protocol['name']}: {name} has no chat template; use a protocol without one, or a model "
            "that was tuned for conversations"
        )
    if revision.kind == "openai" and "answer" not in protocol:
        raise ProtocolError(
            f"protocol {protocol['name']}: {name} is on an endpoint, which formats conversations itself and "
            "gives no log-probabilities of what follows; use a protocol without chat template, or one that generates"
        )


def _check_repeats(variants: VariantSetDefinition, protocol: Mapping[str, Any]) -> None:
    """Raise ProtocolError if prompts are repeated although the answer would be the same each time."""
    if variants.repeats == 1:
        return
    why = None
    if "answer" not in protocol:
        why = "reads log-probabilities"
    elif protocol["generation"]["sampling"] == "greedy":
        why = "does not sample (sampling = greedy)"
    if why is not None:
        raise ProtocolError(
            f"variants {variants.name}: protocol {protocol['name']} {why}, so the same prompt gives the same answer "
            "each time; leave out repeats, or use a protocol that samples, such as select-letter"
        )


def _check_thinking(name: str, revision: ModelRevision, protocol: dict[str, Any]) -> None:
    """Raise ProtocolError if the model does not support the protocol's settings of thinking."""
    if revision.kind == "openai":
        endpoint = endpoint_of(revision.location or "", get_settings())
        shown = read_server(revision.thinking)
    else:
        endpoint, shown = None, read_template(revision.chat_template)
    why = why_not_honoured(protocol, shown, endpoint, revision.requested_revision or "")
    if why is not None:
        raise ProtocolError(f"protocol {protocol['name']}: {name}: {why}")


def check_written(model: str, provider: str | None, protocol: dict[str, Any]) -> None:
    """Raise ProtocolError if a provider's model would have to give log-probabilities instead of written answers."""
    if provider is not None and "answer" not in protocol:
        raise ProtocolError(
            f"protocol {protocol['name']}: {model} is served by {provider}, which gives written answers only; use a "
            "protocol that generates, such as select-letter"
        )


def _check_prompts(session: Session, evaluation: Evaluation, questions: Iterable[Question]) -> None:
    """Build the prompts of one question for each number of options, to find problems on submission.

    Raises ProtocolError if the protocol cannot be used with these variants, such as if it cannot distinguish the
    labels. Without this check the worker would fail.
    """
    one_of_each = {question.n_options: question for question in questions}
    for _ in prompts_of(session, evaluation, list(one_of_each.values())):
        pass


def build_specification(
    revision: ModelRevision,
    version: BenchmarkVersion,
    protocol: dict[str, Any],
    variants: VariantSetDefinition,
    engine: dict[str, Any],
    questions: dict[str, Any],
) -> dict[str, Any]:
    """Return the document whose digest identifies an evaluation: contents only, no database ids."""
    return {
        "model": model_identity(revision),
        "benchmark": {"name": version.benchmark.name, "content_digest": version.content_digest},
        "protocol": protocol,
        "variants": variants.specification(),
        "engine": engine,
        "questions": questions,
    }


def question_filter(
    *, limit: int | None = None, subjects: Sequence[str] = (), options: int | None = None
) -> dict[str, Any]:
    """Return the document that a specification stores for these filters, without a sample."""
    document: dict[str, Any] = {"limit": limit, "subjects": sorted(subjects) or None}
    return document | ({"options": options} if options is not None else {})


def choose_questions(
    session: Session,
    version: BenchmarkVersion,
    *,
    limit: int | None = None,
    subjects: Sequence[str] = (),
    options: int | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> tuple[list[Question], dict[str, Any]]:
    """Return the questions that a filter keeps, in file order, and the filter as a specification stores it.

    A sample is drawn from the questions that the rest of the filter keeps; a sample of all of them is not recorded.
    Raises the errors of `select_questions` and `draw_sample`.
    """
    questions = select_questions(session, version, limit=limit, subjects=subjects, options=options)
    document = question_filter(limit=limit, subjects=subjects, options=options)
    if sample is None:
        return questions, document
    drawn = draw_sample(questions, sample, seed, version.benchmark.name)
    if len(drawn) == len(questions):
        return questions, document
    return drawn, document | {"sample": {"questions": len(drawn), "of": len(questions), "seed": seed}}


def draw_sample(questions: Sequence[Question], size: int, seed: int, benchmark: str) -> list[Question]:
    """Return the questions with the smallest SHA-256 of "seed:question id", in their original order.

    A sample therefore contains every smaller sample of the same seed, and any program can draw it again. Raises
    UsageError for a size below 1 or above the number of questions, or a seed out of range.
    """
    if size < 1:
        raise UsageError(f"sample {size}: give a number of questions, from 1")
    if not 0 <= seed <= MAX_INTEGER:
        raise UsageError(f"seed {seed}: give a number from 0 to {MAX_INTEGER}")
    if size > len(questions):
        raise UsageError(
            f"sample {size}: {benchmark} has {len(questions)} questions in this selection; give at most that many, or "
            "leave out the sample to ask all of them"
        )
    hashes = {question.id: sha256_text(f"{seed}:{question.external_id}") for question in questions}
    drawn = set(sorted(hashes, key=lambda number: hashes[number])[:size])
    return [question for question in questions if question.id in drawn]


def choose_again(
    session: Session, version: BenchmarkVersion, question_filter: Mapping[str, Any]
) -> tuple[list[Question], dict[str, Any]]:
    """Return the questions that a stored specification's filter keeps, and the filter, like `choose_questions`."""
    sample = question_filter.get("sample") or {}
    return choose_questions(
        session,
        version,
        limit=question_filter.get("limit"),
        subjects=question_filter.get("subjects") or (),
        options=question_filter.get("options"),
        sample=sample.get("questions"),
        seed=sample.get("seed", 0),
    )


def select_questions(
    session: Session,
    version: BenchmarkVersion,
    *,
    limit: int | None = None,
    subjects: Sequence[str] = (),
    options: int | None = None,
) -> list[Question]:
    """Return the questions of a version that a filter keeps, in file order.

    Raises UsageError for a limit out of range, NotFoundError for a subject or a number of options that the benchmark
    does not have.
    """
    if limit is not None and not 1 <= limit <= MAX_INTEGER:
        raise UsageError(f"limit {limit}: give a number from 1 to {MAX_INTEGER}")
    query = (
        select(Question)
        .where(Question.benchmark_version_id == version.id, ~Question.few_shot)
        .order_by(Question.ordinal)
    )
    if subjects:
        all_subjects = set(session.scalars(select(Question.subject).where(Question.benchmark_version_id == version.id)))
        for subject in subjects:
            if subject not in all_subjects:
                listed = ", ".join(sorted(name for name in all_subjects if name is not None)) or "none"
                raise NotFoundError(f"benchmark {version.benchmark.name} has no subject {subject!r}; it has: {listed}")
        query = query.where(Question.subject.in_(subjects))
    if options is not None:
        query = query.where(Question.n_options == options)
    questions = list(session.scalars(query.limit(limit) if limit is not None else query))
    if not questions and options is not None:
        raise NotFoundError(
            f"benchmark {version.benchmark.name} has no question of {options} options in this selection"
        )
    return questions


def store_variant_set(session: Session, definition: VariantSetDefinition) -> VariantSet:
    """Return the row of a variant set, inserting a new one."""
    digest = specification_digest(definition.specification())
    row = session.scalar(select(VariantSet).where(VariantSet.digest == digest))
    if row is None:
        row = VariantSet(
            digest=digest,
            name=definition.name,
            kind=definition.kind,
            version=definition.version,
            parameters=dict(definition.parameters),
            inserted={str(ordinal): text for ordinal, text in definition.inserted().items()},
            content=definition.content,
        )
        session.add(row)
        session.flush()
    return row


def store_variants(session: Session, variant_set: VariantSet, names: dict[int, dict[int, str]]) -> None:
    """Store the names of a set's variants for numbers of options that have none yet.

    names: by number of options and ordinal.
    """
    stored = set(session.scalars(select(Variant.n_options).where(Variant.variant_set_id == variant_set.id)))
    rows = [
        {"variant_set_id": variant_set.id, "n_options": n_options, "ordinal": ordinal, "name": name}
        for n_options, listed in names.items()
        if n_options not in stored
        for ordinal, name in listed.items()
    ]
    if rows:
        session.execute(insert(Variant), rows)


# For each action, the states that allow it and the resulting state.
_ACTIONS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "pause": (("queued", "running"), "paused"),
    "resume": (("paused",), "queued"),
    "cancel": (("queued", "running", "paused", "failed"), "cancelled"),
    "retry": (("failed", "cancelled", "queued", "running", "paused"), "queued"),
}


def move(session: Session, evaluation_id: int, action: str) -> Evaluation:
    """Pause, resume, cancel or retry an evaluation.

    pause: shards in progress are finished, no others are begun. cancel: work in progress is discarded, stored results
    stay. retry: every shard that is neither done nor in progress is queued with its counts at zero and without a wait;
    a paused evaluation stays paused. Raises QueueError if the evaluation's state does not allow it.
    """
    evaluation = find_evaluation(session, evaluation_id)
    allowed, target = _ACTIONS[action]
    if evaluation.state == target and action != "retry":
        return evaluation
    if evaluation.state not in allowed:
        raise QueueError(f"evaluation {evaluation_id} is {evaluation.state}; {action} works on: {', '.join(allowed)}")
    shards = update(Shard).where(Shard.evaluation_id == evaluation_id)
    if action == "cancel":
        # The raised fence makes a worker that is scoring one of them discard its result.
        session.execute(
            shards.where(Shard.state.in_(("queued", "leased", "failed"))).values(
                state="cancelled", lease_until=None, fence=Shard.fence + 1
            )
        )
    if action == "retry":
        exclusions.forget(session, evaluation)
        session.execute(
            shards.where(Shard.state.in_(("failed", "cancelled", "queued"))).values(
                state="queued", failures=0, crashes=0, error=None, not_before=None
            )
        )
    ended = Evaluation.state.in_(("failed", "cancelled"))
    state = case((ended, target), else_=Evaluation.state) if action == "retry" else target
    # Conditional, and after the shards: a worker that seals or fails the evaluation locks them in this order.
    moved = update_one(
        session,
        update(Evaluation).where(Evaluation.id == evaluation_id, Evaluation.state.in_(allowed)).values(state=state),
    )
    session.refresh(evaluation)
    if not moved:
        raise QueueError(f"evaluation {evaluation_id} became {evaluation.state} meanwhile; {action} is not for that")
    hint_at(session, Shard.evaluation_id == evaluation_id)
    return evaluation
