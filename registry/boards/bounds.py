"""Values that a new model is to be told from: another model's, or those that divide the tiers of a board."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.definition import canonical_variants
from registry.boards.reading import snapshot_as_of
from registry.designs.requests import Until
from registry.errors import NotFoundError, UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_revision, find_version, not_withdrawn
from registry.prompting.variants import parse_variants
from registry.tables import Evaluation, VariantSet


def ends_at(
    session: Session,
    *,
    better: str | None,
    tier_of: str | None,
    benchmark: str,
    variants: str,
    metric: str,
) -> Until | None:
    """What ends a sample before its precision is reached; None where nothing does.

    better: a model that it is to be told from. tier_of: a board. Raises UsageError for both, and what the two raise.
    """
    if better is not None and tier_of is not None:
        raise UsageError("to be better than a model and to have a known tier are different things; ask for one of them")
    if better is not None:
        return better_than(session, better, benchmark, variants, metric)
    return None if tier_of is None else tier_known(session, tier_of, benchmark, variants, metric)


def better_than(session: Session, model: str, benchmark: str, variants: str, metric: str) -> Until:
    """The value of a model that was asked all questions of the benchmark under these variants.

    Raises NotFoundError where there is no such evaluation, or it has no value.
    """
    revision, version = find_revision(session, model), find_version(session, benchmark)
    name = parse_variants(variants).name
    query = (
        select(Evaluation)
        .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
        .where(
            Evaluation.model_revision_id == revision.id,
            Evaluation.benchmark_version_id == version.id,
            Evaluation.questions >= version.questions,
            VariantSet.name == name,
            Evaluation.seal.is_not(None),
            Evaluation.sampled_for.is_(None),
            not_withdrawn(),
        )
        .order_by(Evaluation.id.desc())
    )
    found = session.scalars(query.limit(1)).first()
    value = None if found is None else evaluation_metrics(session, found.id)["metrics"][metric]
    if found is None or value is None:
        raise NotFoundError(
            f"model {model} has no {metric} over all questions of {benchmark} under {name}; evaluate it in full first"
        )
    who = f"{revision.model.name}@{revision.number}"
    return Until(f"it is known whether it is better than {who}", (value,), found.seal)


def tier_known(session: Session, board: str, benchmark: str, variants: str, metric: str) -> Until:
    """The values at which the tiers of a board's column begin, of its newest snapshot.

    Raises UsageError for a board of several tasks, or without that column or two tiers.
    """
    snapshot = snapshot_as_of(session, board)
    document = snapshot.document
    name = parse_variants(variants).name
    columns = [
        column["name"]
        for column in document["columns"]
        if column["metric"] == metric and canonical_variants(column["variants"]) == name
    ]
    version = find_version(session, benchmark)
    named = {(entry["benchmark"], entry["content_digest"]) for entry in document["entries"]}
    if named != {(version.benchmark.name, version.content_digest)} or not columns:
        raise UsageError(
            f"board {board}: a tier can be waited for in a column {metric}@{name} that is over {benchmark} alone; "
            "leave out --until-tier"
        )
    better = next(column["better"] for column in document["columns"] if column["name"] == columns[0])
    tiers: dict[int, list[float]] = {}
    for row in document["rows"]:
        value = row["values"][columns[0]]
        if value["tier"] is not None:
            tiers.setdefault(value["tier"], []).append(float(value["value"]))
    begins = [min(values) if better == "lower" else max(values) for tier, values in sorted(tiers.items()) if tier > 1]
    if not begins:
        raise UsageError(f"board {board}: {columns[0]} has one tier or none, so there is nothing to distinguish")
    return Until(f"its tier on the board {document['board']} is known", tuple(begins), snapshot.digest)
