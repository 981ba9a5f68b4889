"""Studies of an evaluation for its page and the API; cached, since a large one takes seconds."""

from registry.schema.selectables import Row
from registry.studies.noise import noise_document, noise_source
from web.serving.cache import OfSealed
from web.serving.responses import session

_clustered: OfSealed[Row | None] = OfSealed()
_noise: OfSealed[Row] = OfSealed()


def cluster_intervals(evaluation_id: int, seal: str | None) -> Row | None:
    """Return the intervals over clusters of an evaluation; None if the evaluation is not sealed."""
    # Imported here, since the website starts without numpy, and most of its pages never need it.
    from registry.scores.clusters import compute_clustered_intervals

    if seal is None:
        return None
    return _clustered.get(f"{evaluation_id} {seal}", lambda: compute_clustered_intervals(session(), evaluation_id))


def repeat_noise(evaluation_id: int, noise_from: int | None) -> Row | None:
    """Return the result of `registry.studies.noise.repeat_noise`; None if there is no source of noise."""
    source = noise_source(session(), evaluation_id, noise_from)
    return None if source is None else _noise.get(source.key, lambda: noise_document(session(), source))
