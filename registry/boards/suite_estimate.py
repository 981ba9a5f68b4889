"""Estimate the cost of a suite for a model that may not be registered yet, without writing anything.

Prompts are counted exactly. Token counts come from other models' evaluations of the same questions under the same
protocol, if any, because the model's own tokenizer is not available. Seconds are computed from the model's measured
rate.
The provider's charge is computed from the price list: the expected charge, at the token counts of the model's earlier
answers, and the maximum.
"""

from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.boards.definition import Asked
from registry.boards.store import Entry, evaluations_of_entry, evaluations_of_suite
from registry.digests import specification_digest
from registry.errors import ProtocolError
from registry.lookups import find_suite, find_version
from registry.predictions.prompts import prompts_of_question
from registry.prompting.protocols.store import find_definition
from registry.prompting.variants import QuestionShape, VariantSetDefinition, parse_variants
from registry.providers.prices import load_prices
from registry.queue.claims import live_workers
from registry.queue.estimate import ESTIMATED, sum_known, tokens_per_second
from registry.queue.evaluations import build_specification, check_written, question_filter, select_questions
from registry.queue.money import Charge, Service, charge, measure_tokens
from registry.settings import get_settings
from registry.tables import BenchmarkVersion, Evaluation, ModelRevision, Protocol, Question, Shard, VariantSet

SUMS: Final = ("questions", *ESTIMATED)
SAMPLED: Final = 50
"""Number of questions of each benchmark whose prompts are built to measure their length."""


def suite_estimate(
    session: Session,
    suite: str,
    revision: ModelRevision | None = None,
    *,
    queue: str = "cpu",
    service: Service | None = None,
) -> dict[str, Any]:
    """Estimate each evaluation of a suite, and the sums. An unknown number is None, with the reason.

    revision: the model's, if it is registered; finished work is then not counted again. service: the provider's service
    that would answer; without one nothing is charged, and `currency` is None.
    Raises the ShuffleboardError that submitting the suite would raise, as far as it can be found by reading.
    """
    usable = revision if revision is not None and revision.state == "ready" else None
    rows = [
        _estimate(session, evaluation, usable, queue, service)
        for evaluation in evaluations_of_suite(session, find_suite(session, suite))
    ]
    sums = {name: sum_known(row[name] for row in rows) for name in SUMS}
    currency = None if service is None else load_prices(get_settings().prices).currency
    return {"estimates": rows, **sums, "currency": currency, "workers": live_workers(session)}


def _estimate(
    session: Session, asked: Asked, revision: ModelRevision | None, queue: str, service: Service | None
) -> dict[str, Any]:
    version = find_version(session, asked.benchmark)
    protocol = find_definition(session, asked.protocol, asked.shots)
    if service is not None:
        check_written(f"model {service.name}", service.endpoint.provider, protocol)
    if asked.shots > version.few_shot_examples:
        raise ProtocolError(
            f"{asked.shots} shots requested, but the few-shot pool of {version.benchmark.name} holds "
            f"{version.few_shot_examples}"
        )
    variants = parse_variants(asked.variants)
    questions, prompts = _count_prompts(session, version, asked, variants)
    known = None if revision is None else _find_evaluation(session, asked, revision, version, protocol, variants)
    left = prompts if known is None else _count_prompts_left(session, known)
    row: dict[str, Any] = {
        "evaluation": None if known is None else known.id,
        "benchmark": version.benchmark.name,
        "variants": variants.name,
        "protocol": asked.protocol,
        "shots": asked.shots,
        "questions": questions,
        "prompts": prompts,
        "prompts_left": left,
        "cost": 0.0,
        "cost_limit": 0.0,
    }
    if not left:
        return row | {"tokens_naive": 0, "tokens_shared": 0, "seconds": 0.0, "reason": None}
    naive, shared = _tokens_of_others(session, version, protocol, variants)
    if service is not None:
        money = _estimate_charge(session, asked, revision, version, protocol, variants, left, service)
        others = None if naive is None else round(naive * left)
        tokens = others if money.tokens is None else money.tokens
        return row | {
            "tokens_naive": tokens,
            "tokens_shared": tokens,
            "seconds": None,
            "reason": money.reason or "how long a provider takes is not known",
            "cost": money.cost,
            "cost_limit": money.most,
        }
    rate = None if revision is None else tokens_per_second(session, revision.id, queue)
    reason = None
    if shared is None:
        reason = "no model has been asked these questions in this way yet"
    elif rate is None:
        reason = f"the model has not been scored on the queue {queue} yet"
    if "answer" in protocol:
        rate, reason = None, "the length of the generated texts is unknown; tokens are those of the prompts"
    return row | {
        "tokens_naive": None if naive is None else round(naive * left),
        "tokens_shared": None if shared is None else round(shared * left),
        "seconds": None if rate is None or shared is None else round(shared * left / rate, 1),
        "reason": reason,
    }


def _estimate_charge(
    session: Session,
    asked: Asked,
    revision: ModelRevision | None,
    version: BenchmarkVersion,
    protocol: dict[str, Any],
    variants: VariantSetDefinition,
    prompts: int,
    service: Service,
) -> Charge:
    questions = select_questions(
        session, version, limit=asked.limit, subjects=asked.subjects or (), options=asked.options
    )
    sampled = questions[:: max(1, len(questions) // SAMPLED)][:SAMPLED]
    texts = []
    for question in sampled:
        _, prompt = prompts_of_question(session, protocol, variants, question)[0]
        texts.append(prompt.text)
    protocol_row = session.scalar(select(Protocol).filter_by(digest=specification_digest(protocol)))
    known = (
        measure_tokens(session, revision.id, protocol_row.id, version.id)
        if revision is not None and protocol_row is not None
        else None
    )
    return charge(service, protocol, known, texts, prompts, get_settings())


def _count_prompts(
    session: Session, version: BenchmarkVersion, asked: Asked, variants: VariantSetDefinition
) -> tuple[int, int]:
    """Return the numbers of questions and prompts. A question's options and answer determine its number of variants."""
    query = (
        select(Question.n_options, Question.answer)
        .where(Question.benchmark_version_id == version.id, ~Question.few_shot)
        .order_by(Question.ordinal)
    )
    if asked.subjects:
        query = query.where(Question.subject.in_(asked.subjects))
    if asked.options is not None:
        query = query.where(Question.n_options == asked.options)
    chosen = (query.limit(asked.limit) if asked.limit is not None else query).subquery()
    shapes = session.execute(
        select(chosen.c.n_options, chosen.c.answer, func.count()).group_by(chosen.c.n_options, chosen.c.answer)
    ).all()
    return (
        sum(count for _, _, count in shapes),
        sum(
            count * len(variants.variants(QuestionShape("", n_options, answer))) for n_options, answer, count in shapes
        ),
    )


def _find_evaluation(
    session: Session,
    asked: Asked,
    revision: ModelRevision,
    version: BenchmarkVersion,
    protocol: dict[str, Any],
    variants: VariantSetDefinition,
) -> Evaluation | None:
    """Return the finished or running evaluation that submitting the suite would reuse; None if there is none."""
    asked_questions = question_filter(limit=asked.limit, subjects=asked.subjects, options=asked.options)
    protocol_row = session.scalar(select(Protocol).filter_by(digest=specification_digest(protocol)))
    set_row = session.scalar(select(VariantSet).filter_by(digest=specification_digest(variants.specification())))
    if protocol_row is None or set_row is None:
        return None
    entry = Entry(asked.task, version, protocol_row, set_row, asked_questions, 0)
    sealed = evaluations_of_entry(session, entry, revision).get(revision.id)
    if sealed is not None:
        return sealed
    engine = {"name": "endpoint" if revision.kind == "openai" else "transformers"}
    specification = build_specification(revision, version, protocol, variants, engine, asked_questions)
    return session.scalar(
        select(Evaluation)
        .filter_by(specification_digest=specification_digest(specification))
        .order_by(Evaluation.replicate.desc())
        .limit(1)
    )


def _count_prompts_left(session: Session, evaluation: Evaluation) -> int:
    undone = select(func.sum(Shard.prompts)).where(Shard.evaluation_id == evaluation.id, Shard.state != "done")
    return session.scalar(undone) or 0


def _tokens_of_others(
    session: Session, version: BenchmarkVersion, protocol: dict[str, Any], variants: VariantSetDefinition
) -> tuple[float | None, float | None]:
    """Return the tokens per prompt of other models: without sharing, and with common beginnings counted once."""
    prompts, naive, computed = session.execute(
        select(func.sum(Shard.prompts), func.sum(Shard.tokens_naive), func.sum(Shard.tokens_computed))
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .join(Protocol, Protocol.id == Evaluation.protocol_id)
        .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
        .where(
            Evaluation.benchmark_version_id == version.id,
            Protocol.digest == specification_digest(protocol),
            VariantSet.digest == specification_digest(variants.specification()),
            Shard.state == "done",
            Shard.tokens_computed > 0,
        )
    ).one()
    if not prompts or naive is None or computed is None:
        return None, None
    return float(naive) / float(prompts), float(computed) / float(prompts)
