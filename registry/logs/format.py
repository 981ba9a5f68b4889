"""The definition of a format of logs: all that imports, audits, messages and documents need to know about it."""

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
"""Our own format."""
QUESTIONS: Final = "questions"
"""The format of a file of questions, which provides texts for logs that have none."""
HELM: Final = "helm"
INSPECT: Final = "inspect"
OPENCOMPASS: Final = "opencompass"
LIGHTEVAL: Final = "lighteval"
STATE_FILE: Final = "scenario_state.json"
"""The file with the answers in a run folder of HELM."""

TABLE: Final = "table"
METADATA: Final = "shuffleboard"
"""Key of our question, variant and order in a record of another program that we configured."""


@dataclass(frozen=True)
class Format:
    """A format of logs, defined in its module and listed in `registry.logs.formats`.

    layout: "lines" of JSON, one "document", "columns" of Parquet, or a "table". keys: the keys of each line or of the
    document, or columns, by which the format is recognised; the first format that fits counts. sample: a line, or the
    first item of a document, as the program writes it. recognised, becomes: cells of the table in
    `docs/importing-outputs.md`; paragraph: its peculiarities, for the same document.
    scores: how its logs get their scores; empty if they never have any.

    The functions take a log's path and its head: the first line, the document, or None. sources: returns its records as
    written, for an audit, given the questions of other files. read_lines, read_log: return its answers matched to the
    questions of a benchmark. questions: returns the questions that it contains, as lines of a benchmark file.
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
