"""`shuffleboard publish`."""

from pathlib import Path

import click

from registry.operations.opening import engine_of
from registry.proof.signing import key_path
from registry.queue.display import progress_display
from shuffleboard.cli.common import json_option, note, printed, settings_of
from shuffleboard.cli.groups import Where


@click.command()
@click.argument("board")
@click.option(
    "--to",
    "--out",
    "to",
    cls=Where,
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the site: a new one, or an earlier site's.",
)
@json_option
def publish(board: str, to: Path) -> None:
    """Write a board as a site of files, for any web server.

    The site has the board and all that leads to it: models, evaluations, questions of public benchmarks, charts, the
    guide of the metrics, snapshots, and the results as Parquet files with a page that queries them in the browser.
    Pages work without scripts. Run it again to update the site: only changed files are written.
    """
    from web.publishing import publish as write

    settings = settings_of()
    engine_of(settings)
    if not key_path(settings).exists():
        note("the site will not be signed: there is no key; make one first with `shuffleboard chain key new`")
    with progress_display(lambda _: "files") as show:
        done = write(settings, board, to, lambda count: show(board, f"publishing {board}", count, None, ""))
    if printed({"board": board, "to": str(to), **done.__dict__}):
        return
    note(f"{to}: {done.files} files, {done.bytes / 1e6:.1f} MB; {done.changed} written, {done.removed} removed")
    if done.key is not None:
        note(f"signed by {done.key}; others check it: shuffleboard verify --public KEY {to}")
    note(f"look at it: python -m http.server --directory {to}")
