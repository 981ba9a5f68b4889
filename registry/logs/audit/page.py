"""The report of an audit as one HTML page without scripts or external resources.

Its charts use the site's marks: a dot at accuracy with its interval, a light span from worst to best order, a tick at
the accuracy of guessing, a grey end piece for unread answers.
"""

from collections.abc import Iterator, Sequence
from html import escape

from registry.logs.audit.across import Compared
from registry.logs.audit.catalogue import SEVERITIES, Finding
from registry.logs.audit.checks import Checked
from registry.logs.audit.report import Report, percent
from registry.logs.format import QUESTIONS
from registry.prompting.labels import letter

_STYLE = """
:root { color-scheme: light dark; --ground: light-dark(#fbfbfa, #12151a); --panel: light-dark(#fff, #191e25);
  --ink: light-dark(#171a1f, #e7eaef); --quiet: light-dark(#5a6270, #a2abb9); --line: light-dark(#dfe2e7, #303845);
  --kept: light-dark(#1d4f91, #6ea4ea); --lost: light-dark(#d9691e, #f0914b); --mass: light-dark(#6b7fa3, #8297bb);
  --bad: light-dark(#b3261e, #ff8f85); --good: light-dark(#17703d, #6fcf97); }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 70rem; padding: 1.5rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } h3 { font-size: 1rem; margin: 0 0 .3rem }
section, .table { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; margin: 1rem 0;
  padding: .8rem 1rem; overflow-x: auto }
table { border-collapse: collapse; width: 100% } th { color: var(--quiet); font-weight: 500; text-align: left }
th, td { padding: .25rem .6rem .25rem 0; vertical-align: middle } td.n { font-variant-numeric: tabular-nums }
.error { border-left: 4px solid var(--bad) } .warning { border-left: 4px solid var(--lost) }
.note { border-left: 4px solid var(--line) } .quiet, figcaption { color: var(--quiet) } p { margin: .3rem 0 }
svg { display: block; max-width: 100% } code { overflow-wrap: anywhere } figure { margin: .5rem 0 }
.bars { display: flex; flex-wrap: wrap; gap: 1rem 2rem }
@media print { section { break-inside: avoid } }
"""
_WIDTH = 280


def page_of(report: Report) -> str:
    """Return the report as an HTML page."""
    return "\n".join(_render_page(report))


def _render_page(report: Report) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Audit of logs</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>'
    yield "<h1>Audit of logs</h1>"
    counts = ", ".join(f"{report.count(severity)} {severity}s" for severity in SEVERITIES)
    answers = sum(log.answers for log in report.logs)
    yield f"<p>{len(report.logs)} logs, {answers:,} answers: {counts}.</p>"
    logs = [log for log in report.logs if log.gathered.source.format != QUESTIONS]
    yield "<h2>Findings</h2>"
    if not report.findings:
        yield "<p>None.</p>"
    for finding in report.findings:
        yield from _render_finding(finding)
    if logs:
        yield "<h2>Logs</h2>"
        yield from _render_table(logs)
    for group in report.compared:
        yield from _render_comparison(group)
    yield "<h2>Positions</h2>"
    for log in logs:
        if sum(log.keys) or sum(log.chosen):
            yield f'<section><h3>{escape(log.gathered.label)}</h3><div class="bars">'
            yield _render_bars("The right option stands at", log.keys)
            yield _render_bars("The model chooses", log.chosen)
            yield "</div></section>"
    yield "</body>\n</html>\n"


def _render_table(logs: Sequence[Checked]) -> Iterator[str]:
    yield '<div class="table"><table><thead><tr><th>Log</th><th>Answers</th><th>Accuracy</th><th>95 % interval</th>'
    yield "<th>Stated</th><th>Guessing</th><th>Read</th><th>Accuracy from 0 to 100 %</th></tr></thead><tbody>"
    for log in logs:
        between = "–" if log.interval is None else f"{log.interval[0]:.1%} to {log.interval[1]:.1%}"
        read = log.states["answered"] / log.answers if log.answers else None
        cells = (
            f"{log.answers:,}",
            percent(log.accuracy),
            between,
            percent(log.stated),
            percent(log.chance),
            percent(read),
        )
        written = escape(log.gathered.source.format)
        yield f"<tr><td>{escape(log.gathered.label)}<br><span class=quiet>{written}</span></td>"
        yield "".join(f'<td class="n">{cell}</td>' for cell in cells) + f"<td>{_render_span(log)}</td></tr>"
    yield "</tbody></table><p class=quiet>Dot: accuracy, with its interval. Light span: from worst to best order, "
    yield "where several were asked. Tick: guessing. Grey: answers that could not be read.</p></div>"


def _render_span(log: Checked) -> str:
    if log.accuracy is None or log.interval is None:
        return ""
    x = float(_WIDTH)
    marks = [f'<line x1="0" x2="{_WIDTH}" y1="12" y2="12" stroke="var(--line)"/>']
    description = f"Accuracy {log.accuracy:.1%}, interval {log.interval[0]:.1%} to {log.interval[1]:.1%}."
    unread = 1 - log.states["answered"] / log.answers
    if unread > 0:
        marks.append(
            f'<rect x="{x * (1 - unread):.1f}" y="6" width="{x * unread:.1f}" height="12" fill="var(--line)"/>'
        )
        description += f" {unread:.1%} could not be read."
    metrics = {} if log.orders is None else log.orders.metrics
    worst, best = metrics.get("worst_accuracy"), metrics.get("best_accuracy")
    if worst is not None and best is not None:
        marks.append(
            f'<rect x="{x * worst:.1f}" y="7" width="{x * (best - worst):.1f}" height="10" fill="var(--lost)" '
            'opacity=".35"/>'
        )
        description += f" Worst order {worst:.1%}, best order {best:.1%}."
    low, high = log.interval
    marks.append(
        f'<line x1="{x * low:.1f}" x2="{x * high:.1f}" y1="12" y2="12" stroke="var(--mass)" stroke-width="4"/>'
    )
    marks.append(f'<circle cx="{x * log.accuracy:.1f}" cy="12" r="5" fill="var(--kept)"/>')
    if log.chance is not None:
        at = f"{x * log.chance:.1f}"
        marks.append(f'<line x1="{at}" x2="{at}" y1="2" y2="22" stroke="var(--quiet)" stroke-dasharray="2 2"/>')
        description += f" Guessing {log.chance:.1%}."
    return (
        f'<svg role="img" aria-label="{description}" width="{_WIDTH}" height="24" viewBox="0 0 {_WIDTH} 24">'
        f"<title>{description}</title>{''.join(marks)}</svg>"
    )


def _render_bars(caption: str, counts: Sequence[int]) -> str:
    total = sum(counts)
    if not total:
        return ""
    rows = []
    for at, count in enumerate(counts):
        share, y = count / total, 18 * at
        rows.append(
            f'<text x="0" y="{y + 13}" fill="currentColor" font-size="12">{letter(at)}</text>'
            f'<rect x="20" y="{y + 3}" width="{180 * share:.1f}" height="12" fill="var(--kept)"/>'
            f'<text x="{24 + 180 * share:.1f}" y="{y + 13}" fill="var(--quiet)" font-size="12">{share:.1%}</text>'
        )
    listed = ", ".join(f"{letter(at)} {count / total:.1%}" for at, count in enumerate(counts))
    height = 18 * len(counts)
    return (
        f'<figure><figcaption>{caption}</figcaption><svg role="img" aria-label="{caption}: {listed}" width="260" '
        f'height="{height}" viewBox="0 0 260 {height}">{"".join(rows)}</svg></figure>'
    )


def _render_comparison(group: Compared) -> Iterator[str]:
    yield f"<h2>{len(group.logs)} logs over the same {group.questions:,} questions</h2>"
    yield '<div class="table"><table><thead><tr><th>Log</th><th>Accuracy</th><th>Rank, 95 % for all at once</th></tr>'
    yield "</thead><tbody>"
    for at in sorted(range(len(group.logs)), key=lambda at: -group.accuracies[at]):
        rank = "" if not group.ranks else " to ".join(dict.fromkeys(map(str, group.ranks[at])))
        yield f'<tr><td>{escape(group.logs[at])}</td><td class="n">{group.accuracies[at]:.1%}</td>'
        yield f'<td class="n">{rank}</td></tr>'
    yield "</tbody></table></div>"
    if group.pairs:
        yield '<div class="table"><table><thead><tr><th>Two logs</th><th>Difference, points</th><th>95 % interval</th>'
        yield "<th>McNemar mid-p</th><th>Could be seen</th><th>Right in only one</th></tr></thead><tbody>"
        for pair in group.pairs[:60]:
            between = (
                "–" if pair.interval is None else f"{100 * pair.interval[0]:+.1f} to {100 * pair.interval[1]:+.1f}"
            )
            seen = "–" if pair.seen is None else f"{100 * pair.seen:.1f}"
            only = f"{pair.only_first} and {pair.only_second}"
            cells = (f"{100 * pair.difference:+.1f}", between, f"{pair.p_value:.3f}", seen, only)
            yield f"<tr><td>{escape(pair.first)}<br>{escape(pair.second)}</td>"
            yield "".join(f'<td class="n">{cell}</td>' for cell in cells) + "</tr>"
        yield "</tbody></table></div>"


def _render_finding(finding: Finding) -> Iterator[str]:
    kind = finding.kind
    yield f'<section class="{kind.severity}"><h3>{kind.id} {kind.name} <span class=quiet>{kind.severity}</span></h3>'
    counted = f"{finding.count:,} of {finding.of:,}" if finding.of else ""
    detail = ": ".join(part for part in (finding.log, counted, finding.detail) if part)
    yield f"<p>{escape(kind.when)}</p><p><strong>{escape(detail)}</strong></p>"
    if finding.places:
        yield f"<p>At <code>{escape('; '.join(finding.places))}</code></p>"
    yield f"<p>{escape(kind.remedy)}</p></section>"
