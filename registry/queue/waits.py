"""Waits that no worker can shorten: for a provider's batch, a rate limit, a budget."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.errors import UsageError
from registry.proposals import propose
from registry.providers.budgets import full_budget
from registry.providers.limits import waits_until
from registry.revisions.endpoints import load_endpoints
from registry.settings import Settings
from registry.tables import Evaluation, ModelRevision, Shard
from registry.tables.providers import ProviderBatch, ProviderCall, RateLimit

SHORTEST_SECONDS: Final = 2.0
"""Shorter waits for a rate limit are normal spreading of requests, and are not reported."""

Kind = Literal["batch", "rate-limit", "budget"]
WHAT: Final[dict[Kind, str]] = {
    "batch": "waits for a batch",
    "rate-limit": "waits for a rate limit",
    "budget": "waits for a larger budget",
}
_WHOSE: Final = {"evaluation": "its budget", "submission": "its submission's budget", "account": "its account's budget"}


@dataclass(frozen=True)
class Wait:
    """One reason why an evaluation waits.

    ends: the event that ends the wait, in words. since: None if unknown. until: time of that event; None if it is
    unknown or a user must act.
    """

    kind: Kind
    reason: str
    ends: str
    since: datetime | None
    until: datetime | None

    @property
    def what(self) -> str:
        """Return a short description of the wait, as in a progress display."""
        return WHAT[self.kind]

    def document(self) -> dict[str, Any]:
        """Return the wait as JSON values."""
        return {"what": self.what, **asdict(self)}


def waits_of(session: Session, states: dict[int, str], settings: Settings) -> dict[int, list[Wait]]:
    """Return the waits of evaluations by id; evaluations that do not wait are absent.

    states: state by evaluation id. Reasons name no account and no amount, since everybody who sees the evaluation reads
    them.
    """
    waits: dict[int, list[Wait]] = {}
    paused = {evaluation_id for evaluation_id, state in states.items() if state == "paused"}
    active = {evaluation_id for evaluation_id, state in states.items() if state in ("queued", "running")}
    for evaluation_id, wait in (
        *_batches(session, active | paused, paused),
        *(_limits(session, active, settings) if settings.endpoints else ()),
        *_budgets(session, paused),
    ):
        waits.setdefault(evaluation_id, []).append(wait)
    return waits


def _batches(session: Session, ids: Collection[int], paused: Collection[int]) -> list[tuple[int, Wait]]:
    if not ids:
        return []
    query = (
        select(
            ProviderBatch.evaluation_id,
            func.count(),
            func.sum(ProviderBatch.requests),
            func.min(ProviderBatch.written_at),
            func.min(Shard.not_before),
        )
        .join(Shard, Shard.id == ProviderBatch.shard_id)
        .where(ProviderBatch.evaluation_id.in_(ids), ProviderBatch.state != "ended")
        .group_by(ProviderBatch.evaluation_id)
    )
    now = session.scalars(select(database_now())).one()
    waits = []
    for evaluation_id, batches, prompts, since, until in session.execute(query):
        reason = f"the provider has {_count(batches, 'batch', 'batches')} with {_count(prompts, 'prompt', 'prompts')}"
        ends = "it answers within a day, and a worker asks for the results"
        if evaluation_id in paused:
            ends = f"the results are collected after: {propose('evaluations resume', evaluation_id)}"
        ahead = until if until is not None and until > now and evaluation_id not in paused else None
        waits.append((evaluation_id, Wait("batch", reason, ends, since, ahead)))
    return waits


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _limits(session: Session, ids: Collection[int], settings: Settings) -> list[tuple[int, Wait]]:
    """Return the rate-limit waits of evaluations with a leased shard."""
    try:
        endpoints = load_endpoints(settings.endpoints).values()
    except UsageError:  # the worker reports this error itself
        return []
    query = (
        select(Evaluation.id, ModelRevision.location)
        .join(ModelRevision, ModelRevision.id == Evaluation.model_revision_id)
        .where(Evaluation.id.in_(ids), ModelRevision.kind == "openai")
        .where(select(Shard.id).where(Shard.evaluation_id == Evaluation.id, Shard.state == "leased").exists())
    )
    waits = []
    for evaluation_id, location in session.execute(query).all():
        covering = [endpoint for endpoint in endpoints if endpoint.covers(location or "")]
        if not covering:
            continue
        endpoint = max(covering, key=lambda one: len(one.url_prefix))
        row = session.execute(select(RateLimit, database_now()).where(RateLimit.key == endpoint.limits_key())).first()
        if endpoint.batch or row is None:
            continue
        limit, now = row
        until = waits_until(limit, now)
        if until is None or (until - now).total_seconds() < SHORTEST_SECONDS:
            continue
        paused = limit.not_before is not None and limit.not_before > now
        reason = (
            f"the provider asked everybody with the key of endpoint {endpoint.name} to pause"
            if paused
            else f"requests of all workers with the key of endpoint {endpoint.name} use its rate limit up"
        )
        ends = "the next request is sent"
        last = select(func.max(func.coalesce(ProviderCall.ended_at, ProviderCall.begun_at)))
        since = session.scalar(last.where(ProviderCall.evaluation_id == evaluation_id))
        waits.append((evaluation_id, Wait("rate-limit", reason, ends, since, until)))
    return waits


def _budgets(session: Session, ids: Collection[int]) -> list[tuple[int, Wait]]:
    waits = []
    for evaluation_id in ids:
        full = full_budget(session, evaluation_id)
        if full is None:
            continue
        reason = f"{_WHOSE[full.kind]} has no room for another answer"
        ends = f"raise the budget, then: {propose('evaluations resume', evaluation_id)}"
        last = select(func.max(ProviderCall.ended_at)).where(ProviderCall.evaluation_id == evaluation_id)
        waits.append((evaluation_id, Wait("budget", reason, ends, session.scalar(last), None)))
    return waits
