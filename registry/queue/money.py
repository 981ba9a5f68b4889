"""What asking a provider would cost, before anything is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.providers.prices import load_prices
from registry.revisions.endpoints import find_endpoint, load_endpoints
from registry.settings import Settings
from registry.tables import Evaluation
from registry.tables.providers import ProviderCall


@dataclass(frozen=True)
class Charge:
    """What some prompts would cost. tokens: of prompts and answers; None where no answer was measured yet.

    cost: as answers that were measured came out, None without any; most: if every answer takes all the tokens it may.
    Both are None where the price list does not have the model.
    """

    tokens: int | None
    cost: float | None
    most: float | None
    currency: str
    reason: str | None


def charge(
    session: Session, evaluation: Evaluation, texts: Sequence[str], prompts: int, settings: Settings
) -> Charge | None:
    """What an evaluation's prompts would cost; None where no provider serves the model.

    texts: of a sample of the prompts. prompts: how many there are in all.
    """
    revision = evaluation.model_revision
    endpoints = load_endpoints(settings.endpoints)
    location, model = revision.location or "", revision.requested_revision or ""
    if revision.kind != "openai" or not any(endpoint.covers(location) for endpoint in endpoints.values()):
        return None
    endpoint = find_endpoint(endpoints, location)
    if endpoint.provider is None:
        return None
    listed = load_prices(settings.prices)
    price = listed.find(endpoint.provider, model)
    if price is not None and endpoint.batch:
        price = price.in_batch()
    prompt, cached, written = session.execute(
        select(
            func.avg(ProviderCall.prompt_tokens),
            func.avg(ProviderCall.cached_tokens),
            func.avg(ProviderCall.written_tokens),
        )
        .join(Evaluation, Evaluation.id == ProviderCall.evaluation_id)
        .where(
            Evaluation.model_revision_id == revision.id,
            Evaluation.protocol_id == evaluation.protocol_id,
            Evaluation.benchmark_version_id == evaluation.benchmark_version_id,
            ProviderCall.state == "answered",
        )
    ).one()
    measured = prompt is not None and written is not None
    tokens = round(prompts * float(prompt + written)) if measured else None
    if price is None:
        reason = f"{model} of {endpoint.provider} is not on the price list; add it to the file of SHUFFLEBOARD_PRICES"
        return Charge(tokens, None, None, listed.currency, reason)
    limit = evaluation.protocol.definition["generation"]["max_tokens"] + (endpoint.thinking_tokens(model) or 0)
    most = sum(price.at_most(text, limit) for text in texts) * prompts / max(1, len(texts))
    if not measured:
        reason = "no answer of the model under this protocol was measured yet; the cost is the most it can be"
        return Charge(None, None, most, listed.currency, reason)
    each = price.of(1, 0, 0) * float(prompt - (cached or 0)) + price.of(1, 1, 0) * float(cached or 0)
    return Charge(tokens, prompts * (each + price.of(0, 0, 1) * float(written)), most, listed.currency, None)
