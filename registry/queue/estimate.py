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
"""Prompts of one evaluation that are tokenised; the others are taken to be like them."""

ESTIMATED: Final = ("prompts", "prompts_left", "tokens_naive", "tokens_shared", "seconds", "cost", "cost_limit")
"""Fields that are summed over several estimates."""

Tokenise = Callable[[str], list[int]]
Plan = Callable[[Session], list[tuple[Evaluation, bool]]]
"""Submits in the session it is given; returns the evaluations, each with whether it is new."""


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of one evaluation.

    evaluation: the id of an existing one. prompts_left: prompts that are not scored yet. tokens_naive, tokens_shared:
    tokens of these prompts, each prompt counted alone, and with the common beginnings of a shard's prompts counted
    once. prompts_sampled: number of prompts that were tokenised. seconds: time of one worker; None with the `reason`.
    cost, cost_limit: of a provider's model, expected from earlier answers and at most; 0 for any other model.
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


def _read(definition: Mapping[str, Any], prompt: Prompt) -> list[str]:
    """Return the texts that the model reads: the prompt, or the prompt with each continuation scored as a whole."""
    if definition.get("score") != "sum":
        return [prompt.text]
    return [prompt.text + continuation for continuation in prompt.continuations]


def estimates(engine: Engine, plan: Plan, queue: str, tokeniser: Callable[[ModelRevision], Tokenise]) -> dict[str, Any]:
    """Estimate every evaluation of a plan, with their sums and the number of live workers. Nothing is stored.

    tokeniser: returns the tokeniser of a model revision; it raises a ShuffleboardError if the model's files are
    missing, and tokens and seconds are then unknown. Raises the errors of a submission.
    """
    planned = _plan(engine, plan)
    tokenisers: dict[int, Tokenise | str] = {}
    found = []
    with read_session(engine) as session:
        for item in planned:
            if item.charge is None and item.revision.id not in tokenisers:
                tokenisers[item.revision.id] = _tokeniser(tokeniser, item)
            rate = tokens_per_second(session, item.revision.id, queue)
            found.append(_estimate(item, tokenisers.get(item.revision.id, ""), rate, queue))
        workers = live_workers(session)
    sums = {name: sum_known(getattr(item, name) for item in found) for name in ESTIMATED}
    currency = next((item.charge.currency for item in planned if item.charge is not None), None)
    return {"estimates": [asdict(item) for item in found], **sums, "currency": currency, "workers": workers}


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
                texts = [[text for prompt in prompts for text in _read(definition, prompt)] for prompts in shards]
                sampled = sum(map(len, shards))
                alone = [text for listed in texts for text in listed]
                left = sum(shard.prompts for shard in undone)
                money = _charge(session, evaluation, alone, left)
                writes = "answer" in definition
                planned.append(_Planned(facts, evaluation.model_revision, texts, sampled, writes, money))
            for known in {one for item in planned for one in (item.revision, item.revision.model)}:
                session.expunge(known)  # its values are used after the transaction
        finally:
            session.rollback()
    return planned


def _charge(session: Session, evaluation: Evaluation, texts: Sequence[str], prompts: int) -> Charge | None:
    revision, settings = evaluation.model_revision, get_settings()
    service = service_of(revision.kind, revision.location, revision.requested_revision, settings)
    if service is None:
        return None
    known = measure_tokens(session, revision.id, evaluation.protocol_id, evaluation.benchmark_version_id)
    return charge(service, evaluation.protocol.definition, known, texts, prompts, settings)


def sample_shards(shards: Sequence[Shard]) -> list[Shard]:
    """Return whole shards, evenly spread, of about SAMPLE_PROMPTS prompts together; at least one if there is any."""
    total = sum(shard.prompts for shard in shards)
    if total <= SAMPLE_PROMPTS:
        return list(shards)
    wanted = max(1, SAMPLE_PROMPTS * len(shards) // total)
    return [shards[place * len(shards) // wanted] for place in range(wanted)]


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
    """Return the nodes in the trie of token sequences: tokens to compute if common beginnings are computed once."""
    nodes = 0
    before: list[int] = []
    for sequence in sorted(sequences):
        common = 0
        for one, other in zip(before, sequence, strict=False):
            if one != other:
                break
            common += 1
        nodes += len(sequence) - common
        before = sequence
    return nodes


def tokens_per_second(session: Session, model_revision_id: int, queue: str) -> float | None:
    """Return the tokens that a worker computes in a second: over all finished shards of a model on a kind of device."""
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
    known = [value for value in listed if value is not None]
    return sum(known) if len(known) == len(listed) else None
