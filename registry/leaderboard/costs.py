"""Costs of evaluations whose answers came from a provider."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.providers.prices import load_prices
from registry.schema.selectables import Row, evaluation_costs, rows_of
from registry.settings import Settings
from registry.tables.providers import ProviderCall


def cost_document(session: Session, evaluation_id: int, settings: Settings) -> dict[str, Any] | None:
    """Return an evaluation's costs for JSON, with the model names that its provider reported; None without costs."""
    rows = rows_of(session, select(evaluation_costs).where(evaluation_costs.c.evaluation_id == evaluation_id))
    if not rows:
        return None
    cost = {name: value for name, value in rows[0].items() if name != "evaluation_id"}
    declined = cost["cut_off"] + cost["refused"] + cost["filtered"]
    return cost | {
        "complete": cost["answered"] - declined,
        "models": list_served_models(session, evaluation_id),
        "currency": load_prices(settings.prices).currency,
    }


def costs_of(session: Session, evaluation_ids: Iterable[int]) -> dict[int, float]:
    """Return the cost of each evaluation's answers; evaluations without a known cost are left out."""
    c = evaluation_costs.c
    query = select(c.evaluation_id, c.cost).where(is_in(c.evaluation_id, list(evaluation_ids)), c.cost.is_not(None))
    return {row["evaluation_id"]: row["cost"] for row in rows_of(session, query)}


def list_served_models(session: Session, evaluation_id: int) -> list[Row]:
    """Return the model names and system fingerprints that a provider reported, the earliest first.

    Several entries mean that the provider changed the model during the evaluation.
    """
    first = func.min(ProviderCall.ended_at).label("first")
    query = (
        select(
            ProviderCall.served_model,
            ProviderCall.system_fingerprint,
            func.count().label("prompts"),
            first,
            func.max(ProviderCall.ended_at).label("last"),
        )
        .where(ProviderCall.evaluation_id == evaluation_id, ProviderCall.state == "answered")
        .group_by(ProviderCall.served_model, ProviderCall.system_fingerprint)
        .order_by(first)
    )
    return rows_of(session, query)
