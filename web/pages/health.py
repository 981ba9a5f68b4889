"""Health checks for monitoring."""

from flask.typing import ResponseReturnValue

from registry.schema.history import require_current
from web.pages.blueprint import blueprint
from web.who.identity import engine


@blueprint.get("/healthz")
def healthz() -> ResponseReturnValue:
    """Report that the process is alive."""
    return {"status": "alive"}


@blueprint.get("/readyz")
def readyz() -> ResponseReturnValue:
    """Check that the database answers and has this code's schema; 503 otherwise."""
    # Read-only, or on SQLite the probe would wait for writers.
    require_current(engine().execution_options(read_only=True))
    return {"status": "ready"}
