"""`shuffleboard audit`: finds problems in logs of evaluations. It neither reads nor writes a database."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.errors import IngestError
from registry.logs.audit.catalogue import SEVERITIES

if TYPE_CHECKING:
    from registry.logs.audit.report import Report

LEVELS = (*SEVERITIES, "never")


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, everything else on stderr.")
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a report as one page.",
)
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
    default="error",
    show_default=True,
    help="End with status 1 if anything this grave, or graver, is found.",
)
@click.option(
    "--places",
    type=click.IntRange(1, 10_000),
    default=3,
    show_default=True,
    help="Places to list of each finding, such as all duplicates.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86_400),
    default=600,
    show_default=True,
    help="Longest time for each log; the rest of a log that takes longer is left out, and a finding says so.",
)
@click.option(
    "--github",
    is_flag=True,
    help="Also annotate files and lines in a GitHub workflow, and add a table to its summary.",
)
def audit(
    paths: tuple[Path, ...],
    page: Path | None,
    fail_on: str,
    places: int,
    seconds: float,
    *,
    as_json: bool,
    github: bool,
) -> None:
    """Check logs of evaluations: scores, how answers were read, positions, duplicates, prompts, several runs.

    PATH is a file or a folder, of any format that `evaluations import` reads. No registry is needed and nothing is
    registered. A file of questions (JSON Lines with id, question, options, answer) lends its texts and keys to
    logs that have none. Each finding has a number, a name, places and a remedy.
    """
    from registry.logs.audit.report import WIDTH
    from registry.logs.audit.report import audit as read

    report = read(paths, places=places, seconds=seconds)
    if page is not None:
        from registry.logs.audit.page import page_of

        try:
            page.write_text(page_of(report), encoding="utf-8", errors="replace")
        except OSError as error:
            message = f"{page}: cannot be written ({error.strerror}); give another FILE to --html"
            raise IngestError(message) from None
        click.echo(f"Wrote {page}.", err=True)
    if as_json:
        document = json.dumps(report.document(), ensure_ascii=False, allow_nan=False, indent=2)
        click.echo(document.encode("utf-8", "replace"))
    else:
        click.echo(report.text(max(WIDTH, min(shutil.get_terminal_size((WIDTH, 24)).columns, 120))))
    if github:
        _tell_github(report)
    if report.fails(fail_on):
        sys.exit(1)


def _tell_github(report: "Report") -> None:
    """Print annotations on stderr, which GitHub's runner reads as well, and append to the run's summary file."""
    from registry.logs.audit.github import annotations, summary

    for line in annotations(report, Path(os.environ.get("GITHUB_WORKSPACE", ".")).resolve()):
        click.echo(line, err=True)
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(summary(report))
    except OSError as error:
        message = f"{file}: cannot be written ({error.strerror}); leave out --github, or unset GITHUB_STEP_SUMMARY"
        raise IngestError(message) from None
