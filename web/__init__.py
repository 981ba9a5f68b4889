"""The leaderboard on the web: pages and JSON over the registry's SQL views, accounts and submissions."""

import hashlib
import io
from pathlib import Path
from typing import Any, Final

from apiflask import APIFlask
from flask import Flask, Response, send_file, url_for
from werkzeug.exceptions import NotFound
from werkzeug.routing import IntegerConverter
from werkzeug.security import safe_join

from registry import __version__
from registry.db import get_engine
from registry.settings import Settings, get_settings
from web import api, formats, frame, problems, reference, share_links
from web.api import uploads
from web.charts.differences import DIFFERENCES
from web.charts.spans import SPANS
from web.pages import (
    administration,
    assessment,
    boards,
    comparing,
    entries,
    evaluations,
    feed,
    guide,
    health,
    leaderboard,
    model,
    overview,
    own,
    pairs,
    proof,
    questions,
    queue,
    replaying,
    sharing,
    sign_on,
    signing,
    sql,
    submitting,
    tradeoffs,
)
from web.serving import memory, page_cache, prometheus, responses
from web.urls import links
from web.who import identity

_PAGES: Final = (
    administration,
    assessment,
    boards,
    comparing,
    evaluations,
    feed,
    guide,
    health,
    leaderboard,
    model,
    overview,
    own,
    pairs,
    proof,
    questions,
    queue,
    replaying,
    entries,
    sharing,
    signing,
    sql,
    submitting,
    tradeoffs,
)


class _Id(IntegerConverter):
    """A converter for numbers in a path that fit 64 bits; for any other value the route does not match (404)."""

    regex = r"[0-9]{1,18}"


class _Website(APIFlask):
    """The application. It reads static files whole: a file sent in pieces would stay open if its client goes away."""

    def send_static_file(self, filename: str) -> Response:
        """Return the file from memory; all our files are small."""
        folder = str(self.static_folder)
        name = safe_join(folder, filename)
        path = None if name is None else Path(name)
        if path is None or not path.is_file():
            raise NotFound
        status, content = path.stat(), path.read_bytes()
        return send_file(
            io.BytesIO(content),
            download_name=path.name,
            etag=f"{status.st_mtime_ns}-{status.st_size}",
            last_modified=status.st_mtime,
            max_age=self.get_send_file_max_age(filename),
        )


def create_app(settings: Settings | None = None, *, database_url: str | None = None, keep_pages: bool = True) -> Flask:
    """Return the WSGI application for `database_url` or, without one, for the database in the settings.

    It connects at the first request. keep_pages: cache rendered pages while nothing is written.
    """
    app = _Website(
        __name__,
        title="Shuffleboard",
        version=__version__,
        spec_path=None,
        docs_path=None,
        json_errors=False,
        static_folder="static",
        template_folder="templates",
    )
    api.openapi.describe(app)
    settings = settings or get_settings()
    if database_url is not None:
        settings = settings.model_copy(update={"database_url": database_url})
    uploads.sweep()
    memory.limit_arenas()
    app.extensions["shuffleboard_engine"] = get_engine(settings.resolve_database_url())
    # A standby refuses transactions that request write access.
    app.extensions["shuffleboard_read_engine"] = (
        get_engine(settings.resolve_read_url()).execution_options(postgresql_readonly=True)
        if settings.database_read_url
        else app.extensions["shuffleboard_engine"]
    )
    app.url_map.strict_slashes = False
    app.url_map.converters["int"] = _Id
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(formats.FILTERS)
    app.jinja_env.globals.update(formats.GLOBALS, **SPANS, **DIFFERENCES)
    app.jinja_env.globals.update(static=_static_urls(app), here=links.here, there=links.there)
    app.jinja_env.globals.update(
        share_of_page=share_links.share_of_page,
    )
    problems.install(app)
    responses.install(app)
    identity.install(app, settings)
    frame.install(app, settings)
    if keep_pages:
        page_cache.install(app)
    own_blueprints = (api.blueprint, frame.blueprint, prometheus.blueprint, reference.blueprint)
    # Without a provider its routes do not exist.
    for_provider = () if app.extensions["shuffleboard_provider"] is None else (sign_on.blueprint,)
    for blueprint in (*own_blueprints, *for_provider, *dict.fromkeys(page.blueprint for page in _PAGES)):
        app.register_blueprint(blueprint)
    return app


def _static_urls(app: Flask) -> Any:
    """Map file name → address with the content's digest, so that browsers may cache a file forever."""
    folder = Path(str(app.static_folder))
    digests = {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        for file in folder.rglob("*")
        if file.is_file()
    }
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = 365 * 24 * 3600
    return lambda name: url_for("static", filename=name, v=digests[name])
