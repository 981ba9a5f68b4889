"""The leaderboard on the web: pages and JSON over the registry's SQL views, accounts and submissions."""

import hashlib
from pathlib import Path
from typing import Any

from flask import Flask, request, url_for

from registry import __version__
from registry.db import get_engine
from registry.settings import Settings, get_settings
from web import (
    administration,
    api,
    assessing,
    boards,
    comparing,
    feed,
    formats,
    identity,
    metrics,
    overview,
    pages,
    parameters,
    proof,
    responses,
    signing,
    sql,
    submitting,
)


def create_app(settings: Settings | None = None, *, database_url: str | None = None) -> Flask:
    """The WSGI application, over `database_url` or the database of the settings. Connects at the first request."""
    app = Flask(__name__, static_folder="static", template_folder="templates")
    settings = settings or get_settings()
    if database_url is not None:
        settings = settings.model_copy(update={"database_url": database_url})
    app.extensions["shuffleboard_engine"] = get_engine(settings.resolved_database_url())
    app.url_map.strict_slashes = False
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(formats.FILTERS)
    app.jinja_env.globals.update(
        formats.GLOBALS, static=_static_urls(app), here=_here, there=_there, version=__version__
    )
    responses.install(app)
    identity.install(app, settings)
    app.register_blueprint(pages.blueprint)
    app.register_blueprint(api.blueprint)
    app.register_blueprint(metrics.blueprint)
    app.register_blueprint(boards.blueprint)
    app.register_blueprint(comparing.blueprint)
    app.register_blueprint(overview.blueprint)
    app.register_blueprint(assessing.blueprint)
    app.register_blueprint(signing.blueprint)
    app.register_blueprint(administration.blueprint)
    app.register_blueprint(submitting.blueprint)
    app.register_blueprint(feed.blueprint)
    app.register_blueprint(sql.blueprint)
    app.register_blueprint(proof.blueprint)
    return app


def _static_urls(app: Flask) -> Any:
    """File name → address with the content's digest, so that browsers may keep a file for good."""
    folder = Path(str(app.static_folder))
    digests = {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        for file in folder.rglob("*")
        if file.is_file()
    }
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = 365 * 24 * 3600
    return lambda name: url_for("static", filename=name, v=digests[name])


def _there(endpoint: str, **changes: Any) -> str:
    """The URL of another form of the same part of the leaderboard, with some parameters changed."""
    kept = {
        key: value for key, value in request.args.items() if key in pages.SELECTION or key in ("sort", "order", "group")
    }
    if any(request.args.getlist("metrics")):
        kept["metrics"] = ",".join(parameters.metrics(request.args))
    given = {key: value for key, value in (kept | changes).items() if value not in (None, "")}
    return url_for(endpoint, **given)


def _here(**changes: Any) -> str:
    """This page's URL with some parameters changed; None removes one, and paging restarts."""
    kept = {key: value for key, value in request.args.items(multi=False) if key not in ("page", *changes)}
    listed = request.args.getlist("metrics")
    if len(listed) > 1 and "metrics" not in changes:
        kept["metrics"] = ",".join(listed)
    given = {key: value for key, value in changes.items() if value is not None}
    # Names in the query string must not be mistaken for parts of the path or for url_for's own arguments.
    query = {key: value for key, value in (kept | given).items() if key in pages.PARAMETERS or key in boards.ARGUMENTS}
    assert request.endpoint is not None
    return url_for(request.endpoint, **{**(request.view_args or {}), **query})
