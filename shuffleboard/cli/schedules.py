"""`shuffleboard schedules`."""

import click

from registry.db import read_session, write_session
from registry.errors import UsageError
from registry.lookups import find_board, find_revision
from registry.names import plural
from registry.operations.opening import engine_of
from registry.people.accounts import OPERATOR
from registry.studies.schedules import add_schedule, end_schedule, schedule_documents
from shuffleboard.cli.common import budget_option, json_option, note, printed, settings_of, tell
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import headed, print_table, table_options


@click.group(cls=Group)
def schedules() -> None:
    """Ask models on endpoints again, to notice when one has moved."""


@schedules.command("add")
@click.argument("evaluation", type=int, required=False)
@click.option("--board", default=None, help="With --model: each evaluation of the model on this board.")
@click.option("--model", default=None, help="With --board: NAME or NAME@REVISION.")
@click.option("--every", "every_days", type=int, default=7, show_default=True, help="Days from one run to the next.")
@click.option("--questions", type=int, required=True, help="How many are asked each time: the first in file order.")
@budget_option("The most that one run of a schedule may cost, if a provider charges.")
@json_option
def add_command(
    evaluation: int | None,
    board: str | None,
    model: str | None,
    every_days: int,
    questions: int,
    budget: float | None,
) -> None:
    """Ask the first questions of EVALUATION again every so many days, the first time at once.

    EVALUATION is sealed, and of a model on an endpoint. `shuffleboard worker beat`, or a worker, queues each run, once.
    """
    if (evaluation is None) == (board is None) or (board is None) != (model is None):
        raise UsageError("give either the number of an evaluation, or --board and --model")
    with write_session(engine_of(settings_of())) as session:
        if evaluation is not None:
            ids = [evaluation]
        else:
            from registry.boards.store import evaluations_of_entry

            revision = find_revision(session, model or "")
            entries = find_board(session, board or "").entries
            found = [evaluations_of_entry(session, entry, revision).get(revision.id) for entry in entries]
            ids = [item.id for item in found if item is not None]
            if not ids:
                raise UsageError(f"board {board} has no sealed evaluation of {model}; submit them first")
        made = [
            add_schedule(session, OPERATOR, item, every_days=every_days, questions=questions, budget=budget)
            for item in ids
        ]
        numbers = [row.id for row in made]
    note(f"every {plural(every_days, 'day')}, {plural(questions, 'question')} of evaluation {', '.join(map(str, ids))}")
    tell({"schedules": numbers}, f"schedule {', '.join(map(str, numbers))}")


@schedules.command("list")
@table_options
@json_option
def list_command() -> None:
    """List schedules with the runs of each, the newest first."""
    with read_session(engine_of(settings_of())) as session:
        found = schedule_documents(session)
    if printed({"schedules": found}):
        return
    rows = [
        {
            **row,
            "runs": len(row["runs"]),
            "last": row["runs"][0]["begun_at"] if row["runs"] else None,
            "p_value": next((run["p_value"] for run in row["runs"] if run["compared_at"]), None),
        }
        for row in found
    ]
    headings = headed(
        "schedule: ID, model, benchmark, evaluation, every_days: Every (days), questions, budget, runs, last, "
        "p_value: p, moved, ended_at: Ended"
    )
    print_table(rows, headings, "no schedule yet; add one: shuffleboard schedules add EVALUATION --questions 100")


@schedules.command("end")
@click.argument("schedule_id", type=int)
@json_option
def end_command(schedule_id: int) -> None:
    """End a schedule; its runs are kept."""
    with write_session(engine_of(settings_of())) as session:
        end_schedule(session, OPERATOR, schedule_id)
    tell({"schedule": schedule_id, "ended": True}, f"schedule {schedule_id} has ended")
