"""The reference of the API for readers: Swagger UI over the OpenAPI document."""

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

blueprint = Blueprint("reference", __name__)


@blueprint.get("/api")
def reference() -> ResponseReturnValue:
    """Show every operation of the API, its parameters and answers, with requests to try."""
    return render_template("api.html")
