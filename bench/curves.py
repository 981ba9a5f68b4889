"""Shows the measurements of `bench_db --json FILE`: `python -m bench.curves FILE PICTURE.svg`.

Prints the tables of docs/evidence/performance.md and draws its picture.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from bench.generate_predictions import Kind

WIDTH, HEIGHT, GAP = 250, 150, 70
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73")
"""Colours that colour-blind readers can distinguish."""

Points = Sequence[tuple[float, float]]


def panels(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Points]]:
    """Map title → name of a line → points (millions of predictions, value)."""

    def points_of(value: Any) -> Points:
        return [(measurement["predictions"] / 1e6, value(measurement)) for measurement in found]

    def table(one: Mapping[str, Any]) -> Any:
        return next(row for row in one["tables"] if row["name"] == "prediction")

    def points_of_import(part: str) -> Points:
        return points_of(lambda one: 1e6 * one["imported"]["copying"][part] / one["imported"]["predictions"])

    return {
        "bytes per prediction": {
            "database": points_of(lambda one: one["bytes"] / one["predictions"]),
            "its table": points_of(lambda one: table(one)["rows"] / one["predictions"]),
            "its indexes": points_of(lambda one: table(one)["indexes"] / one["predictions"]),
        },
        "import, µs of CPU per prediction": {
            "server": points_of_import("server"),
            "client": points_of_import("client"),
        },
        "page, ms of CPU": {
            name: points_of(lambda one, n=name: one["pages"][n][3]) for name in ("leaderboard", "board")
        },
    }


def svg(found: Sequence[Mapping[str, Any]]) -> str:
    """Draw the panels next to each other; every axis begins at zero."""
    drawn = [_panel(title, of_panel) for title, of_panel in panels(found).items()]
    width = GAP // 2 + len(drawn) * (WIDTH + GAP)
    parts = [
        f'<g transform="translate({GAP // 2 + 10 + n * (WIDTH + GAP)} 30)">{panel}</g>' for n, panel in enumerate(drawn)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + 90}" font-family="sans-serif" '
        f'font-size="11" role="img"><title>{escape(", ".join(panels(found)))} against millions of predictions</title>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _panel(title: str, of_panel: Mapping[str, Points]) -> str:
    points = [point for line in of_panel.values() for point in line]
    right, top = (max(point[axis] for point in points) or 1 for axis in (0, 1))

    def place(point: tuple[float, float]) -> str:
        return f"{WIDTH * point[0] / right:.1f},{HEIGHT - HEIGHT * point[1] / (1.1 * top):.1f}"

    parts = [f'<text y="-12" font-weight="bold">{escape(title)}</text>']
    for value in (0, top / 2, top):
        y = place((0, value)).split(",")[1]
        parts.append(
            f'<path d="M0 {y}H{WIDTH}" stroke="#ddd"/><text x="-6" y="{y}" dy="4" text-anchor="end">{value:.3g}</text>'
        )
    for millions in sorted({point[0] for point in points}):
        x = place((millions, 0)).split(",")[0]
        if 0 < millions < right / 15:
            continue  # its number would overlap its neighbour's
        parts.append(f'<text x="{x}" y="{HEIGHT + 14}" text-anchor="middle">{millions:.0f}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT + 28}" text-anchor="middle">millions of predictions</text>')
    for number, ((name, line), colour) in enumerate(zip(of_panel.items(), COLOURS, strict=False)):
        spots = "".join('<circle cx="{}" cy="{}" r="2.5"/>'.format(*place(point).split(",")) for point in line)
        joined = " ".join(map(place, line))
        parts.append(f'<g fill="{colour}"><polyline points="{joined}" fill="none" stroke="{colour}"/>{spots}')
        parts.append(f'<text x="{number * WIDTH // 3}" y="{HEIGHT + 46}">● {escape(name)}</text></g>')
    return "".join(parts)


def tables(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the tables: size and import, sealing, pages; a row for each size, kind or page."""
    yield (
        "| predictions | evaluations | database, bytes per prediction | its rows | its indexes | import, predictions/s "
        "| server, µs | client, µs | with question scores and statistics, predictions/s |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for measurement in found:
        n, imported = measurement["predictions"], measurement["imported"]
        copied, copying = imported["predictions"], imported["copying"]
        wall = copying["wall"] + imported["scoring"]["wall"] + imported["statistics"]["wall"]
        own = next(row for row in measurement["tables"] if row["name"] == "prediction")
        yield (
            f"| {n:,} | {measurement['evaluations']:,} | {measurement['bytes'] / n:.0f} | {own['rows'] / n:.0f} | {own['indexes'] / n:.0f} "
            f"| {copied / copying['wall']:,.0f} | {1e6 * copying['server'] / copied:.1f} "
            f"| {1e6 * copying['client'] / copied:.1f} | {copied / wall:,.0f} |"
        )
    heads = [f"{entry['predictions'] / 1e6:.0f} million" for entry in found]
    yield f"\n| sealed, s of CPU (of the wall) | predictions | {' | '.join(heads)} |"
    yield "|---|---|" + "---|" * len(found)
    kinds = {(item["kind"]["benchmark"], item["kind"]["variants"]): Kind(**item["kind"]) for item in found[0]["sealed"]}
    for name, kind in sorted(kinds.items(), key=lambda item: item[1].predictions):
        cells = [_sealing(entry, name) for entry in found]
        yield f"| {kind.benchmark}, `{kind.variants}` | {kind.predictions:,} | {' | '.join(cells)} |"
    yield f"\n| page, ms: median of the wall (CPU) | {' | '.join(heads)} |"
    yield "|---|" + "---|" * len(found)
    for page in found[0]["pages"]:
        cells = [f"{entry['pages'][page][0]:.0f} ({entry['pages'][page][3]:.0f})" for entry in found]
        yield f"| {page} | {' | '.join(cells)} |"


def _sealing(one: Mapping[str, Any], name: tuple[str, str]) -> str:
    """Return the sealing time of a kind's last evaluation that was sealed at a size; empty if there was none."""
    of_kind = [s["spent"] for s in one["sealed"] if (s["kind"]["benchmark"], s["kind"]["variants"]) == name]
    return f"{of_kind[-1]['client'] + of_kind[-1]['server']:.1f} ({of_kind[-1]['wall']:.1f})" if of_kind else ""


def main(arguments: Sequence[str]) -> int:
    """Read the figures, print the tables and write the picture."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    figures, picture = map(Path, arguments)
    measurements = json.loads(figures.read_text(encoding="utf-8"))
    print("\n".join(tables(measurements)))
    picture.write_text(svg(measurements), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
