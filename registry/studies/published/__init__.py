"""Numbers published in papers, from the files of this folder: kept apart from our own numbers.

The files' contents, and how they were transcribed: README.md. The table `published_result` is a copy of the files that
`load_published` keeps up to date; nothing else writes to it.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from sqlalchemy import delete, func, insert, or_, select
from sqlalchemy.orm import Session

from registry.db import one_at_a_time
from registry.errors import NotFoundError
from registry.names import suggest_names
from registry.proposals import propose
from registry.tables import PublishedResult

_FOLDER: Final = Path(__file__).parent
_NAMES_OF_MODELS: Final = "nowak_model_names"  # maps short names to full ones and has no result

_PAPERS: Final = {
    "000-goliakova": "Goliakova et al.",
    "001-gupta": "Gupta et al.",
    "002-cavalin": "Cavalin et al.",
    "003-nowak": "Nowak et al.",
}

# Files with several numbers on a line: their columns of numbers, with the unit of each.
_WIDE: Final[Mapping[str, Mapping[str, str]]] = {
    "goliakova_table_2": {"n_questions": "questions", "n_options": "options"},
    "cavalin_table_7": {"prob_at_least_p_random": "fraction", "msgr": "fraction"},
}

_PERCENT: Final = 100

# The paper's metric to ours, and the divisor from a printed number to our unit. Not listed, since they are something
# else: Goliakova's R² (how well a metric predicts, not its value) and sizes of tasks; Cavalin's differences between
# tables and the accuracy of guessing; how often Nowak's extraction rules applied, and generation settings.
_METRICS: Final[Mapping[str, Mapping[str, tuple[str, int]]]] = {
    "Gupta et al.": {
        "accuracy": ("accuracy", _PERCENT),
        "our_metric": ("retest_accuracy", _PERCENT),
        "pct_drop": ("pct_drop", 1),
    },
    "Cavalin et al.": {
        "MCQA": ("accuracy", 1),
        "MCQA+": ("mcqa_plus", 1),
        "MV": ("majority_vote", 1),
        **{f"BMCA({percent / 100:.1f})": (f"bmca_{percent}", 1) for percent in (50, 60, 70, 80, 90, 100)},
        "CI": ("consistency_index", 1),
        "CoRA": ("cora", 1),
    },
    "Nowak et al.": {
        # The column is over all orders, the original among them (docs/decisions/0010).
        "mean_accuracy": ("accuracy_mean_all", _PERCENT),
        "original_accuracy": ("accuracy", _PERCENT),
        "abs_diff_original_vs_attack": ("accuracy_abs_diff", _PERCENT),
        "variance": ("accuracy_variance", 1),  # squared percentage points here as there
        "min_accuracy": ("accuracy_min", _PERCENT),
        "max_accuracy": ("accuracy_max", _PERCENT),
        "range": ("accuracy_range", _PERCENT),
        "SCORE": ("score", 1),
        "variance_ratio": ("variance_ratio", 1),
        "SCORE_difference": ("score_difference", 1),
    },
}

# Rows that summarise a table: their mean would pass for a result of a model or benchmark of that name.
_SUMMARIES: Final = frozenset({"Mean", "geometric mean over models", "geometric mean over benchmarks"})

_SHOWN: Final = (
    "paper",
    "table",
    "section",
    "model",
    "benchmark",
    "protocol",
    "target",
    "metric",
    "printed",
    "value",
    "unit",
    "rank",
    "standard_deviation",
    "registry_metric",
    "registry_value",
)
_STORED: Final = ("source", "ordinal", *_SHOWN)


def load_published(session: Session) -> int:
    """Make `published_result` equal to the files of this release; return the number of rows written.

    Unchanged files are left alone, so 0 means that nothing had changed. Rows of a changed file are rewritten, and rows
    of a file that is no longer shipped are deleted.
    """
    one_at_a_time(session, "published results")
    shipped = {path.stem: list(_rows(path)) for path in _files()}
    stored: dict[str, list[dict[str, Any]]] = {}
    columns = [getattr(PublishedResult, name) for name in _STORED]
    query = select(*columns).order_by(PublishedResult.source, PublishedResult.ordinal)
    for row in session.execute(query):
        stored.setdefault(row.source, []).append(dict(zip(_STORED, row, strict=True)))
    changed = sorted(source for source in shipped.keys() | stored.keys() if shipped.get(source) != stored.get(source))
    if changed:
        session.execute(delete(PublishedResult).where(PublishedResult.source.in_(changed)))
    new = [row for source in changed for row in shipped.get(source, ())]
    if new:
        session.execute(insert(PublishedResult), new)
    return len(new)


def _files() -> list[Path]:
    return sorted(path for path in _FOLDER.glob("*.csv") if path.stem != _NAMES_OF_MODELS)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the numbers of a file in reading order, as rows of `published_result`; `ordinal` counts them from 1."""
    ordinal = 0
    with path.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            for number in _numbers(path.stem, line):
                ordinal += 1
                yield {"source": path.stem, "ordinal": ordinal} | number


def _numbers(source: str, line: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the numbers of one line as rows without source and ordinal."""
    if source not in _WIDE:
        yield _number(line, line["metric"], line["value"], line["unit"])
        return
    for column, unit in _WIDE[source].items():
        yield _number(line, column, line[column], unit)


def _number(line: Mapping[str, str], metric: str, printed: str, unit: str) -> dict[str, Any]:
    # Cavalin's Table 7 has no model and no benchmark: p distinguishes its rows.
    section = f"p = {line['p']}" if "p" in line else line.get("section")
    deviation = line.get("std_x1000")
    rank = line.get("rank")
    row = {
        "paper": _PAPERS[line["paper"]],
        "table": line["table"],
        "section": section or None,
        "model": line.get("model") or None,
        "benchmark": line.get("benchmark") or None,
        "protocol": line.get("protocol") or None,
        "target": line.get("target") or None,
        "metric": metric,
        "printed": printed,
        "value": float(printed),
        "unit": unit or None,
        "rank": int(rank) if rank else None,
        "standard_deviation": float(Decimal(deviation) / 1000) if deviation else None,
    }
    name, divisor = _registry_metric(row) or (None, None)
    # Decimal: 80.3 percent is .803, not .80299….
    value = None if divisor is None else float(Decimal(printed) / divisor)
    return row | {"registry_metric": name, "registry_value": value}


def _registry_metric(row: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return our metric of the same meaning, and the divisor of the printed number; None if there is none."""
    if not _SUMMARIES.isdisjoint((row["model"], row["benchmark"])):
        return None
    # Its values are means over bootstrap draws of 100 variants, not over the variants themselves.
    if row["paper"] == "Cavalin et al." and row["table"] == "6":
        return None
    # NonsenseQA: the column "original" is not the original order (docs/decisions/0010); the difference is taken from
    # it.
    is_from_original = row["metric"] in ("original_accuracy", "abs_diff_original_vs_attack")
    if row["paper"] == "Nowak et al." and row["table"] == "5" and is_from_original:
        return None
    return _METRICS.get(row["paper"], {}).get(row["metric"])


def list_published(session: Session, *, paper: str | None = None, metric: str | None = None) -> list[dict[str, Any]]:
    """Return printed numbers in the order of their tables, with the columns of the view `published_results`.

    paper: a part of the paper's label, such as "cavalin". metric: the paper's name of a metric, or ours if it has one.
    Letter case does not count. Raises NotFoundError, listing the choices, if a paper or a metric is unknown.
    """
    query = select(*(getattr(PublishedResult, name) for name in _SHOWN))
    if paper is not None:
        matches_paper = func.lower(PublishedResult.paper).contains(paper.lower(), autoescape=True)
        _require_any(session, "paper", paper, PublishedResult.paper, matches_paper)
        query = query.where(matches_paper)
    if metric is not None:
        names = (PublishedResult.metric, PublishedResult.registry_metric)
        matches_metric = or_(*(func.lower(name) == metric.lower() for name in names))
        _require_any(session, "metric", metric, PublishedResult.metric, matches_metric)
        query = query.where(matches_metric)
    rows = session.execute(query.order_by(PublishedResult.source, PublishedResult.ordinal))
    keys: Sequence[str] = ["paper_table" if name == "table" else name for name in _SHOWN]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _require_any(session: Session, what: str, name: str, column: Any, condition: Any) -> None:
    if session.scalar(select(PublishedResult.id).where(condition).limit(1)) is None:
        known = session.scalars(select(column).distinct().order_by(column))
        listing = f"all of them: {propose('published list')}"
        raise NotFoundError(f"no published result of {what} {name!r}{suggest_names(name, known, remedy=listing)}")
