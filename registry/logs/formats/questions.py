"""A file of questions in the form of a benchmark's: it provides texts and keys for logs that have none."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import shorten
from registry.logs.files import records_of
from registry.logs.format import QUESTIONS, Format
from registry.logs.record import Known, Seen, Source, Unusable
from registry.logs.values import texts_of


def _list_sources(path: Path, _first_line: Mapping[str, Any], known: Known) -> list[Source]:
    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        if line.get("split") == "fewshot":
            return
        options, key = texts_of(line.get("options")), line.get("answer")
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(options):
            yield Unusable(place, f"its answer {shorten(key, 40)} names none of its {len(options)} options")
            return
        text = "\n".join(str(part) for part in (line.get("context", line.get("passage")), line.get("question")) if part)
        known[str(line.get("id"))] = (text, options, key)
        yield Seen(place, str(line.get("id")), text, options, key, None)

    return [Source(path, QUESTIONS, "", path.name.split(".")[0], records_of(path, record))]


FORMAT: Final = Format(
    QUESTIONS,
    "questions",
    "lines",
    frozenset({"answer", "id", "options", "question"}),
    {"id": "q1", "question": "…", "options": ["…", "…"], "answer": 0},
    _list_sources,
)
