"""Signs of contamination in a complete evaluation, as its page and the API state them."""

from registry.lookups import find_sealed
from registry.schema.selectables import Row
from web.serving.cache import OfSealed
from web.serving.responses import session

_found: OfSealed[Row] = OfSealed()


def contamination(evaluation_id: int) -> Row:
    """What `registry.scores.contamination` says; of a large evaluation it takes seconds the first time.

    Raises QueueError where the evaluation is not complete.
    """
    # Here rather than above: the website starts without numpy, and most of its pages never need it.
    from registry.scores.contamination import contamination_document

    evaluation = find_sealed(session(), evaluation_id)
    key = f"{evaluation.id} {evaluation.seal}"
    return _found.get(key, lambda: contamination_document(session(), evaluation.id))
