"""Choosing the models, benchmarks and protocols of a study by their labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from registry.errors import NotFoundError

T = TypeVar("T")


def part_label(question_filter: Mapping[str, Any]) -> str:
    """Return the filter of questions as text behind the benchmark's name; empty if all were evaluated."""
    filters = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in sorted(question_filter.items())
        if value is not None and key != "sample"
    }
    parts = [f"{key} {value}" for key, value in filters.items()]
    if (sample := question_filter.get("sample")) is not None:
        parts.append(f"a sample of {sample['questions']} of {sample['of']}, seed {sample['seed']}")
    return f" ({'; '.join(parts)})" if parts else ""


def choose_labelled(
    items: Sequence[T], label: Callable[[T], str], wanted: Sequence[str], what: str, lacks: str
) -> list[T]:
    """Return the items whose label is wanted, in their order; all if no label is given.

    what, lacks: parts of the message for a label without an item: "{what} X {lacks}; there are: …" (NotFoundError).
    """
    if not wanted:
        return list(items)
    for reference in wanted:
        if not any(reference in _spellings(label(item)) for item in items):
            existing = ", ".join(sorted({label(item) for item in items}))
            raise NotFoundError(f"{what} {reference} {lacks}; there are: {existing}")
    return [item for item in items if _spellings(label(item)) & {*wanted}]


def _spellings(label: str) -> set[str]:
    """Return the accepted spellings: `NAME`, `NAME@…` or `NAME:SHOTS`, and the whole label with its part."""
    reference = label.partition(" (")[0]
    return {reference.partition("@")[0].partition(":")[0], reference, label}
