"""`shuffleboard doctor`."""

import sys
from collections import Counter

import click

from registry.db import get_engine
from shuffleboard.cli.common import json_option, print_json, settings_of, wants_json

MARKS = {"ok": "ok", "warning": "WARNING", "problem": "PROBLEM"}


@click.command()
@click.option(
    "--free-gib",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Less free disk space than this is a problem; less than five times as much, a warning.",
)
@json_option
def doctor(free_gib: float) -> None:
    """Check the deployment that this process is configured for and suggest fixes; status 1 when there is a problem.

    Database, schema, triggers, views, rights; broker and clocks; workers, queues, leases and seals; models' files,
    endpoints, disks, keys, accelerator and single sign-on. Nothing is changed. Run it on every host, with the settings
    of the processes there.
    """
    from registry.code_identity import code_version
    from registry.operations.doctor import CHECKS, Context, Limits, examine
    from web.formats import plural
    from web.who.doctor import CHECKS as OF_THE_WEBSITE

    settings = settings_of()
    engine = get_engine(settings.resolve_database_url())
    version = code_version()
    context = Context(settings, engine, version, Limits(free_bytes=int(free_gib * 2**30)))
    findings = []
    for finding in examine(context, (*CHECKS, *OF_THE_WEBSITE)):
        findings.append(finding)
        if not wants_json():
            click.echo(f"{MARKS[finding.status]:8} {finding.name:15} {finding.found}")
            if finding.remedy:
                click.echo(f"{'':24} → {finding.remedy}")
    counts = Counter(finding.status for finding in findings)
    if wants_json():
        checks = [
            {"name": item.name, "status": item.status, "found": item.found, "remedy": item.remedy} for item in findings
        ]
        print_json({"ok": not counts["problem"], "code_version": version, "checks": checks})
    else:
        summary = ", ".join(plural(counts[status], status) for status in ("problem", "warning"))
        click.echo(f"{summary}, {counts['ok']} in order")
    if counts["problem"]:
        sys.exit(1)
