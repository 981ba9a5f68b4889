"""Intervals of an evaluation whose questions belong together, as its page and the API state them."""

from registry.schema.selectables import Row
from web.serving.cache import OfSealed
from web.serving.responses import session

_found: OfSealed[Row | None] = OfSealed()


def clustered(evaluation_id: int, seal: str | None) -> Row | None:
    """What `registry.scores.clusters.clustered_intervals` says; None before the evaluation is sealed."""
    # Here rather than above: the website starts without numpy, and most of its pages never need it.
    from registry.scores.clusters import clustered_intervals

    if seal is None:
        return None
    return _found.get(f"{evaluation_id} {seal}", lambda: clustered_intervals(session(), evaluation_id))
