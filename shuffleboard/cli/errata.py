"""`shuffleboard benchmarks errata`."""

from pathlib import Path
from string import ascii_uppercase
from typing import Any

import click
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from registry.db import read_session, write_session
from registry.errata.versions import errata_document, newest_errata, versions_of_errata
from registry.errors import IngestError, NotFoundError, UsageError
from registry.lookups import find_version
from registry.operations.opening import engine_of
from registry.scores.corrections import TREATMENTS
from registry.tables import ERRATUM_STATUSES, ErrataVersion
from shuffleboard.cli.common import json_option, note, printed, settings_of, tell
from shuffleboard.cli.groups import Group, Where
from shuffleboard.cli.tables import headed, print_table, table_options

errata_option = click.option(
    "--errata",
    type=click.Choice(tuple(TREATMENTS)),
    default=None,
    help="By which answer keys: as published, or under the newest errata.  [default: as-published]",
)
note_option = click.option("--note", "why", required=True, metavar="TEXT", help="The reason, for readers.")
MOST_BYTES = 64 << 20


@click.group(cls=Group)
def errata() -> None:
    """Say that a question is disputed or its key wrong, and see every metric without it, or with the right key.

    Nothing that was published changes: each change makes a new version of the errata, and stored answers are scored
    again; no model is asked.
    """


@errata.command("list")
@click.argument("name")
@click.option("--errata-version", "number", type=click.IntRange(1), default=None, help="An older version.")
@table_options
@json_option
def list_command(name: str, number: int | None) -> None:
    """List the errata of benchmark NAME (or NAME@VERSION), with the digest to cite them by."""
    from registry.prompting.labels import letter

    with read_session(engine_of(settings_of())) as session:
        found = _version(session, name, number)
        document = None if found is None else errata_document(found)
        versions = [one.number for one in versions_of_errata(session, find_version(session, name).id)]
    if printed({"errata": document, "versions": versions}):
        return
    if document is None:
        click.echo(f"{name} has no errata; shuffleboard benchmarks items {name} lists questions worth a second look")
        return
    rows = [
        item
        | {
            "published": letter(item["published_answer"]),
            "right": None if item["answer"] is None else letter(item["answer"]),
        }
        for item in document["errata"]
    ]
    headings = headed("question, status, published: Published key, right: Right key, note, actor: By")
    click.echo(f"{_named(document)}: {len(rows)} questions, of {document['at']}, digest {document['digest']}")
    print_table(rows, headings, "all were taken back", more={"at": "When"}, drop=("actor", "note"))


@errata.command("mark")
@click.argument("name")
@click.argument("question")
@click.argument("status", type=click.Choice(ERRATUM_STATUSES))
@click.option("--answer", default=None, metavar="LETTER", help="The right option, A for the first; of a corrected key.")
@note_option
@json_option
def mark_command(name: str, question: str, status: str, answer: str | None, why: str) -> None:
    """Mark QUESTION, by its id in the file of benchmark NAME, as disputed, or its key as wrong or corrected.

    disputed: whether its key is right is an open question; wrong-key: it is wrong, and no option is right, or nobody
    knows which; corrected-key: --answer is right. It replaces an earlier mark of the question.
    """
    from registry.errata.marks import Mark, mark

    said = Mark(question, status, why, None if answer is None else option_of(answer))
    engine = engine_of(settings_of())
    with write_session(engine) as session:
        _stored(session, mark(session, name, said), "errata.mark", question=question, status=status)
    _refresh(engine)


@errata.command("take-back")
@click.argument("name")
@click.argument("question")
@note_option
@json_option
def take_back_command(name: str, question: str, why: str) -> None:
    """Remove the mark of QUESTION of benchmark NAME; it counts as published again."""
    from registry.errata.marks import take_back

    engine = engine_of(settings_of())
    with write_session(engine) as session:
        _stored(session, take_back(session, name, question, why), "errata.take_back", question=question)
    _refresh(engine)


@errata.command("export")
@click.argument("name")
@click.option("--errata-version", "number", type=click.IntRange(1), default=None, help="An older version.")
@click.option(
    "--to",
    "--out",
    "out",
    cls=Where,
    type=click.Path(path_type=Path),
    default=None,
    help="New file to write.  [default: stdout]",
)
def export_command(name: str, number: int | None, out: Path | None) -> None:
    """Write the errata of benchmark NAME as a JSON file, which another registry can import."""
    import json

    with read_session(engine_of(settings_of())) as session:
        found = _version(session, name, number)
        if found is None:
            raise NotFoundError(f"{name} has no errata to export")
        written = json.dumps(errata_document(found), ensure_ascii=False, indent=2) + "\n"
    if out is None:
        click.echo(written, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as stream:
            stream.write(written)
    except FileExistsError:
        raise UsageError(f"{out}: it is there already; give --out a new file") from None
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror}); give --out another place") from None
    note(f"{out}: {_named(errata_document(found))}")


@errata.command("import")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def import_command(name: str, file: Path) -> None:
    """Import errata of benchmark NAME from FILE; they replace those of this registry.

    The file has to be about the same content. It may be written by hand: `format`, `content_digest` and under `errata`
    a list of {"question", "status", "answer", "note"}, the answer counted from 0.
    """
    from registry.errata.marks import import_errata, read_errata

    try:
        if file.stat().st_size > MOST_BYTES:
            raise IngestError(f"{file.name}: it has more than {MOST_BYTES >> 20} MiB, which no errata have")
        written = file.read_text(encoding="utf-8")
    except OSError as error:
        raise IngestError(
            f"{file.name}: cannot be read ({error.strerror}); give a file of benchmarks errata export"
        ) from None
    except UnicodeDecodeError:
        raise IngestError(f"{file.name}: it is no text in UTF-8; give a file of benchmarks errata export") from None
    engine = engine_of(settings_of())
    with write_session(engine) as session:
        found, new = import_errata(session, name, read_errata(written, file.name), source=file.name)
        if new:
            _stored(session, found, "errata.import", file=file.name)
        else:
            _print(errata_document(found), "already says the same")
    _refresh(engine)


@errata.command("cite")
@click.argument("name")
@click.option("--errata-version", "number", type=click.IntRange(1), default=None, help="An older version.")
@json_option
def cite_command(name: str, number: int | None) -> None:
    """Print the BibTeX entry of the errata of benchmark NAME."""
    from registry.exchange.citations import errata_entry, publisher_of

    settings = settings_of()
    with read_session(engine_of(settings)) as session:
        found = _version(session, name, number)
        if found is None:
            raise NotFoundError(f"{name} has no errata to cite")
        document, at = errata_document(found), found.at
    base = settings.public_url.rstrip("/")
    asked = f"version={document['version']}&number={document['errata_version']}"
    where = f"{base}/benchmarks/{document['benchmark']}/errata?{asked}"
    entry = errata_entry(document, at, where if base else None, publisher_of(base))
    if printed({"digest": document["digest"], "at": document["at"], "url": where if base else None, "bibtex": entry}):
        return
    click.echo(entry, nl=False)


def option_of(answer: str) -> int:
    """The ordinal of an option by its letter. Raises UsageError for what is none."""
    wanted = answer.strip().upper()
    if len(wanted) != 1 or wanted not in ascii_uppercase:
        raise UsageError(
            f"answer {answer[:20]!r}: give the letter of the right option in the benchmark's order, such as C"
        )
    return ascii_uppercase.index(wanted)


def _version(session: Session, name: str, number: int | None) -> ErrataVersion | None:
    version = find_version(session, name)
    if number is None:
        return newest_errata(session, version.id)
    known = versions_of_errata(session, version.id)
    found = next((one for one in known if one.number == number), None)
    if found is None:
        listed = f"; it has 1 to {known[0].number}" if known else "; it has none"
        raise NotFoundError(f"{name} has no version {number} of its errata{listed}")
    return found


def _stored(session: Session, found: ErrataVersion, action: str, **details: Any) -> None:
    from registry.people.accounts import OPERATOR, record

    document = errata_document(found)
    target = f"{document['benchmark']}@{document['version']}"
    record(session, OPERATOR, action, target, details=details | {"errata_version": found.number})
    _print(document, "stored")


def _print(document: dict[str, Any], state: str) -> None:
    tell(document, f"{_named(document)} {state}: {len(document['errata'])} questions, digest {document['digest']}")


def _named(document: dict[str, Any]) -> str:
    return f"errata {document['errata_version']} of {document['benchmark']}@{document['version']}"


def _refresh(engine: Engine) -> None:
    from registry.boards.snapshots import refresh_boards

    for board in refresh_boards(engine):
        note(f"board {board}: a new snapshot")
