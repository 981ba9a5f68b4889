"""The leaderboard on the web: pages and JSON over the registry's SQL views, accounts and submissions."""

import hashlib
from pathlib import Path
from typing import Any

from flask import Flask, url_for

from registry import __version__
from registry.db import get_engine
from registry.settings import Settings, get_settings
from web import api, formats, identity, links, prometheus, responses
from web.pages import (
    administration,
    assessment,
    boards,
    comparing,
    feed,
    leaderboard,
    overview,
    proof,
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
        formats.GLOBALS, static=_static_urls(app), here=links.here, there=links.there, version=__version__
    )
    responses.install(app)
    identity.install(app, settings)
    app.register_blueprint(leaderboard.blueprint)
    app.register_blueprint(api.blueprint)
    app.register_blueprint(prometheus.blueprint)
    app.register_blueprint(boards.blueprint)
    app.register_blueprint(comparing.blueprint)
    app.register_blueprint(overview.blueprint)
    app.register_blueprint(assessment.blueprint)
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
