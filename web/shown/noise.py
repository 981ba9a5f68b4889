"""Repeat noise beside the order effect of an evaluation, as its page and the API state it."""

from registry.schema.selectables import Row
from registry.studies.noise import noise_document, noise_source
from web.serving.cache import OfSealed
from web.serving.responses import session

_documents: OfSealed[Row] = OfSealed()


def repeat_noise(evaluation_id: int, noise_from: int | None) -> Row | None:
    """What `registry.studies.noise.repeat_noise` says; the draws of a large evaluation may take a second."""
    source = noise_source(session(), evaluation_id, noise_from)
    return None if source is None else _documents.get(source.key, lambda: noise_document(session(), source))
