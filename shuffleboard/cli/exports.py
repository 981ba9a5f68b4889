"""`shuffleboard export`."""

from pathlib import Path
from typing import cast

import click

from registry.db import write_session
from registry.exchange.exports import FORMATS, ExportRequest, export
from registry.names import plural
from registry.operations.opening import engine_of
from registry.queue.progress import import_progress
from registry.schema.audiences import AUDIENCES, Audience
from registry.sealed.signing import sign_if_possible
from shuffleboard.cli.common import json_option, note, print_document, settings_of
from shuffleboard.cli.groups import Where


@click.command("export")
@click.option("--format", "format_", type=click.Choice(tuple(FORMATS)), required=True, help="Kind of files.")
@click.option(
    "--to", "--out", "out", cls=Where, type=click.Path(path_type=Path), required=True, help="New folder to write."
)
@click.option("--evaluation", "evaluations", type=int, multiple=True, help="Only this evaluation; may be repeated.")
@click.option(
    "--benchmark", "benchmarks", multiple=True, help="Only this benchmark: NAME, or NAME@VERSION; may be repeated."
)
@click.option("--model", "models", multiple=True, help="Only this model: NAME, or NAME@REVISION; may be repeated.")
@click.option(
    "--audience",
    type=click.Choice(AUDIENCES),
    default="public",
    show_default=True,
    help="Which benchmarks are included: public ones, members' too, or hidden ones too.",
)
@click.option("--organisation", default=None, help="Who publishes the results, for every-eval-ever.")
@click.option(
    "--task",
    "tasks",
    multiple=True,
    help="BENCHMARK[:METRIC]=TASK: its task on Hugging Face's hub, for eval-results; may be repeated.",
)
@json_option
def export_command(
    format_: str,
    out: Path,
    evaluations: tuple[int, ...],
    benchmarks: tuple[str, ...],
    models: tuple[str, ...],
    audience: str,
    organisation: str | None,
    tasks: tuple[str, ...],
) -> None:
    """Write results as files for analysts, with a manifest and a README that explains them.

    The formats parquet, csv and jsonl write one file for each relation: evaluations, metrics, questions, predictions
    and more. The format every-eval-ever is the schema of the project of that name, single answers included. The format
    eval-results has accuracy, right in two orders and order loss for models' repositories on Hugging Face's hub.

    The export shows the registry at one moment, and the folder appears once it is complete. Questions carry a canary
    string, so that training data containing them can be found. If the registry has a key, its chain is included with a
    signature, for `shuffleboard verify --public`.
    """
    from registry.code_identity import code_version

    settings = settings_of()
    engine = engine_of(settings)
    with write_session(engine) as session:
        sign_if_possible(session, settings)
    request = ExportRequest(
        format_,
        cast("Audience", audience),
        evaluations,
        benchmarks,
        models,
        organisation,
        code_version(),
        tasks,
    )
    with import_progress() as report:
        manifest = export(engine, request, out, report)
    if manifest["archived"] is not None:
        left = manifest["archived"]
        note(
            f"left out: {' and '.join(left['left_out'])} of {plural(len(left['evaluations']), 'archived evaluation')}; "
            f"bring them back with: {left['restore']}"
        )
    if print_document(manifest):
        return
    rows = sum(entry["rows"] for entry in manifest["files"])
    contents = f"{plural(len(manifest['files']), 'file')}, {plural(rows, 'row')}"
    click.echo(f"{out}: {contents} of {plural(manifest['evaluations'], 'evaluation')}")
    note(f"its README.md explains the columns; audience: {audience}")
