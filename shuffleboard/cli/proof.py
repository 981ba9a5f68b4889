"""`shuffleboard provenance`, `verify`, `chain` and `drift`."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from registry.db import read_session
from registry.digests import DIGEST_LENGTH
from registry.errors import UsageError
from registry.metrics import METRICS
from registry.proof import chain as chains
from registry.proof.provenance import GROUPS, compare_provenance, provenance_document
from registry.tables import ChainLink
from shuffleboard.cli.common import engine_of, json_option, note, print_json, settings_of
from shuffleboard.cli.tables import print_table, show, table_options

FLIPS_SHOWN = 20


@click.command()
@click.argument("evaluation_id", type=int)
@click.argument("other_id", type=int, required=False)
@json_option
def provenance(evaluation_id: int, other_id: int | None, as_json: bool) -> None:
    """Show where an evaluation's numbers come from, or how they differ from another's.

    With one id: specification, files, prompts, seeds, engines, workers, copies, seal, its place in the chain. With two:
    every fact that differs between them, by group, and how many are the same.
    """
    with read_session(engine_of(settings_of())) as session:
        document = provenance_document(session, evaluation_id)
        difference = None
        if other_id is not None:
            difference = compare_provenance(document, provenance_document(session, other_id))
    if as_json:
        print_json(document if difference is None else difference)
    elif difference is None:
        _print_provenance(document)
    else:
        _print_difference(difference)


def _print_provenance(document: Mapping[str, Any]) -> None:
    if document["mixed_engines"]:
        note(f"mixed engines: its shards were scored by {len(document['engine_fingerprints'])} different engines")
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
                click.echo(f"  {name.replace('_', ' '):22} {_shown(item)}")
        else:
            click.echo(f"{key.replace('_', ' '):24} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=str) if value else "–"
    return show(value)


def _print_difference(document: Mapping[str, Any]) -> None:
    one, other = document["evaluations"]
    for group, heading in GROUPS.items():
        facts = document["different"].get(group, {})
        for key, values in facts.items():
            click.echo(f"{heading + ':' if key == next(iter(facts)) else ''}".ljust(1) + f"\n  {key}")
            click.echo(f"    {one}: {_shown(values[0])}\n    {other}: {_shown(values[1])}")
    same = {GROUPS[group]: len(facts) for group, facts in document["same"].items()}
    click.echo("The same: " + ", ".join(f"{heading} ({count})" for heading, count in same.items()))


def _check_digest(digest: str | None) -> None:
    if digest is not None and (len(digest) != DIGEST_LENGTH or set(digest) - set("0123456789abcdef")):
        raise UsageError(f"head {digest[:80]!r}: give the {DIGEST_LENGTH} hexadecimal digits that were published")


@click.command()
@click.argument("evaluation_id", type=int, required=False)
@click.option("--all", "everything", is_flag=True, help="Every sealed evaluation, every snapshot, the whole chain.")
@click.option("--head", default=None, metavar="DIGEST", help="A head of the chain that was published elsewhere.")
@click.option(
    "--rescore", type=click.IntRange(min=1), default=None, help="Score this many prompts again, drawn at random."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which prompts --rescore draws.")
@json_option
def verify(
    evaluation_id: int | None, everything: bool, head: str | None, rescore: int | None, seed: int, as_json: bool
) -> None:
    """Recompute what is stored of a sealed evaluation; status 1 when anything differs.

    Prompts, leaf digests, seal, question scores, PriDe, metrics with their intervals, analyses, copies, snapshots, and
    the chain. Every difference is reported with its evaluation and question. --rescore gives the model some of the
    prompts again and reports how much the probabilities differ.
    """
    from registry.verification import verify_all, verify_evaluation

    if (evaluation_id is None) != everything:
        raise UsageError("give the id of an evaluation, or --all")
    if everything and rescore is not None:
        raise UsageError("--rescore is for one evaluation; leave out --all")
    _check_digest(head)
    settings = settings_of()
    engine = engine_of(settings, create=False)  # an empty file may be what is left of a registry
    with read_session(engine) as session:
        if evaluation_id is None:
            document = verify_all(session, head=head)
        else:
            document = verify_evaluation(session, evaluation_id, head=head)
    if rescore is not None:
        from registry.verification.rescoring import rescore_evaluation
        from workers import rescoring

        assert evaluation_id is not None
        document["rescored"] = rescore_evaluation(engine, settings, evaluation_id, rescore, seed, rescoring)
        document["ok"] = document["ok"] and document["rescored"]["ok"]
    if as_json:
        print_json(document)
    _say(document, evaluation_id, quiet=as_json)
    if not document["ok"]:
        sys.exit(1)


def _say(document: Mapping[str, Any], evaluation_id: int | None, *, quiet: bool) -> None:
    """Problems on stderr; successes on stdout, unless that holds the document."""
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


@click.command()
@click.argument("action", type=click.Choice(("list", "verify")), default="list")
@click.option("--head", default=None, metavar="DIGEST", help="A head that was published elsewhere; goes with verify.")
@table_options
@json_option
def chain(action: str, head: str | None, as_json: bool) -> None:
    """List the chain of seals, withdrawals and snapshots, or verify it; status 1 when it is broken.

    The digest of the last link, its head, covers all of it. Publish it now and then: anyone who can write the database
    could compute a new chain, but not one that still contains a published head.
    """
    _check_digest(head)
    if action == "list" and head is not None:
        raise UsageError("--head goes with: shuffleboard chain verify")
    with read_session(engine_of(settings_of())) as session:
        report = chains.check_chain(session, head)
        document: dict[str, Any] = {"head": report.head, "length": report.length}
        if action == "list":
            document["links"] = [link_row(link) for link in chains.links(session)]
        else:
            document |= {"ok": not report.problems, "problems": report.problems}
    if as_json:
        print_json(document)
    elif action == "list":
        headings = {"position": "Place", "at": "At", "kind": "Kind", "subject": "About", "digest": "Digest"}
        print_table(document["links"], headings, "no evaluation is sealed yet")
        click.echo(f"head {report.head or '–'}")
    elif not report.problems:
        click.echo(f"the chain is intact: {report.length} links, head {report.head or '–'}")
    if action == "verify":
        for problem in report.problems:
            note(problem)
        if report.problems:
            sys.exit(1)


def link_row(link: ChainLink) -> dict[str, Any]:
    """A link as plain JSON, with everything its digest covers."""
    return {
        "position": link.position,
        "kind": link.kind,
        "subject": link.subject,
        "labels": link.labels,
        "at": link.at,
        "previous": link.previous,
        "digest": link.digest,
    }


@click.command()
@click.argument("evaluation_id", type=int)
@click.argument("other_id", type=int)
@table_options
@json_option
def drift(evaluation_id: int, other_id: int, as_json: bool) -> None:
    """Show what changed between two evaluations of the same prompts on the same model.

    Replicates, or two revisions of a model such as two precisions: answers that flipped, the largest change in a
    probability, the effect on every metric, and which parts of the engines' fingerprints differ.
    """
    from registry.studies.drift import drift_document

    with read_session(engine_of(settings_of())) as session:
        document = drift_document(session, evaluation_id, other_id)
    if as_json:
        print_json(document)
        return
    click.echo(
        f"{document['flipped']} of {document['prompts']} answers differ; largest change in a probability "
        f"{show(document['largest_change'])}"
    )
    for fact, values in document["engine"].items():
        click.echo(f"  {fact}: {_shown(values[0])} → {_shown(values[1])}")
    changed = [row for row in document["metrics"] if row["change"]]
    rows = [row | {"label": METRICS[row["metric"]].label} for row in changed]
    headings = {"label": "Metric", "one": str(evaluation_id), "other": str(other_id), "change": "Change"}
    print_table(rows, headings, "no metric changes")
    for flip in document["flips"][:FLIPS_SHOWN]:
        click.echo(
            f"question {flip['external_id']}, variant {flip['variant']}: option {show(flip['one'])} → "
            f"{show(flip['other'])}"
        )
    if document["flipped"] > FLIPS_SHOWN:
        note(f"{document['flipped'] - FLIPS_SHOWN} more answers differ; --json lists them")
