"""`shuffleboard evaluations provenance`, `verify` and `chain`."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from registry import chain as chains
from registry.db import pick, read_session, utc_text, write_session
from registry.digests import DIGEST_LENGTH
from registry.errors import UsageError
from registry.files.absent import no_such_file, refuse_pipe
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.sealed import statements
from registry.sealed.provenance import GROUPS, compare_provenance, provenance_document
from registry.sealed.signing import key_path, new_key, read_key, sign_head, signature_problems
from registry.tables import ChainLink
from shuffleboard.cli.common import json_option, note, print_document, print_json, settings_of, wants_json
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import print_table, show, table_options

MAX_PEM = 1_000_000
"""Largest file with a key, in bytes."""


@click.command()
@click.argument("evaluation_id", type=int)
@click.argument("other_id", type=int, required=False)
@json_option
def provenance(evaluation_id: int, other_id: int | None) -> None:
    """Show the origin of an evaluation's numbers, or the differences from another's.

    With one id: specification, files, prompts, seeds, engines, workers, copies, seal, its place in the chain. With two:
    every fact that differs between them, by group, and how many are the same.
    """
    with read_session(engine_of(settings_of())) as session:
        document = provenance_document(session, evaluation_id)
        difference = None
        if other_id is not None:
            difference = compare_provenance(document, provenance_document(session, other_id))
    if wants_json():
        print_json(document if difference is None else difference)
    elif difference is None:
        _print_provenance(document)
    else:
        _print_difference(difference)


def _print_provenance(document: Mapping[str, Any]) -> None:
    if document["mixed_engines"]:
        engines = len(document["engine_fingerprints"])
        why = "the server named another model while the answers were written"
        note(f"mixed engines: {f'its shards were scored by {engines} different engines' if engines > 1 else why}")
    for row in document["withdrawals"]:
        note(f"{row['kind']}: {row['reason']}")
    if document["copies"]["withdrawn"]:
        note("some of its results were copied from an evaluation that has since been withdrawn")
    for key, value in document.items():
        if key == "shards":
            for shard in value:
                fingerprint = shard["engine_fingerprint"] or {}
                click.echo(
                    f"shard {shard['shard']:<4} {shard['state']:8} {shard['prompts']} prompts on "
                    f"{shard['host'] or '?'} ({shard['device'] or '?'}), claims {shard['claims']}, failures "
                    f"{shard['failures']}, crashes {shard['crashes']}, engine {fingerprint.get('engine', '–')}"
                )
        elif isinstance(value, dict):
            click.echo(f"{key.replace('_', ' ')}:")
            for name, item in value.items():
                click.echo(f"  {name.replace('_', ' '):22} {_format(item)}")
        else:
            click.echo(f"{key.replace('_', ' '):24} {_format(value)}")


def _format(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=str) if value else "–"
    return show(value)


def _print_difference(document: Mapping[str, Any]) -> None:
    first, second = document["evaluations"]
    for group, heading in GROUPS.items():
        facts = document["different"].get(group, {})
        for key, values in facts.items():
            click.echo(f"{heading + ':' if key == next(iter(facts)) else ''}".ljust(1) + f"\n  {key}")
            click.echo(f"    {first}: {_format(values[0])}\n    {second}: {_format(values[1])}")
    same = {GROUPS[group]: len(facts) for group, facts in document["same"].items()}
    click.echo("The same: " + ", ".join(f"{heading} ({count})" for heading, count in same.items()))


def _check_digest(digest: str | None) -> None:
    if digest is not None and (len(digest) != DIGEST_LENGTH or set(digest) - set("0123456789abcdef")):
        raise UsageError(f"head {digest[:80]!r}: give the {DIGEST_LENGTH} hexadecimal digits that were published")


@click.command()
@click.argument("target", metavar="[EVALUATION_ID | PATH]", required=False)
@click.option("--all", "everything", is_flag=True, help="Every sealed evaluation, every snapshot, the whole chain.")
@click.option("--head", default=None, metavar="DIGEST", help="A head of the chain that was published elsewhere.")
@click.option(
    "--rescore", type=click.IntRange(min=1), default=None, help="Score this many prompts again, drawn at random."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which prompts --rescore draws.")
@click.option(
    "--public",
    multiple=True,
    metavar="KEY",
    help="Check the folder at PATH by this public key: a PEM file, or the key's fingerprint.",
)
@click.option(
    "--max-age", type=click.FloatRange(min=0), metavar="DAYS", help="With --public: refuse an older signature."
)
@click.option("--board", default=None, help="With --public: the board that it should be.")
@json_option
def verify(
    target: str | None,
    everything: bool,
    head: str | None,
    rescore: int | None,
    seed: int,
    public: tuple[str, ...],
    max_age: float | None,
    board: str | None,
) -> None:
    """Recompute a sealed evaluation from its answers, or check a published board; status 1 if anything differs.

    Prompts, leaf digests, seal, question scores, PriDe, metrics with their intervals, analyses, copies, snapshots, and
    the chain. Every difference is reported with its evaluation and question. --rescore gives the model some of the
    prompts again and reports how much the probabilities differ.

    With --public, PATH is the folder of a site of `shuffleboard publish`, an evaluation of `shuffleboard evaluations
    export`, or tables of `shuffleboard export`. It is checked by the key alone, without a registry: signature, chain,
    and the SHA-256 of every file. Get the key from somewhere else than the folder.
    """
    _check_digest(head)
    if public:
        if target is None or everything or rescore is not None:
            raise UsageError("--public goes with a folder: verify --public KEY PATH")
        _verify_export(Path(target), public, head, max_age, board)
        return
    if max_age is not None or board is not None:
        raise UsageError("--max-age and --board go with --public")
    if target is not None and not target.isdigit():
        if os.sep in target and not Path(target).exists():
            raise no_such_file(target)
        numbers = f"; {propose('evaluations list')} shows the numbers"
        remedy = "; to check a folder, give --public KEY" if Path(target).exists() else numbers
        raise UsageError(f"{target!r} is not the id of an evaluation{remedy}")
    evaluation_id = None if target is None else int(target)
    from registry.sealed.verification import verify_all, verify_evaluation

    if (evaluation_id is None) != everything:
        raise UsageError("give the id of an evaluation, or --all")
    if everything and rescore is not None:
        raise UsageError("--rescore is for one evaluation; leave out --all")
    settings = settings_of()
    engine = engine_of(settings, create=False)  # an empty file may remain from a registry
    with read_session(engine) as session:
        if evaluation_id is None:
            document = verify_all(session, head=head)
        else:
            document = verify_evaluation(session, evaluation_id, head=head)
    if rescore is not None:
        from registry.sealed.verification.rescoring import rescore_evaluation
        from workers import rescoring

        assert evaluation_id is not None
        document["rescored"] = rescore_evaluation(engine, settings, evaluation_id, rescore, seed, rescoring)
        document["ok"] = document["ok"] and document["rescored"]["ok"]
    _say(document, evaluation_id, quiet=print_document(document))
    if not document["ok"]:
        sys.exit(1)


def _verify_export(
    path: Path,
    public: Sequence[str],
    head: str | None,
    max_age: float | None,
    board: str | None,
) -> None:
    from registry.sealed.checking import Trust, check_by_key

    trust = Trust([_fingerprint(key) for key in public], head, max_age, board)
    report = check_by_key(path, trust)
    if not print_document(report.document()):
        for fact in report.facts:
            click.echo(f"✓ {fact}")
    for text in report.unchecked:
        note(f"not checked: {text}")
    for text in report.problems:
        note(f"✗ {text}")
    if not report.ok:
        note(f"{path} is not what was signed")
        sys.exit(1)
    if not wants_json():
        click.echo(f"{path} is what was signed")


def _fingerprint(key: str) -> str:
    """Return the fingerprint of a key. key: a file, or the fingerprint itself."""
    if statements.is_digest(key):
        return key
    return statements.fingerprint(statements.read_public_key(_read(Path(key)).decode(errors="replace"), key))


def _read(path: Path) -> bytes:
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            return file.read(MAX_PEM)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a file in PEM") from None


def _say(document: Mapping[str, Any], evaluation_id: int | None, *, quiet: bool) -> None:
    """Print problems on stderr and, unless stdout has the document, successes on stdout."""
    for report in document["evaluations"] if evaluation_id is None else [document]:
        for problem in report["problems"]:
            note(f"evaluation {report['evaluation']}: {problem}")
        if not report["problems"] and not quiet:
            click.echo(f"evaluation {report['evaluation']} is as it was sealed ({report['seal']})")
    if evaluation_id is None:
        for problem in document["problems"]:
            note(problem)
    again = document.get("rescored")
    if again is not None and not quiet:
        click.echo(
            f"{again['prompts']} of its prompts scored again: largest difference in a probability "
            f"{again['largest_difference'] if again['largest_difference'] is not None else '–'} "
            f"(tolerance {again['tolerance']}), {len(again['flips'])} answers differ"
        )
    if again is not None:
        for problem in again["problems"]:
            note(f"evaluation {evaluation_id}: {problem}")


@click.group(cls=Group, invoke_without_command=True)
@table_options
@json_option
@click.pass_context
def chain(context: click.Context) -> None:
    """List the chain of seals, folders, withdrawals and snapshots; verify it, and sign its head.

    The digest of the last link, its head, covers all of it. Publish it now and then: anyone who can write the database
    could compute a new chain, but it would not contain a published head.
    """
    if context.invoked_subcommand is None:
        _list_chain()


@chain.command("list")
@table_options
@json_option
def list_chain() -> None:
    """List every link, and the head."""
    _list_chain()


def _list_chain() -> None:
    with read_session(engine_of(settings_of())) as session:
        report = chains.check_chain(session)
        rows = [link_row(link) for link in chains.links(session)]
    if print_document({"head": report.head, "length": report.length, "links": rows}):
        return
    headings = {"position": "Place", "at": "At", "kind": "Kind", "subject": "About", "digest": "Digest"}
    print_table(rows, headings, "no evaluation is sealed yet")
    click.echo(f"head {report.head or '–'}")


@chain.command("verify")
@click.option("--head", default=None, metavar="DIGEST", help="A head of the chain that was published elsewhere.")
@json_option
def verify_chain(head: str | None) -> None:
    """Recompute every link; status 1 when the chain is broken."""
    _check_digest(head)
    with read_session(engine_of(settings_of())) as session:
        report = chains.check_chain(session, head)
        problems = report.problems + signature_problems(session)
    shown = {"head": report.head, "length": report.length, "ok": not problems, "problems": problems}
    if not print_document(shown) and not problems:
        click.echo(f"the chain is intact: {report.length} links, head {report.head or '–'}")
    for problem in problems:
        note(problem)
    if problems:
        sys.exit(1)


@chain.command("sign")
@json_option
def sign_chain() -> None:
    """Sign the head with the registry's key.

    A head that the key has signed already is not signed again. `shuffleboard publish`, exports, workers and beat sign
    as well, if there is a key. Others check it with `shuffleboard verify --public`.
    """
    settings = settings_of()
    with write_session(engine_of(settings)) as session:
        signed = sign_head(session, settings)
    if signed is None:
        raise UsageError("the chain is empty: nothing is sealed yet, so there is no head to sign")
    if print_document(signed.document()):
        return
    click.echo(f"head {signed.statement.head}")
    click.echo(f"signed at link {signed.statement.length}, {utc_text(signed.statement.at)}")
    click.echo(f"key {signed.statement.key}")


@chain.group("key")
def chain_key() -> None:
    """Make and show the key that signs the chain's head."""


@chain_key.command("new")
@click.option("--replace", is_flag=True, help="Replace the key; the old one is kept next to it under its name.")
@json_option
def new_chain_key(replace: bool) -> None:
    """Make a key, in a file that only its owner may read.

    The file is SHUFFLEBOARD_SIGNING_KEY, or chain-key.pem in the data directory. Keep it out of backups of the
    database: anyone with both can sign in your name. Signatures of a replaced key stay valid.
    """
    path = key_path(settings_of())
    fingerprint, moved = new_key(path, replace=replace)
    if print_document({"key": fingerprint, "file": str(path), "replaced": None if moved is None else str(moved)}):
        return
    click.echo(f"key {fingerprint}")
    if moved is not None:
        note(f"the replaced key is in {moved}; remove it when it is no longer needed")
    note(f"the private key is in {path}; show the public one: {propose('chain key show')}")


@chain_key.command("show")
@json_option
def show_chain_key() -> None:
    """Print the public key, for `shuffleboard verify --public`; its fingerprint on stderr."""
    public = read_key(key_path(settings_of())).public_key()
    if print_document({"key": statements.fingerprint(public), "public_key": statements.public_pem(public)}):
        return
    click.echo(statements.public_pem(public), nl=False)
    note(f"key {statements.fingerprint(public)}")


def link_row(link: ChainLink) -> dict[str, Any]:
    """Return a link as plain JSON, with everything that its digest covers."""
    return pick(link, chains.LINK)
