"""Formats for values on a page. NULL is a dash with its reason, never a zero."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup, escape

from registry.leaderboard.chance import CORRECTED
from registry.metrics import METRICS
from registry.prompting.labels import letter
from registry.schema.selectables import Row
from registry.scores.asked import describe_orders, one_order, why_undefined
from registry.verdicts import wording
from registry.verdicts.facts import Number
from registry.verdicts.table import judge_neighbours, judge_uncertainty, note_guessing
from registry.verdicts.wording import DASH, bound, interval_text, lowered, points, tenths
from registry.verdicts.wording import value_text as metric_text


def _minus(text: str) -> str:
    return text.replace("-", "−")


def percent(value: float | None) -> str:
    """Return a fraction as a percentage with one decimal."""
    return DASH if value is None else wording.share(value)


def scaled(value: float | None) -> str:
    """Format a value on a scale from guessing, 0, to perfect, 1, with three decimals."""
    return DASH if value is None else _minus(f"{value:z.3f}")


def signed_points(value: float) -> str:
    """Format a change of a fraction in percentage points, with its sign."""
    # A change of less than half a tenth has no sign.
    text = tenths(value)
    return f"{text if text == '0.0' or text.startswith('−') else f'+{text}'} points"


def signed_number(value: float) -> str:
    """Format a change of a fraction in percentage points, with its sign, without the unit."""
    return signed_points(value).removesuffix(" points")


def metric_change(metric: str, change: float) -> str:
    """Format a change of a metric: percentage points for a share, else three digits on its own scale."""
    unit = METRICS[metric].unit
    if change == 0:
        return "0"
    if unit not in ("fraction", "percent"):
        return _minus(f"{change:+.3g}")
    share = change if unit == "fraction" else change / 100
    return signed_points(share) if abs(share) >= 0.0005 else "less than 0.1 points"


def p_value(value: float) -> str:
    """Format a p-value with three decimals, or as smaller than 0.001."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def tested_in(row: Row) -> str | None:
    """Return the number of orders or variants of an evaluation's questions in words; None if the row has none."""
    return describe_orders(row) if "distinct_prompts_max" in row else None


@lru_cache(1024, typed=True)  # markup equals its source text, but is not escaped
def null(reason: str) -> Markup:
    """Return a dash with its reason, as a tooltip and for screen readers."""
    return Markup(
        '<span class="null" title="{0}"><span aria-hidden="true">–</span><span class="unseen">{0}</span></span>'
    ).format(reason)


def when(value: datetime | None) -> Markup | str:
    """Format a time in UTC, to the minute."""
    if value is None:
        return DASH
    return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), f"{value:%Y-%m-%d %H:%M} UTC")


def plural(number: int, noun: str) -> str:
    """Format a number with its noun, such as 1 question or 40 questions."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """Format seconds in readable units."""
    if seconds is None:
        return DASH
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, hours = divmod(round(seconds / 60), 60)[::-1]
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def count(value: float | None) -> str:
    """Return a whole number with a comma before each three digits."""
    return DASH if value is None else wording.count(value)


def roughly(value: int | None) -> str:
    """Format a whole number with two significant digits, such as 59,000."""
    return DASH if value is None else count(round(value, 2 - len(str(value))))


def scale(value: float | None) -> str:
    """Format a number of parameters, such as 135 M."""
    if value is None:
        return DASH
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:g}"


def excerpt(text: str, length: int = 140) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def chosen_questions(question_filter: Row | None) -> str | None:
    """Describe which questions of the benchmark an evaluation uses; None for all of them."""
    limit, subjects = (question_filter or {}).get("limit"), (question_filter or {}).get("subjects")
    parts = [] if not subjects else [f"subjects: {', '.join(subjects)}"]
    if (options := (question_filter or {}).get("options")) is not None:
        parts.append(f"{options} options")
    if limit is not None:
        parts.insert(0, f"first {limit} questions")
    if (sample := (question_filter or {}).get("sample")) is not None:
        parts.append(f"a sample of {sample['questions']:,} of {sample['of']:,} questions, seed {sample['seed']}")
    return ", ".join(parts) or None


def telling_names(left: Row, right: Row) -> tuple[str, str]:
    """Return distinct names for two evaluations: their models or, for one model, with the first difference."""
    tellers: tuple[Callable[[Row], str], ...] = (
        lambda row: row["model"],
        lambda row: f"{row['model']} revision {row['revision']}",
        lambda row: f"{row['model']} under {row['variants']}",
        lambda row: f"{row['model']} under {row['protocol']}, {row['shots']}-shot",
        lambda row: f"{row['model']} in evaluation {row['evaluation_id']}",
    )
    for tell in tellers:
        names = tell(left), tell(right)
        if names[0] != names[1]:
            break
    return names


def json_text(document: Any) -> str:
    """Format a JSON document for reading: indented, keys sorted."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)


_SCOPES: Final = {
    "without-references": ("Without options that refer to others", ""),
    "without-sorted-numbers": ("Without options that are sorted numbers", ""),
}


def scope_name(scope: str) -> tuple[str, str]:
    """Return a scope's name and kind, such as ("anatomy", "subject")."""
    kind, colon, name = scope.partition(":")
    return (name, kind) if colon else _SCOPES.get(scope, (scope, ""))


def brief_cell(metric: str, row: Row, url: str) -> Markup:
    """Return a value in a leaderboard row as a link to its evaluation, with its interval as a tooltip.

    A note below says if it may be guessing, or how many questions it covers if not all.
    url: safe in HTML. This is Python, since a page has hundreds of these.
    """
    counts = row["counts"].get(metric)
    scaled_value = row.get("above_chance", {}).get(metric)
    value = scaled_value["value"] if scaled_value else row[metric]
    if value is None:
        return null(why_undefined(metric, row))
    text = scaled(value) if scaled_value else metric_text(metric, value)
    if counts is None:
        return Markup(f'<a href="{url}">{text}</a>')  # noqa: S704 - of numbers
    note = "" if counts["n"] >= row["questions"] else f"{counts['n']}/{row['questions']}"
    bounds = scaled_value or counts
    low, high = bounds["interval_low"], bounds["interval_high"]
    ends = None if low is None else (low, high)
    near, bounded = guessing(metric, row, counts), bound_note(metric, value, ends)
    classes = "rest" if near or note else "rest bound"
    note = near or "; ".join(filter(None, (bounded, note)))
    title = ""
    if low is not None:
        interval = f"{scaled(low)} to {scaled(high)}" if scaled_value else interval_text(metric, low, high)
        title = f' title="95 % interval {interval}"'
    rest = f'<small class="{classes}">{note}</small>' if note else ""
    return Markup(f'<a href="{url}"{title}>{text}</a>{rest}')  # noqa: S704 - the same


def bound_note(metric: str, value: float | None, ends: tuple[float, float] | None) -> str:
    """Return the upper bound to note below an order loss that is not above 0; empty for all else.

    ends: its interval.
    """
    if value is None:
        return ""
    return bound(metric, Number(value, 0, *(ends or (None, None))))


def guessing(metric: str, row: Row, found: Row) -> str:
    """Return the note below an accuracy near guessing; empty for other values. found: its n and interval."""
    if metric != "accuracy" or row["accuracy"] is None:
        return ""
    return note_guessing(row["chance"], row["accuracy"], found["n"], found["interval_low"], found["interval_high"])


def linked(text: str, links: Mapping[str, str]) -> Markup:
    """Link the names in a sentence to their URLs; if several names match, the longest is linked."""
    if not links:
        return escape(text)
    names = "|".join(re.escape(name) for name in sorted(links, key=len, reverse=True))
    markup, place = Markup(), 0
    for name in re.finditer(rf"(?<![\w-])(?:{names})(?![\w-])", text):
        markup += escape(text[place : name.start()]) + Markup('<a href="{}">{}</a>').format(links[name[0]], name[0])
        place = name.end()
    return markup + escape(text[place:])


FILTERS: Final = {
    "linked": linked,
    "lowered": lowered,
    "percent": percent,
    "points": points,
    "scaled": scaled,
    "tenths": tenths,
    "signed_points": signed_points,
    "signed_number": signed_number,
    "p_value": p_value,
    "when": when,
    "duration": duration,
    "count": count,
    "plural": plural,
    "roughly": roughly,
    "scale": scale,
    "excerpt": excerpt,
    "null": null,
    "tojson_text": json_text,
}
"""Jinja filters by name."""


def arrow(metric: str) -> str:
    """Return an arrow in the better direction; empty if neither is better."""
    return {"higher": "↑", "lower": "↓"}.get(METRICS[metric].better, "")


def arrow_words(metric: str) -> str:
    """Return which direction is better, in words."""
    return {"higher": "Higher is better.", "lower": "Lower is better."}.get(METRICS[metric].better, "")


def shorten(name: str, letters: int) -> str:
    """Shorten a name to its beginning and its end, which distinguish models of a family."""
    if len(name) <= letters:
        return name
    end = (letters - 1) // 2
    return f"{name[: letters - 1 - end]}…{name[-end:]}"


GLOBALS: Final = {
    "arrow": arrow,
    "arrow_words": arrow_words,
    "letter": letter,
    "shorten": shorten,
    "scope_name": scope_name,
    "metric_text": metric_text,
    "brief_cell": brief_cell,
    "metric_change": metric_change,
    "why_null": why_undefined,
    "one_order": one_order,
    "tested_in": tested_in,
    "guessing": guessing,
    "note_guessing": note_guessing,
    "bound_note": bound_note,
    "interval_text": interval_text,
    "neighbours": judge_neighbours,
    "uncertainty": judge_uncertainty,
    "chosen_questions": chosen_questions,
    "METRICS": METRICS,
    "CORRECTED": CORRECTED,
}
"""Functions for every template."""


def with_interval(metric: str, value: float | None, low: float | None, high: float | None) -> str:
    """Return a value with its 95 % interval, if it has one."""
    if value is None or low is None or high is None:
        return metric_text(metric, value)
    return f"{metric_text(metric, value)} ({interval_text(metric, low, high)})"
