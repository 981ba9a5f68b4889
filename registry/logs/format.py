"""The form of a program's logs: all that import, audit, messages and documentation need to know of a format."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place
from registry.logs.documents import Log
from registry.logs.record import Known, KnownQuestion, Recorded, Source

CAT: Final = "ibm-cat"
HARNESS: Final = "lm-evaluation-harness"
EVERY_EVAL_EVER: Final = "every-eval-ever"
OUTPUTS: Final = "outputs"
"""The format that is our own."""
QUESTIONS: Final = "questions"
"""The format of a file of questions, which lends its texts to logs that have none."""
HELM: Final = "helm"
INSPECT: Final = "inspect"
OPENCOMPASS: Final = "opencompass"
LIGHTEVAL: Final = "lighteval"
STATE_FILE: Final = "scenario_state.json"
"""The file of a run folder of HELM that has the answers."""

TABLE: Final = "table"
METADATA: Final = "shuffleboard"
"""Key of a record that we had another program ask: its question, variant and order."""


@dataclass(frozen=True)
class Format:
    """One format, which its module defines and `registry.logs.formats` lists.

    layout: "lines" of JSON, one "document", "columns" of Parquet, or a "table". keys: of each line or of the document,
    or columns; the first format that fits is meant. sample: a line, or the first item of a document, as the program
    writes it. recognised, becomes: cells of the table in `docs/importing-outputs.md`; paragraph: its peculiarities,
    there.
    scores: how its logs get their scores; empty if they never have any.

    A log is read from its path and its head: the first line, the document, or None. sources: its records as written,
    for an audit, with the questions of other files. read_lines and read_log: its answers joined to the questions of a
    benchmark.
    questions: the questions that it contains, as lines of a benchmark file.
    """

    name: str
    title: str
    layout: str
    keys: frozenset[str]
    sample: Mapping[str, Any]
    sources: Callable[[Path, Any, Known], list[Source]]
    program: str = ""
    recognised: str = ""
    becomes: str = ""
    scores: str = ""
    paragraph: str = ""
    read_lines: Callable[[Path, Mapping[str, KnownQuestion]], Iterator[Recorded]] | None = None
    read_log: Callable[[Path, Any, Mapping[str, KnownQuestion]], Log] | None = None
    questions: Callable[[Path, Any], Iterator[tuple[Place, dict[str, Any]]]] | None = None
