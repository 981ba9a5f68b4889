"""`shuffleboard protocols`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from sqlalchemy import select

from registry.benchmarks.lines import shorten
from registry.db import read_session, write_session
from registry.digests import specification_digest
from registry.errors import NotFoundError, UsageError
from registry.exchange.readings import readings_of
from registry.lookups import find_version
from registry.operations.opening import engine_of
from registry.predictions.prompts import prompts_of_question
from registry.prompting.labels import letter
from registry.prompting.protocols.custom import read_protocol_file
from registry.prompting.protocols.presets import PRESETS, RECORDED
from registry.prompting.protocols.store import (
    find_definition,
    import_protocol,
    load_known_definitions,
    protocol_definition,
)
from registry.prompting.reading import STATES
from registry.prompting.variants import VARIANT_KINDS, VariantSetDefinition, parse_variants
from registry.tables import Protocol, Question
from shuffleboard.cli.common import (
    GivenFile,
    json_option,
    note,
    print_document,
    print_json_list,
    settings_of,
    tell,
    wants_json,
)
from shuffleboard.cli.files import require_kind
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import parse_headings, print_table, table_options

if TYPE_CHECKING:
    from workers.matching import SentenceMatcher


@click.group(cls=Group)
def protocols() -> None:
    """Import and list protocols: how a model is asked and how its answer is read."""


@protocols.command("list")
@table_options
@json_option
def list_command() -> None:
    """List presets, the protocols made from them that ship, and imported ones.

    A name means its newest definition. Protocols that workers do not support yet can be used for imported outputs.
    """
    with read_session(engine_of(settings_of())) as session:
        imported = set(session.scalars(select(Protocol.name))) - set(load_known_definitions())
        names = [*load_known_definitions(), *sorted(imported)]
        rows = [_document(find_definition(session, name)) for name in names]
    if print_document({"protocols": rows}):
        return
    headings = parse_headings("name: Protocol, kind, format, digest")
    print_table([row | {"digest": row["digest"][:12]} for row in rows], headings, "no protocol")


def _document(definition: dict[str, Any]) -> dict[str, Any]:
    name = definition["name"]
    return {
        "name": name,
        "protocol": name,
        "kind": "preset"
        if name in {*PRESETS, RECORDED["format"]}
        else "shipped"
        if name in load_known_definitions()
        else "imported",
        "format": definition["format"],
        "shots": definition["shots"],
        "digest": specification_digest(definition),
    }


@protocols.command("show")
@click.argument("name")
@click.option("--shots", type=int, default=0, show_default=True, help="Examples from the few-shot pool.")
@json_option
def show_command(name: str, shots: int) -> None:
    """Show the whole definition of protocol NAME, and the digest that names it."""
    with read_session(engine_of(settings_of())) as session:
        definition = find_definition(session, name, shots)
    document = _document(definition) | {"definition": definition}
    if print_document(document):
        return
    click.echo(f"{'digest':18} {document['digest']}")
    for key, value in definition.items():
        if isinstance(value, dict):
            for inner, item in value.items():
                click.echo(f"{f'{key}.{inner}':22} {item!r}")
        else:
            click.echo(f"{key:22} {value!r}")


@protocols.command("prompt")
@click.argument("name")
@click.option("--benchmark", required=True, help="Benchmark NAME, or NAME@VERSION.")
@click.option("--question", default=None, help="Id of a question.  [default: the first]")
@click.option(
    "--variants", default="original", show_default=True, help=f"Kind of variants: {', '.join(VARIANT_KINDS)}."
)
@click.option("--variant", type=int, default=None, help="Which variant of the question, from 0.  [default: the first]")
@click.option("--every", is_flag=True, help="Every variant of the question, one after the other.")
@click.option("--shots", type=int, default=0, show_default=True, help="Examples from the few-shot pool.")
@json_option
def prompt_command(
    name: str,
    benchmark: str,
    question: str | None,
    variants: str,
    variant: int | None,
    every: bool,
    shots: int,
) -> None:
    """Show the prompt that protocol NAME makes of a question; no model is needed and nothing is stored.

    The continuations that are scored, or the answers that a generated text is matched with, follow on stderr. With a
    chat template the turns are shown, each under its role: the model's own template formats them. With --every each
    prompt is printed below its variant's ordinal and name.
    """
    if every and variant is not None:
        raise UsageError("give either --variant or --every")
    with read_session(engine_of(settings_of())) as session:
        definition = find_definition(session, name, shots)
        version = find_version(session, benchmark)
        query = select(Question).where(Question.benchmark_version_id == version.id, ~Question.few_shot)
        if question is not None:
            query = query.where(Question.external_id == question)
        example = session.scalars(query.order_by(Question.ordinal).limit(1)).first()
        if example is None:
            raise NotFoundError(
                f"benchmark {version.benchmark.name}@{version.version} has no question {question!r}; give an id as in "
                "its file, or leave --question out for the first"
            )
        asked_in = parse_variants(variants, read_files=True)
        documents: list[dict[str, Any]] = [
            {
                "protocol": name,
                "question": example.external_id,
                "variant": shown.ordinal,
                "variant_name": shown.name,
                "order": list(shown.order),
                "prompt": prompt.text,
                "continuations": list(prompt.continuations),
                "answers": list(prompt.answers),
                "digest": prompt.digest,
            }
            for shown, prompt in prompts_of_question(session, definition, asked_in, example)
        ]
    if not every:
        documents = [_pick_variant(documents, variant, asked_in)]
    if print_document({"prompts": documents} if every else documents[0]):
        return
    for document in documents:
        if every:
            click.echo(f"--- variant {document['variant']}: {document['variant_name']}")
        click.echo(document["prompt"])
        used = "scored continuations" if document["continuations"] else "generated text is read as one of"
        note(f"{used}: {', '.join(repr(text) for text in document['continuations'] or document['answers'])}")


def _pick_variant(
    documents: list[dict[str, Any]], variant: int | None, variants: VariantSetDefinition
) -> dict[str, Any]:
    ordinals = [document["variant"] for document in documents]
    if variant is not None and variant not in ordinals:
        raise UsageError(
            f"question {documents[0]['question']} has no variant {variant} under {variants.kind}: use "
            f"{', '.join(map(str, ordinals))}"
        )
    return documents[0 if variant is None else ordinals.index(variant)]


@protocols.command("read")
@click.argument("name")
@click.argument("file", type=GivenFile())
@json_option
def read_command(name: str, file: Path) -> None:
    """Show the answers that protocol NAME reads in the outputs of FILE; nothing is asked and nothing is stored.

    FILE is JSON Lines, one output a line:

    \b
      {"text": "<think>A? No.</think>Answer: B", "options": ["Rome", "Paris"]}
      {"text": "Answer: B", "reasoning": "A? No.", "options": ["Rome", "Paris"]}
      {"text": "A?", "opened": true, "finish": "length", "options": ["a", "b"]}

    `finish` is "stop" (also when it is left out), "length" when a limit cut the output off, or "refused". `reasoning`
    is a thought that a server handed over apart. `opened` is true if the model's template opened the thought.

    An output that looks like it has the marker of an unlisted model is unread, as is one with fewer than two options;
    `remark` has the reason.
    """  # noqa: D301
    definition = _definition_to_read_by(name)
    matcher = Matcher(definition)
    # Every line is checked before the first one is printed, so that stdout gets a complete document or nothing.
    counts = Counter(reading["state"] for reading in readings_of(definition, file, lambda _text, _options: 0))
    readings = readings_of(definition, file, matcher.position)
    if wants_json():
        print_json_list("readings", readings)
    else:
        for number, reading in enumerate(readings, start=1):
            position, rule = reading["position"], reading["rule"] or ""
            chosen = "" if position is None else letter(position)
            answer = shorten(reading["answer"], 60) + (f"  ({reading['remark']})" if reading["remark"] else "")
            click.echo(f"{number:>6}  {reading['state']:10}  {chosen:3}  {rule:18}  {answer}")
    note(", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no output")


def _definition_to_read_by(name: str) -> dict[str, Any]:
    """Return a definition without using a database, if it ships with the code; else from the database."""
    if name in load_known_definitions():
        return protocol_definition(name)
    with read_session(engine_of(settings_of())) as session:
        return find_definition(session, name)


class Matcher:
    """Finds the option that an answer means; loads the embedder for the first answer."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._matching = definition.get("matching")

    @cached_property
    def _embedder(self) -> "SentenceMatcher":
        from workers.matching import SentenceMatcher
        from workers.quiet import quiet_libraries

        quiet_libraries()
        assert self._matching is not None
        return SentenceMatcher(self._matching["embedder"], self._matching["similarity"])

    def position(self, text: str, options: Sequence[str]) -> int:
        """Return the position of the option that a text means."""
        return self._embedder.match([text], [options])[0].position


@protocols.command("import")
@click.argument("file", type=GivenFile())
@json_option
def import_command(file: Path) -> None:
    """Load a protocol from FILE (.toml or .json): a preset with some of its keys changed.

    \b
      name = "match-dash-short"
      base = "match-dash"
      cue = "Your answer:"
      [generation]
      max_tokens = 128
      temperature = 0.2
      [extraction]
      match = "first"

    Which keys a preset has: shuffleboard protocols show NAME. A changed file of the same name is another protocol with
    another digest; the name then means the new one, and earlier evaluations keep the old one.
    """  # noqa: D301
    require_kind(file, "protocols import")
    definition = read_protocol_file(file)
    with write_session(engine_of(settings_of())) as session:
        row, new = import_protocol(session, definition)
        current = find_definition(session, row.name) == definition
    document = _document(definition) | {"new": new, "current": current}
    tell(document, f"protocol {definition['name']} {document['digest'][:12]} {'loaded' if new else 'already exists'}")
    if not current:
        note(f"{definition['name']} means a newer definition; to return to this one, import it under another name")
