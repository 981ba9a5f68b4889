"""Comparisons of two evaluations for the page and the API."""

from registry.predictions.stored import filter_archived
from registry.schema.selectables import Row
from web.serving.cache import OfSealed
from web.serving.responses import session

_compared: OfSealed[Row] = OfSealed(64)


def comparison_of(left: Row, right: Row) -> Row:
    """Return the document of `shuffleboard statistics compare`, cached if both evaluations are sealed."""
    # Imported here, since the website starts without numpy, and most of its pages never need it.
    from registry.studies.comparing import compare_evaluations

    seals = None
    if left["seal"] and right["seal"]:
        # Causes are counted from answers, which an archived evaluation lacks until it is restored.
        archived = filter_archived(session(), [left["evaluation_id"], right["evaluation_id"]])
        seals = f"{left['seal']} {right['seal']} {archived}"
    return _compared.get(seals, lambda: compare_evaluations(session(), left["evaluation_id"], right["evaluation_id"]))
