"""`shuffleboard embargoes`."""

import click

from registry.boards.embargoes import embargoes as all_embargoes
from registry.boards.embargoes import lift_embargo, set_embargo, subject
from registry.db import read_session, write_session
from registry.errors import UsageError
from registry.lookups import find_evaluation, find_revision
from registry.operations.opening import engine_of
from registry.people.accounts import OPERATOR
from shuffleboard.cli.boards import parse_time
from shuffleboard.cli.common import json_option, printed, settings_of, tell
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import print_table, table_options


@click.group(cls=Group)
def embargoes() -> None:
    """Hide evaluations and models until a moment."""


@embargoes.command("set")
@click.option("--evaluation", type=int, default=None, help="Hide this evaluation.")
@click.option("--model", default=None, help="Hide this model, NAME or NAME@REVISION, and its evaluations.")
@click.option("--until", required=True, help="Date (its end) or time; UTC if you give no zone.")
@json_option
def set_command(evaluation: int | None, model: str | None, until: str) -> None:
    """Hide an evaluation or a model from everyone but maintainers and its submitter, or move the end of that.

    The embargo ends by itself. If an evaluation is sealed and was seen, you cannot hide it any more.
    """
    moment = parse_time(until)
    if (evaluation is None) == (model is None) or moment is None:
        raise UsageError("give either --evaluation or --model")
    with write_session(engine_of(settings_of())) as session:
        of = find_evaluation(session, evaluation) if evaluation is not None else find_revision(session, model or "")
        row = set_embargo(session, OPERATOR, of, moment)
        document = {"embargo": row.id, "of": subject(session, row), "until": row.until}
    if printed(document):
        return
    click.echo(f"{document['of']} is under embargo {document['embargo']} until {moment:%Y-%m-%d %H:%M} UTC")


@embargoes.command("list")
@table_options
@json_option
def list_command() -> None:
    """List every embargo, those that end last first."""
    with read_session(engine_of(settings_of())) as session:
        rows = all_embargoes(session)
    if printed({"embargoes": rows}):
        return
    headings = {"embargo": "ID", "of": "Of", "until": "Until", "ended": "Ended"}
    print_table(rows, headings, "no embargo yet; set one: shuffleboard embargoes set --model NAME --until DATE")


@embargoes.command("lift")
@click.argument("embargo_id", type=int)
@json_option
def lift_command(embargo_id: int) -> None:
    """End an embargo now."""
    with write_session(engine_of(settings_of())) as session:
        of = subject(session, lift_embargo(session, OPERATOR, embargo_id))
    tell({"embargo": embargo_id, "lifted": True}, f"{of} is no longer under embargo")
