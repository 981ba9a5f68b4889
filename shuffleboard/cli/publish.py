"""`shuffleboard publish`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.errors import UsageError
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.queue.display import progress_display
from registry.queue.progress import duration
from registry.sealed.signing import key_path
from registry.settings import Settings
from shuffleboard.cli.common import json_option, note, print_document, settings_of
from shuffleboard.cli.groups import Where

if TYPE_CHECKING:
    from web.publishing.expected import Expected


@click.command()
@click.argument("board")
@click.option(
    "--to",
    "--out",
    "to",
    cls=Where,
    type=click.Path(path_type=Path),
    help="Folder of the site: a new one, or an earlier site's.",
)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    help="New folder for the board as a data set of Parquet files with a card, for Hugging Face's hub.",
)
@json_option
def publish(board: str, to: Path | None, dataset: Path | None) -> None:
    """Write a board as a site of files, for any web server, or with --dataset as a data set.

    The site has the board and all that leads to it: models, evaluations, questions of public benchmarks, charts, the
    guide of the metrics, snapshots, and the results as Parquet files with a page that queries them in the browser.
    Pages work without scripts. Run it again to update the site: only changed files are written.
    """
    from web.publishing import publish as write

    settings = settings_of()
    engine_of(settings)
    if (to is None) == (dataset is None):
        raise UsageError("give either --to DIR for a site, or --dataset DIR for a data set")
    if to is None:
        _write_dataset(settings, board, Path(str(dataset)))
        return
    expected = 0

    def announce(site: "Expected") -> None:
        nonlocal expected
        expected = site.files
        size, takes = f"{site.bytes / 1e6:.0f} MB", duration(site.seconds)
        note(f"{board} has about {site.files:,} files, {size}; writing all of them takes about {takes}")
        if not key_path(settings).exists():
            note(f"the site will not be signed: there is no key; make one first with `{propose('chain key new')}`")

    with progress_display(lambda _: "files") as show:

        def report(count: int) -> None:
            show(board, f"publishing {board}", count, max(expected, count), "")

        done = write(settings, board, to, report, announce)
    if print_document({"board": board, "to": str(to), **done.__dict__}):
        return
    note(f"{to}: {done.files} files, {done.bytes / 1e6:.1f} MB; {done.changed} written, {done.removed} removed")
    if done.key is not None:
        note(f"signed by {done.key}; others check it: {propose('verify', '--public', 'KEY', to)}")
    note(f"look at it: python -m http.server --directory {to}")


def _write_dataset(settings: Settings, board: str, to: Path) -> None:
    from web.publishing.dataset import publish_dataset

    names = publish_dataset(settings, board, to)
    if print_document({"board": board, "dataset": str(to), "configurations": names}):
        return
    note(f"{to}: {len(names)} tables and a card, README.md")
    note(f"upload it: hf upload OWNER/{board} {to} --repo-type dataset")
