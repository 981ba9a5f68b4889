"""`shuffleboard evaluations reread`."""

from typing import Any

import click

from registry.db import read_session, write_session
from registry.lookups import find_sealed
from registry.metrics import METRICS
from registry.names import plural
from registry.operations.opening import engine_of
from registry.prompting.protocols.store import find_definition
from registry.prompting.reading import STATES
from registry.prompting.thoughts import READINGS
from shuffleboard.cli.common import json_option, note, printed, settings_of
from shuffleboard.cli.protocols import Matcher
from shuffleboard.cli.tables import print_table, table_options

SHOWN = ("accuracy", "average_accuracy", "worst_accuracy", "fluctuation_rate", "score", "accuracy_mean_moved")
"""The metrics that are printed; the document has all."""


@click.command("reread")
@click.argument("evaluation", type=int)
@click.option("--protocol", required=True, help="The protocol whose rules read the stored outputs.")
@click.option(
    "--thoughts",
    type=click.Choice(READINGS),
    default=None,
    help="Read the answers alone (apart), or the whole outputs with their thoughts (in-text).  [default: as the "
    "protocol says]",
)
@table_options
@json_option
def reread_command(evaluation: int, protocol: str, thoughts: str | None) -> None:
    """Read the stored outputs of EVALUATION again, by the rules of another protocol; nothing is asked.

    The second reading is stored next to the first, which stays as it was sealed, and gets a link in the chain. It shows
    which metrics change, how many outputs are read differently, and whether answers that flip between orders flip
    because of the model or because of the rules. A flip that both readings see is the model's; one that only one of
    them sees is the reading's.
    """
    from registry.studies.rereading import reread, store_reading

    engine = engine_of(settings_of())
    with read_session(engine) as session:
        definition = find_definition(session, protocol)
        if thoughts is not None:
            definition = _with_thoughts(definition, thoughts)
        parameters, result = reread(session, evaluation, definition, Matcher(definition).position)
    with write_session(engine) as session:
        new = store_reading(session, find_sealed(session, evaluation), parameters, result)
    document = {"evaluation": evaluation, "protocol": parameters["protocol"], "new": new, **result}
    if not printed(document):
        _print(document)
    if not new:
        note(f"this reading of evaluation {evaluation} was already stored")


def _with_thoughts(definition: dict[str, Any], thoughts: str) -> dict[str, Any]:
    """The definition with another reading of thoughts, under a name of its own if that changes it."""
    if definition.get("thoughts", READINGS[0]) == thoughts:
        return definition
    changed = {key: value for key, value in definition.items() if key != "thoughts"}
    changed["name"] = f"{definition['name']}-{thoughts}"
    return changed if thoughts == READINGS[0] else changed | {"thoughts": thoughts}


def _print(document: dict[str, Any]) -> None:
    first, second = document["states"]
    rows = [
        {"what": f"Outputs {state}", "first": first[state], "second": second[state]}
        for state in STATES
        if first[state] or second[state]
    ]
    rows += [
        {"what": METRICS[name].label, "first": found["first"], "second": found["second"]}
        for name in SHOWN
        if (found := document["metrics"].get(name)) is not None
    ]
    print_table(rows, {"what": "", "first": "As sealed", "second": document["protocol"]}, "nothing was read")
    click.echo(
        f"{document['prompts']:,} outputs read again: {document['changed']:,} read differently, "
        f"{document['changed_options']:,} of them as another option"
    )
    questions = document["flips"]["questions"]
    flips = questions["model"] + questions["reading"]
    if not questions["of"]:
        click.echo("no question was asked in two orders, so nothing is known of flips")
    elif not flips:
        click.echo(f"none of the {questions['of']:,} questions flips in either reading")
    else:
        low, high = questions["model_share_interval"]
        click.echo(
            f"{flips:,} of {questions['of']:,} questions flip: {questions['model']:,} because of the model "
            f"({questions['model_share']:.1%} of the flips; 95 % interval {low:.1%} to {high:.1%}), "
            f"{questions['reading']:,} because of the reading ({questions['first_only']:,} as sealed alone, "
            f"{questions['second_only']:,} by {document['protocol']} alone)"
        )
    if document["left_out"]:
        note(f"left out because a text is not stored: {plural(len(document['left_out']), 'question')}")
