"""Choosing what a study is over: labels of models, benchmarks and protocols, and which of them were asked for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from registry.errors import NotFoundError

T = TypeVar("T")


def part_label(question_filter: Mapping[str, Any]) -> str:
    """Which part of a benchmark was asked, as text behind its name; empty for all of it."""
    kept = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in sorted(question_filter.items())
        if value is not None and key != "sample"
    }
    parts = [f"{key} {value}" for key, value in kept.items()]
    if (sample := question_filter.get("sample")) is not None:
        parts.append(f"a sample of {sample['questions']} of {sample['of']}, seed {sample['seed']}")
    return f" ({'; '.join(parts)})" if parts else ""


def chosen(items: Sequence[T], label: Callable[[T], str], wanted: Sequence[str], what: str, lacks: str) -> list[T]:
    """The items whose label is wanted, in their order; all when none is named.

    what, lacks: of the message for a wanted one that is not there: "{what} X {lacks}; there are: …" (NotFoundError).
    """
    if not wanted:
        return list(items)
    for reference in wanted:
        if not any(reference in _spellings(label(item)) for item in items):
            there = ", ".join(sorted({label(item) for item in items}))
            raise NotFoundError(f"{what} {reference} {lacks}; there are: {there}")
    return [item for item in items if _spellings(label(item)) & {*wanted}]


def _spellings(label: str) -> set[str]:
    """`NAME`, `NAME@…` or `NAME:SHOTS`, and the whole label with the part that was asked."""
    reference = label.partition(" (")[0]
    return {reference.partition("@")[0].partition(":")[0], reference, label}
