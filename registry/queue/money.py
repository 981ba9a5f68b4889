"""Estimate the cost of a provider's answers before any request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.providers.prices import load_prices
from registry.revisions.endpoints import Endpoint, find_endpoint, load_endpoints
from registry.settings import Settings
from registry.tables import Evaluation
from registry.tables.providers import ProviderCall


@dataclass(frozen=True)
class Charge:
    """The estimated cost of some prompts at a provider.

    tokens: tokens of prompts and answers; None if no answer was measured yet. cost: expected cost; None if no answer
    was measured. most: cost if every answer uses all the tokens it may. cost and most are None if the model is not on
    the price list. reason: why a number is unknown.
    """

    tokens: int | None
    cost: float | None
    most: float | None
    currency: str
    reason: str | None


@dataclass(frozen=True)
class Service:
    """A model that a provider serves, with the provider's name for it."""

    endpoint: Endpoint
    name: str


def service_of(kind: str, location: str | None, name: str | None, settings: Settings) -> Service | None:
    """Return the provider's service of a model revision; None if no provider serves it.

    kind, location and name describe the revision, which may be registered or only requested.
    """
    endpoints = load_endpoints(settings.endpoints)
    if kind != "openai" or not any(endpoint.covers(location or "") for endpoint in endpoints.values()):
        return None
    endpoint = find_endpoint(endpoints, location or "")
    return None if endpoint.provider is None else Service(endpoint, name or "")


@dataclass(frozen=True)
class Measured:
    """Mean tokens of an answer: in the prompt, in its cached part, and written."""

    prompt: float
    cached: float
    written: float


def measure_tokens(session: Session, revision_id: int, protocol_id: int, benchmark_version_id: int) -> Measured | None:
    """Return the mean tokens of a model's earlier answers to a benchmark under a protocol; None if there are none."""
    prompt, cached, written = session.execute(
        select(
            func.avg(ProviderCall.prompt_tokens),
            func.avg(ProviderCall.cached_tokens),
            func.avg(ProviderCall.written_tokens),
        )
        .join(Evaluation, Evaluation.id == ProviderCall.evaluation_id)
        .where(
            Evaluation.model_revision_id == revision_id,
            Evaluation.protocol_id == protocol_id,
            Evaluation.benchmark_version_id == benchmark_version_id,
            ProviderCall.state == "answered",
        )
    ).one()
    if prompt is None or written is None:
        return None
    return Measured(float(prompt), float(cached or 0), float(written))


def charge(
    service: Service,
    definition: Mapping[str, Any],
    measured: Measured | None,
    texts: Sequence[str],
    prompts: int,
    settings: Settings,
) -> Charge:
    """Estimate the cost of prompts under a protocol.

    definition: of a protocol that generates. measured: mean tokens of earlier answers; None if there are none. texts: a
    sample of the prompts. prompts: number of all prompts.
    """
    listed = load_prices(settings.prices)
    provider = service.endpoint.provider or ""
    price = listed.find(provider, service.name)
    if price is not None and service.endpoint.batch:
        price = price.in_batch()
    tokens = None if measured is None else round(prompts * (measured.prompt + measured.written))
    if price is None:
        reason = f"{service.name} of {provider} is not on the price list; add it to the file of SHUFFLEBOARD_PRICES"
        return Charge(tokens, None, None, listed.currency, reason)
    limit = definition["generation"]["max_tokens"] + (service.endpoint.thinking_tokens(service.name) or 0)
    most = sum(price.at_most(text, limit) for text in texts) * prompts / max(1, len(texts))
    if measured is None:
        reason = "no answer of the model under this protocol was measured yet; the cost is the most it can be"
        return Charge(None, None, most, listed.currency, reason)
    uncached = price.of(1, 0, 0) * (measured.prompt - measured.cached)
    each = uncached + price.of(1, 1, 0) * measured.cached + price.of(0, 0, 1) * measured.written
    return Charge(tokens, prompts * each, most, listed.currency, None)
