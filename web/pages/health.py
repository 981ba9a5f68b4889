"""Whether the website answers, for whoever watches over it."""

from flask.typing import ResponseReturnValue

from registry.schema.history import require_current
from web.identity import engine
from web.pages.blueprint import blueprint


@blueprint.get("/healthz")
def healthz() -> ResponseReturnValue:
    """The process answers."""
    return {"status": "alive"}


@blueprint.get("/readyz")
def readyz() -> ResponseReturnValue:
    """The database answers and its schema is this code's; 503 otherwise."""
    # Read-only, or on SQLite the probe would wait for writers.
    require_current(engine().execution_options(read_only=True))
    return {"status": "ready"}
