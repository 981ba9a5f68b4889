"""`shuffleboard evaluations replay`."""

import click

from registry.db import read_session
from registry.operations.opening import engine_of
from registry.prompting.protocols.replayed import reading_rules
from registry.prompting.protocols.store import find_definition
from registry.proposals import propose
from registry.queue.progress import import_progress
from shuffleboard.cli.common import json_option, note, print_json, settings_of
from shuffleboard.cli.protocols import Matcher


@click.command("replay")
@click.argument("evaluation_id", type=int, metavar="ID")
@click.option("--benchmark", default=None, help="Benchmark NAME, or NAME@VERSION, whose keys count.")
@click.option("--protocol", default=None, help="Protocol whose rules read the stored texts.")
@json_option
def replay_command(evaluation_id: int, benchmark: str | None, protocol: str | None) -> None:
    """Make a new evaluation from the stored answers of ID; prints {"evaluation": ID, "source": ID}.

    No model is asked. With --benchmark the answers are scored by the keys of another version, which must have the same
    questions, with the same options in the same order. With --protocol the stored texts are read by its rules. The new
    evaluation is sealed and linked to its source, which stays as it is; `statistics compare` shows which differences
    the key and the reading caused. A replay that exists already is printed again.
    """
    from registry.sealed.replaying import ReplayRequest, replay

    engine = engine_of(settings_of())
    definition = {}
    if protocol is not None:
        with read_session(engine) as session:
            definition = dict(reading_rules(find_definition(session, protocol)))
    request = ReplayRequest(evaluation_id, benchmark, protocol)
    with import_progress("prompts") as report:
        replayed, new = replay(engine, request, Matcher(definition).position, report)
    if not new:
        note(f"evaluation {replayed} is that replay already; nothing was stored")
    note(f"to see the differences: {propose('statistics compare', evaluation_id, replayed)}")
    print_json({"evaluation": replayed, "source": evaluation_id})
