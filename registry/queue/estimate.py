"""Estimate the cost of an evaluation before anything is queued: prompts, tokens, seconds.

The evaluation is planned as a submission would plan it, in a transaction that is rolled back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.errors import ShuffleboardError
from registry.prompting.prompts import Prompt
from registry.queue.claims import live_workers
from registry.queue.money import Charge, charge, measure_tokens, service_of
from registry.queue.shards import shard_prompts
from registry.settings import get_settings
from registry.tables import Evaluation, ModelRevision, Shard

SAMPLE_PROMPTS: Final = 200
"""About how many prompts of one evaluation are tokenised; the tokens of the others are extrapolated."""

ESTIMATED: Final = ("prompts", "prompts_left", "tokens_naive", "tokens_shared", "seconds", "cost", "cost_limit")
"""Fields that are summed over several estimates."""

Tokenise = Callable[[str], list[int]]
Plan = Callable[[Session], list[tuple[Evaluation, bool]]]
"""A function that submits evaluations in a session and returns each with whether it is new."""


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of one evaluation.

    evaluation: its id if it already exists. prompts_left: prompts that are not scored yet. prompts_sampled: prompts
    that were tokenised. tokens_naive: tokens of the prompts left. tokens_shared: the same, if beginnings that a shard's
    prompts share are counted once. seconds: time of one worker; None if unknown. reason: why a number is unknown. cost,
    cost_limit: expected and highest cost at a provider; 0 for a model that no provider serves.
    """

    evaluation: int | None
    model: str
    revision: int
    benchmark: str
    variants: str
    protocol: str
    shots: int
    questions: int
    prompts: int
    prompts_left: int
    prompts_sampled: int
    tokens_naive: int | None
    tokens_shared: int | None
    seconds: float | None
    reason: str | None
    cost: float | None = 0.0
    cost_limit: float | None = 0.0


@dataclass(frozen=True)
class _Planned:
    facts: dict[str, Any]
    revision: ModelRevision
    texts: list[list[str]]
    sampled: int
    writes: bool
    charge: Charge | None


def _texts_read(definition: Mapping[str, Any], prompt: Prompt) -> list[str]:
    """Return the texts that the model reads: the prompt, or the prompt with each continuation scored as a whole."""
    if definition.get("score") != "sum":
        return [prompt.text]
    return [prompt.text + continuation for continuation in prompt.continuations]


def estimates(engine: Engine, plan: Plan, queue: str, tokeniser: Callable[[ModelRevision], Tokenise]) -> dict[str, Any]:
    """Estimate every evaluation of a plan, with their sums and the number of live workers. Nothing is stored.

    tokeniser: loads the tokeniser of a model revision. If it raises a ShuffleboardError because the model's files are
    missing, tokens and seconds are unknown. Raises the errors of a submission.
    """
    planned = _plan(engine, plan)
    tokenisers: dict[int, Tokenise | str] = {}
    results = []
    with read_session(engine) as session:
        for item in planned:
            if item.charge is None and item.revision.id not in tokenisers:
                tokenisers[item.revision.id] = _tokeniser(tokeniser, item)
            rate = tokens_per_second(session, item.revision.id, queue)
            results.append(_estimate(item, tokenisers.get(item.revision.id, ""), rate, queue))
        workers = live_workers(session)
    sums = {name: sum_known(getattr(item, name) for item in results) for name in ESTIMATED}
    currency = next((item.charge.currency for item in planned if item.charge is not None), None)
    return {"estimates": [asdict(item) for item in results], **sums, "currency": currency, "workers": workers}


def _plan(engine: Engine, plan: Plan) -> list[_Planned]:
    planned = []
    with Session(engine, expire_on_commit=False) as session:
        try:
            for evaluation, new in plan(session):
                undone = session.scalars(
                    select(Shard)
                    .where(Shard.evaluation_id == evaluation.id, Shard.state != "done")
                    .order_by(Shard.ordinal)
                ).all()
                facts: dict[str, Any] = {
                    "evaluation": None if new else evaluation.id,
                    "model": evaluation.model_revision.model.name,
                    "revision": evaluation.model_revision.number,
                    "benchmark": evaluation.benchmark_version.benchmark.name,
                    "variants": evaluation.variant_set.name,
                    "protocol": evaluation.protocol.name,
                    "shots": evaluation.protocol.shots,
                    "questions": evaluation.questions,
                    "prompts": evaluation.prompts,
                    "prompts_left": sum(shard.prompts for shard in undone),
                }
                definition = evaluation.protocol.definition
                shards = [
                    [item.prompt for item in shard_prompts(session, shard.id)][:SAMPLE_PROMPTS]
                    for shard in sample_shards(undone)
                ]
                texts = [[text for prompt in prompts for text in _texts_read(definition, prompt)] for prompts in shards]
                sampled = sum(map(len, shards))
                all_texts = [text for listed in texts for text in listed]
                left = sum(shard.prompts for shard in undone)
                money = _charge(session, evaluation, all_texts, left)
                writes = "answer" in definition
                planned.append(_Planned(facts, evaluation.model_revision, texts, sampled, writes, money))
            for loaded in {row for item in planned for row in (item.revision, item.revision.model)}:
                session.expunge(loaded)  # its values are used after the transaction
        finally:
            session.rollback()
    return planned


def _charge(session: Session, evaluation: Evaluation, texts: Sequence[str], prompts: int) -> Charge | None:
    revision, settings = evaluation.model_revision, get_settings()
    service = service_of(revision.kind, revision.location, revision.requested_revision, settings)
    if service is None:
        return None
    measured = measure_tokens(session, revision.id, evaluation.protocol_id, evaluation.benchmark_version_id)
    return charge(service, evaluation.protocol.definition, measured, texts, prompts, settings)


def sample_shards(shards: Sequence[Shard]) -> list[Shard]:
    """Return evenly spread shards with about SAMPLE_PROMPTS prompts in total; at least one if there are any."""
    total = sum(shard.prompts for shard in shards)
    if total <= SAMPLE_PROMPTS:
        return list(shards)
    size = max(1, SAMPLE_PROMPTS * len(shards) // total)
    return [shards[place * len(shards) // size] for place in range(size)]


def _tokeniser(tokeniser: Callable[[ModelRevision], Tokenise], item: _Planned) -> Tokenise | str:
    try:
        return tokeniser(item.revision)
    except ShuffleboardError as error:
        return str(error)


def _estimate(item: _Planned, tokenise: Tokenise | str, rate: float | None, queue: str) -> Estimate:
    left = item.facts["prompts_left"]
    if not left:
        return Estimate(**item.facts, prompts_sampled=0, tokens_naive=0, tokens_shared=0, seconds=0.0, reason=None)
    if item.charge is not None:
        return Estimate(
            **item.facts,
            prompts_sampled=item.sampled,
            tokens_naive=item.charge.tokens,
            tokens_shared=item.charge.tokens,
            seconds=None,
            reason=item.charge.reason,
            cost=item.charge.cost,
            cost_limit=item.charge.most,
        )
    if isinstance(tokenise, str):
        return Estimate(
            **item.facts, prompts_sampled=0, tokens_naive=None, tokens_shared=None, seconds=None, reason=tokenise
        )
    naive = shared = 0
    for texts in item.texts:
        sequences = [tokenise(text) for text in texts]
        naive += sum(map(len, sequences))
        shared += shared_tokens(sequences)
    tokens_shared = round(shared * left / item.sampled)
    model = f"{item.facts['model']} revision {item.facts['revision']}"
    reason = f"no shard of {model} has been scored on the queue {queue} yet" if rate is None else None
    if item.writes:
        rate, reason = None, "the length of the generated texts is unknown; tokens are those of the prompts"
    return Estimate(
        **item.facts,
        prompts_sampled=item.sampled,
        tokens_naive=round(naive * left / item.sampled),
        tokens_shared=tokens_shared,
        seconds=None if rate is None else round(tokens_shared / rate, 3),
        reason=reason,
    )


def shared_tokens(sequences: Iterable[list[int]]) -> int:
    """Count the tokens to compute if common beginnings are computed once: the nodes of the sequences' trie."""
    nodes = 0
    before: list[int] = []
    for sequence in sorted(sequences):
        common = 0
        for token, next_token in zip(before, sequence, strict=False):
            if token != next_token:
                break
            common += 1
        nodes += len(sequence) - common
        before = sequence
    return nodes


def tokens_per_second(session: Session, model_revision_id: int, queue: str) -> float | None:
    """Return the tokens per second over all finished shards of a model in a queue; None without such shards."""
    tokens, seconds = session.execute(
        select(func.sum(Shard.tokens_computed), func.sum(Shard.elapsed_s))
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(
            Evaluation.model_revision_id == model_revision_id,
            Shard.queue == queue,
            Shard.state == "done",
            Shard.elapsed_s > 0,
            Shard.tokens_computed > 0,
        )
    ).one()
    return float(tokens) / float(seconds) if tokens and seconds else None


def sum_known(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is unknown."""
    listed = list(values)
    numbers = [value for value in listed if value is not None]
    return sum(numbers) if len(numbers) == len(listed) else None
