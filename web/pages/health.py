"""Whether the website answers, for whoever watches over it."""

from flask.typing import ResponseReturnValue

from registry.schema.history import require_current
from web.pages.blueprint import blueprint
from web.serving.reading import replica
from web.who.identity import engine


@blueprint.get("/healthz")
def healthz() -> ResponseReturnValue:
    """The process answers."""
    return {"status": "alive"}


@blueprint.get("/readyz")
def readyz() -> ResponseReturnValue:
    """The database answers and its schema is this code's; 503 otherwise. A replica is optional, and said how it is."""
    # Read-only, or on SQLite the probe would wait for writers.
    require_current(engine().execution_options(read_only=True))
    other = replica()
    if other is None:
        return {"status": "ready"}
    found = other.standing()
    used = {"used": not found.trouble, "lag_seconds": found.lag_seconds, "lag_bytes": found.lag_bytes}
    return {"status": "ready", "replica": used}
