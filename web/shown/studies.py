"""What studies of an evaluation say, as its page and the API state it; kept, since of a large one it takes seconds."""

from collections.abc import Callable

from sqlalchemy.orm import Session

from registry.errors import MetricInputError, UsageError
from registry.lookups import replicates_of
from registry.prompting.variants import only_orders
from registry.schema.selectables import Row
from registry.studies.axes import axes_document
from registry.studies.noise import noise_document, noise_source
from registry.studies.wordings import wordings_document
from web.serving.cache import OfSealed
from web.serving.responses import session

_axes: OfSealed[Row | None] = OfSealed()
_clustered: OfSealed[Row | None] = OfSealed()
_noise: OfSealed[Row] = OfSealed()
_wordings: OfSealed[Row | None] = OfSealed()


def axes_of(row: Row) -> Row | None:
    """`axes_document` of a row of `evaluation` under other words or labels; None unless all cells were asked."""
    return _kept(_axes, row, axes_document)


def wordings_of(row: Row) -> Row | None:
    """`wordings_document` of a row of `evaluation`; None where neither words nor labels were varied."""
    return _kept(_wordings, row, wordings_document)


def clustered(evaluation_id: int, seal: str | None) -> Row | None:
    """What `registry.scores.clusters.clustered_intervals` says; None before the evaluation is sealed."""
    # Here rather than above: the website starts without numpy, and most of its pages never need it.
    from registry.scores.clusters import clustered_intervals

    if seal is None:
        return None
    return _clustered.get(f"{evaluation_id} {seal}", lambda: clustered_intervals(session(), evaluation_id))


def repeat_noise(evaluation_id: int, noise_from: int | None) -> Row | None:
    """What `registry.studies.noise.repeat_noise` says."""
    source = noise_source(session(), evaluation_id, noise_from)
    return None if source is None else _noise.get(source.key, lambda: noise_document(session(), source))


def _kept(cache: OfSealed[Row | None], row: Row, document: Callable[[Session, int], Row]) -> Row | None:
    """Sealed evaluations do not change, but replicates are added and withdrawn."""
    if not row["complete"] or only_orders(row["variant_kind"]):
        return None
    replicates = replicates_of(session(), row["evaluation_id"])
    key = f"{row['seal']} {' '.join(map(str, replicates))}"
    return cache.get(key, lambda: _defined(lambda: document(session(), row["evaluation_id"])))


def _defined(compute: Callable[[], Row]) -> Row | None:
    """None where there is nothing to compare, such as one level of every axis, or a sample of the cells."""
    try:
        return compute()
    except (UsageError, MetricInputError):
        return None
