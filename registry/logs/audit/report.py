"""Reports of audits: for people, for programs and for CI."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.errors import IngestError
from registry.files.documents import as_written
from registry.logs.audit.across import Compared, compare
from registry.logs.audit.catalogue import KINDS, SEVERITIES, Finding, Severity
from registry.logs.audit.checks import Checked, check
from registry.logs.audit.gathered import PLACES, SECONDS, Gathered, Questions
from registry.logs.audit.readers import READ_FORMATS, files_of, sources_of
from registry.logs.files import AGAIN, lines_of, reading
from registry.logs.format import QUESTIONS
from registry.logs.recognition import form_of_line
from registry.logs.record import Known
from registry.names import plural
from registry.prompting.labels import letter

WIDTH = 80
SHOWN_LOGS = 12
DETAILED = 3
"""Up to this many logs, each has a paragraph in the summary; more have a line each."""


@dataclass
class Report:
    """The result of an audit.

    logs: the logs that were read, with their results. findings: the gravest first. compared: groups of logs of one
    task.
    """

    logs: list[Checked]
    findings: list[Finding]
    compared: list[Compared] = field(default_factory=list)

    def worst(self) -> Severity | None:
        """Return the gravest severity found; None if nothing was found."""
        return next((severity for severity in SEVERITIES if self.count(severity)), None)

    def count(self, severity: Severity) -> int:
        """Return how many findings have this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def fails(self, level: str) -> bool:
        """Return whether there is a finding of `level` (error, warning or note) or graver; False for "never"."""
        return level != "never" and any(self.count(severity) for severity in SEVERITIES[: SEVERITIES.index(level) + 1])

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "logs": [log.document() for log in self.logs],
            "findings": [finding.document() for finding in self.findings],
            "comparisons": [group.document() for group in self.compared],
        }

    def text(self, width: int = WIDTH) -> str:
        """Return a summary in lines of at most `width` characters, with unprintable characters replaced."""
        return "\n".join(
            "".join(c if c.isprintable() else "\ufffd" for c in line) for line in self._format_lines(width)
        )

    def _format_lines(self, width: int) -> Iterator[str]:
        counts = ", ".join(plural(self.count(severity), severity) for severity in SEVERITIES)
        answers = plural(sum(log.answers for log in self.logs), "answer")
        yield f"{plural(len(self.logs), 'log')}, {answers}: {counts}"
        seen: dict[str, list[Finding]] = {}
        for finding in self.findings:
            seen.setdefault(finding.kind.name, []).append(finding)
        for severity in SEVERITIES:
            for name, findings in seen.items():
                graver = [finding for finding in findings if finding.severity == severity]
                if graver:
                    yield from _format_finding(name, graver, width)
        if len(self.logs) <= DETAILED:
            for log in self.logs:
                yield from self._format_log(log, width)
        else:
            yield from self._format_table(width)
        for group in self.compared:
            yield from _format_ranking(group, width)

    def _format_table(self, width: int) -> Iterator[str]:
        room = width - 47
        yield ""
        yield f"{'log':{room}} {'answers':>8} accuracy  95 % interval  stated  read"
        names = cut_apart([log.gathered.label for log in self.logs], room)
        for name, log in zip(names, self.logs[:SHOWN_LOGS], strict=False):
            has_accuracy = log.accuracy is not None and log.interval is not None
            accuracy = f"{log.accuracy:7.1%}" if has_accuracy else "      –"
            interval = f"{log.interval[0]:.0%} to {log.interval[1]:.0%}" if log.interval is not None else "–"
            stated = "–" if log.stated is None else f"{log.stated:.1%}"
            read_share = f"{log.states['answered'] / log.answers:.0%}" if log.answers else "–"
            yield f"{name:{room}} {log.answers:8,} {accuracy}  {interval:>13}  {stated:>6}  {read_share:>4}"
        if len(self.logs) > SHOWN_LOGS:
            yield f"… and {len(self.logs) - SHOWN_LOGS} more; --json and --html have all of them"

    def _format_log(self, log: Checked, width: int) -> Iterator[str]:
        yield ""
        yield _shorten_end(f"{log.gathered.label}", width)
        if log.gathered.source.format == QUESTIONS:
            yield f"  {plural(log.questions, 'question')} without answers: only the questions were checked"
            return
        if log.accuracy is None or log.interval is None or log.chance is None:
            yield f"  {log.answers:,} answers, none with a key to score it by"
            return
        parts = [f"  accuracy {log.accuracy:.1%} [{log.interval[0]:.1%}, {log.interval[1]:.1%}]"]
        parts.append("stated –" if log.stated is None else f"stated {log.stated:.1%}")
        parts.append(f"guessing {log.chance:.1%}")
        if log.letter is not None:
            parts.append(f"always {log.letter[0]} {log.letter[1]:.1%}")
        yield _shorten_end("  ".join(parts), width)
        total = max(1, log.answers)
        states = ", ".join(f"{name} {count / total:.1%}" for name, count in log.states.items() if count)
        yield _shorten_end(f"  {plural(log.answers, 'answer')} to {plural(log.questions, 'question')}: {states}", width)
        if log.rules:
            flips = ", ".join(
                f"{name} {counts['otherwise'] / max(1, log.read_again):.1%}" for name, counts in log.rules.items()
            )
            yield _shorten_end(f"  other rules differ: {flips}", width)
        if sum(log.chosen):
            halves = f"  chosen {_format_shares(log.chosen)}", f"keys {_format_shares(log.keys)}"
            line = "   ".join(halves)
            yield from [line] if len(line) <= width else (halves[0], f"    {halves[1]}")
        if log.orders is not None and log.orders.metrics:
            values = {name: percent(value) for name, value in log.orders.metrics.items()}
            yield (
                f"  up to {log.orders.orders} orders: average accuracy {values['average_accuracy']}, "
                f"right in two {values['right_twice_across_orders']}, order loss {values['order_loss']}"
            )
            yield f"    worst accuracy {values['worst_accuracy']}, fluctuation rate {values['fluctuation_rate']}"


def percent(value: float | None) -> str:
    """Format a share in percent, with one decimal."""
    return "–" if value is None else f"{value:.1%}"


def _format_shares(counts: Sequence[int]) -> str:
    total = max(1, sum(counts))
    return " ".join(f"{letter(at)} {count / total:.0%}" for at, count in enumerate(counts[:11]))


def _shorten_end(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _shorten_middle(name: str, width: int) -> str:
    """Shorten a name in the middle: its end often distinguishes it."""
    return name if len(name) <= width else f"{name[: width - width // 2 - 1]}…{name[-(width // 2) :]}"


def cut_apart(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to at most `width` characters so that different names stay different.

    Names that would be cut to the same text keep the part in which they differ.
    """
    cut = [_shorten_middle(name, width) for name in names]
    groups: dict[str, set[str]] = {}
    for name, short in zip(names, cut, strict=True):
        groups.setdefault(short, set()).add(name)
    return [
        short if len(groups[short]) == 1 else _shorten_start(name, _common_length([*groups[short]]) - width // 4, width)
        for name, short in zip(names, cut, strict=True)
    ]


def _common_length(names: Sequence[str]) -> int:
    """Return the length of the names' longest common beginning."""
    different = (at for at, each in enumerate(zip(*names, strict=False)) if len(set(each)) > 1)
    return next(different, min(map(len, names)))


def _shorten_start(name: str, start: int, width: int) -> str:
    return _shorten_end(name if start <= 0 else f"…{name[start:]}", width)


def _format_ranking(group: Compared, width: int) -> Iterator[str]:
    yield ""
    yield f"{len(group.logs)} logs over the same {group.questions:,} questions"
    ranked = sorted(range(len(group.logs)), key=lambda at: -group.accuracies[at])
    if group.ranks:
        names = cut_apart(group.logs, width - 26)
        for at in ranked[:SHOWN_LOGS]:
            low, high = group.ranks[at]
            rank = f"rank {low}" if low == high else f"rank {low} to {high}"
            yield f"  {group.accuracies[at]:6.1%}  {rank:14} {names[at]}"
        return
    for pair in group.pairs:
        between = "" if pair.interval is None else f" [{100 * pair.interval[0]:+.1f}, {100 * pair.interval[1]:+.1f}]"
        seen = "" if pair.seen is None else f"; {100 * pair.seen:.1f} points could be seen"
        yield _shorten_end(
            f"  difference {100 * pair.difference:+.1f} points{between}, {_format_p_value(pair.p_value)}{seen}", width
        )
        yield f"  only the first right {pair.only_first}, only the second {pair.only_second}"


def _format_p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _format_finding(name: str, findings: Sequence[Finding], width: int) -> Iterator[str]:
    kind = KINDS[name]
    yield ""
    severity = findings[0].severity
    logs = "" if len(findings) == 1 else f" in {len(findings)} logs"
    yield _shorten_end(f"{severity.upper()} {kind.id} {name}{logs}", width)
    for finding in findings[:3]:
        counted = f"{finding.count:,} of {finding.of:,}" if finding.of else ""
        yield from _wrap(": ".join(part for part in (finding.log, counted, finding.detail) if part), width, "  ")
        if len(finding.places) > PLACES:
            for place in finding.places:
                yield from textwrap.wrap(place, width, initial_indent="    ", subsequent_indent="      ")
        elif finding.places:
            yield from _wrap(f"at {'; '.join(finding.places)}", width, "    ")
    if len(findings) > 3:
        yield f"  … and {len(findings) - 3} more"
    yield from _wrap(f"→ {kind.remedy}", width, "  ")


def _wrap(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent + "  ", max_lines=3, placeholder=" …"
    )


def audit(
    paths: Sequence[Path | str],
    tell: Callable[[str], None] = lambda _: None,
    places: int = PLACES,
    seconds: float = SECONDS,
) -> Report:
    """Read the logs at `paths`, files or folders, and return a report of their faults. Nothing is written.

    places: how many places are listed for a finding. seconds: the time limit for reading each log; its rest is left
    out, and the report says so.

    Files of questions among them provide texts and keys for logs that have none. Raises IngestError for a path that
    does not exist or has no log; a damaged log among others is a finding.
    """
    known: Known = {}
    questions = Questions()
    gathered_logs: list[Gathered] = []
    unread: list[tuple[Path, str]] = []
    files: list[tuple[Path, bool]] = []
    for path in map(Path, paths):
        files += [(file, not path.is_dir()) for file in files_of(path)]
    files.sort(key=lambda item: not _contains_questions(item[0]))
    for file, is_named in files:
        tell(str(file))
        try:
            with as_written(file.name, AGAIN), reading(file):
                sources = sources_of(file, known)
        except IngestError as error:
            unread.append((file, str(error)))
            continue
        if not sources and is_named:
            message = f"{file}: is in no format that is read; {READ_FORMATS}"
            raise IngestError(message)
        for source in sources:
            gathered = Gathered(source, questions, places, seconds).read()
            if len(gathered) or gathered.counts:
                gathered_logs.append(gathered)
    if not gathered_logs and not unread:
        listed = ", ".join(map(str, paths))
        message = f"{listed}: holds no log; {READ_FORMATS}"
        raise IngestError(message)
    _distinguish_labels(gathered_logs)
    checked = [check(gathered) for gathered in gathered_logs]
    compared, between = compare([log for log in checked if log.gathered.source.format != QUESTIONS])
    findings = [finding for log in checked for finding in log.findings] + between
    remarks = {remark for gathered in gathered_logs for remark in gathered.source.remarks}
    findings += [
        Finding(KINDS["unreadable-file"], file.name, reason.removeprefix(f"{file.name}: ").removesuffix(f"; {AGAIN}"))
        for file, reason in unread
        if reason not in remarks
    ]
    findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.kind.id))
    return Report(checked, findings, compared)


def _distinguish_labels(logs: Sequence[Gathered]) -> None:
    """Add paths or numbers to the labels of logs with the same model and task, so that labels differ."""
    logs_by_label: dict[str, list[Gathered]] = {}
    for log in logs:
        logs_by_label.setdefault(log.label, []).append(log)
    for group in logs_by_label.values():
        parts = [log.source.path.parts for log in group]
        start = next((at for at, each in enumerate(zip(*parts, strict=False)) if len(set(each)) > 1), 0)
        for number, log in enumerate(group, start=1):
            if len(group) > 1:
                log.apart = "/".join(parts[number - 1][start:]) if len(set(parts)) == len(parts) else str(number)


def _contains_questions(file: Path) -> bool:
    """Return whether a file contains only questions, so that it is read before the logs that need them."""
    if not file.name.endswith((".jsonl", ".jsonl.gz")):
        return False
    try:
        with reading(file):
            _, first = next(lines_of(file), (0, "")) if file.is_file() else (0, "")
    except IngestError:
        return False
    return isinstance(first, dict) and form_of_line(first) == QUESTIONS
