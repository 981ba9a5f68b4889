"""An audit's report for a GitHub workflow: annotations of files and lines, and a table for the run's summary.

Workflow commands: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from registry.logs.audit.catalogue import SEVERITIES, Finding
from registry.logs.audit.report import Report, percent
from registry.names import plural

_LEVELS: Final = {"error": "error", "warning": "warning", "note": "notice"}
_LINE: Final = re.compile(r"line (\d+)")


def annotations(report: Report, workspace: Path) -> Iterator[str]:
    """Yield a workflow command for each place of each finding. Paths in the workspace are relative to it.

    The annotation of a finding without lines is for its whole file; a finding about several logs has no file.
    """
    paths = {log.gathered.label: log.gathered.source.path for log in report.logs}
    paths |= {log.gathered.source.path.name: log.gathered.source.path for log in report.logs}
    for finding in report.findings:
        path = paths.get(finding.log)
        lines = [match[1] for place in finding.places if (match := _LINE.match(place))] if path is not None else []
        for line in lines or [""]:
            yield _format_command(finding, "" if path is None else _relative_path(path, workspace), line)


def _relative_path(path: Path, workspace: Path) -> str:
    resolved = path.resolve()
    return (resolved.relative_to(workspace) if resolved.is_relative_to(workspace) else path).as_posix()


def _format_command(finding: Finding, path: str, line: str) -> str:
    counted = f"{finding.count:,} of {finding.of:,}" if finding.of else ""
    text = ": ".join(part for part in (finding.log, counted, finding.detail) if part)
    facts = {"file": path, "line": line, "title": f"{finding.kind.id} {finding.kind.name}"}
    properties = ",".join(f"{name}={_escape(fact, ':,')}" for name, fact in facts.items() if fact)
    return f"::{_LEVELS[finding.severity]} {properties}::{_escape(f'{text} → {finding.kind.remedy}')}"


def _escape(text: str, more: str = "") -> str:
    """Return a text with the characters that end a command, and those in `more`, written as codes."""
    for sign in "%\r\n" + more:
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def summary(report: Report) -> str:
    """Return a summary in Markdown: the number of findings, a row for each log, and a row for each finding."""
    counts = ", ".join(plural(report.count(severity), severity) for severity in SEVERITIES)
    lines = [
        f"## Audit: {counts}",
        "",
        "| Log | Answers | Accuracy | 95 % interval | Stated |",
        "|---|---|---|---|---|",
    ]
    for log in report.logs:
        interval = "–" if log.interval is None else f"{log.interval[0]:.1%} to {log.interval[1]:.1%}"
        cells = (log.gathered.label, f"{log.answers:,}", percent(log.accuracy), interval, percent(log.stated))
        lines.append(f"| {' | '.join(map(_format_cell, cells))} |")
    if report.findings:
        lines += ["", "| Finding | Log | Detail | Remedy |", "|---|---|---|---|"]
    for finding in report.findings:
        columns = (
            f"{finding.severity} {finding.kind.id} {finding.kind.name}",
            finding.log,
            finding.detail or "; ".join(finding.places),
            finding.kind.remedy,
        )
        lines.append(f"| {' | '.join(map(_format_cell, columns))} |")
    return "\n".join(lines) + "\n\n"


def _format_cell(text: str) -> str:
    """Return a text as one line for a cell of a Markdown table, with markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))
