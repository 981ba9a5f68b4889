"""Pages that only a published site has: its SQL page, its data, and the links in each page's frame."""

from dataclasses import dataclass
from pathlib import Path

from flask import Blueprint, Flask, current_app, render_template, request, send_from_directory
from flask.typing import ResponseReturnValue

from registry.predictions.archive_files import EVALUATION
from registry.schema.documented import load_documented_views
from registry.sealed.folder import FILES
from registry.sealed.sites import OF_EVALUATION
from registry.sql.examples import EXAMPLES
from web.pages.sql import readable
from web.publishing import queries
from web.serving.responses import session
from web.who.identity import viewer

blueprint = Blueprint(
    "site", __name__, static_folder="static", static_url_path="/site", template_folder="templates", url_prefix="/"
)


@dataclass(frozen=True)
class Frame:
    """The frame of every page. evaluations: evaluations with a folder."""

    board: str
    title: str
    text: str
    evaluations: tuple[int, ...]

    @property
    def policy(self) -> str:
        """Return the page's Content-Security-Policy, which allows the site's own files only.

        It is part of the page, since the web server is not ours. WebAssembly is allowed on the SQL page alone.
        """
        scripts = "'self' 'wasm-unsafe-eval'" if request.endpoint == "site.query" else "'self'"
        connects = "connect-src 'self' blob:; worker-src 'self'; " if request.endpoint == "site.query" else ""
        return (
            f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; {connects}"
            "base-uri 'none'; form-action 'none'"
        )


def install(app: Flask, frame: Frame, data: Path) -> None:
    """Add a site's own pages to the website. data: the folder with the Parquet files."""
    app.jinja_env.globals["site"] = frame
    app.config["SITE_DATA"] = data
    app.register_blueprint(blueprint)


@blueprint.get("/query")
def query() -> ResponseReturnValue:
    """Show the form for a query, which runs in the browser."""
    frame = current_app.jinja_env.globals["site"]
    assert isinstance(frame, Frame)
    return render_template(
        "site_query.html",
        views=load_documented_views(),
        made=queries.make_queries(frame.evaluations),
        tables=(*queries.FILES, *queries.MORE),
        more=queries.MORE,
        examples=EXAMPLES,
        saved=[(query.name, query.sql) for query, _ in readable(session()) if viewer().may("sql")],
        files=FILES,
        of=queries.answers_of,
    )


@blueprint.get("/data/<name>.parquet")
def data(name: str) -> ResponseReturnValue:
    """Return a relation as Parquet."""
    return send_from_directory(
        current_app.config["SITE_DATA"], f"{name}.parquet", mimetype="application/vnd.apache.parquet"
    )


@blueprint.get("/data/evaluation_id=<int:evaluation_id>/<file>")
def sealed(evaluation_id: int, file: str) -> ResponseReturnValue:
    """Return a file of a sealed evaluation's folder."""
    kind = "application/json" if file == EVALUATION else "application/vnd.apache.parquet"
    folder = Path(current_app.config["SITE_DATA"]) / f"{OF_EVALUATION}{evaluation_id}"
    return send_from_directory(folder, file, mimetype=kind)
