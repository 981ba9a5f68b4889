"""What tells the files of each program: the keys of a line, the keys of a document, or the columns of a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from registry.files.packed import ZIP_MAGIC
from registry.untrusted import decode_answer

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

KEYS: Final[Mapping[str, frozenset[str]]] = {
    CAT: frozenset({"question_id", "variant_type", "variant_index", "options", "chosen"}),
    HARNESS: frozenset({"doc_id", "doc", "target"}),
    EVERY_EVAL_EVER: frozenset({"schema_version", "sample_id", "interaction_type", "input", "evaluation"}),
    OUTPUTS: frozenset({"question_id", "variant", "order"}),
    QUESTIONS: frozenset({"id", "question", "options", "answer"}),
    HELM: frozenset({"adapter_spec", "request_states"}),
    INSPECT: frozenset({"version", "eval", "status"}),
    LIGHTEVAL: frozenset({"doc", "metric", "model_response"}),
}
"""Format → the keys, or columns, that each of its lines, documents or tables has; the first that fits is meant."""
LINES: Final = (HARNESS, EVERY_EVAL_EVER, CAT, OUTPUTS, QUESTIONS)
_LONGEST_LINE: Final = 1 << 20
"""A first line beyond this is a whole document: a prompt of JSON Lines is shorter."""


def form_of_line(line: Mapping[str, Any]) -> str | None:
    """The format of JSON Lines, by their first; None for none that is known."""
    return next((form for form in LINES if line.keys() >= KEYS[form]), None)


def form_of_document(document: Mapping[str, Any]) -> str | None:
    """The format of a log that is one document; None for none that is known.

    OpenCompass's predictions are numbered from 0, each with what was predicted.
    """
    first = document.get("0")
    if isinstance(first, dict) and "prediction" in first and ("gold" in first or "origin_prompt" in first):
        return OPENCOMPASS
    return next((form for form in (HELM, INSPECT) if document.keys() >= KEYS[form]), None)


def is_archive(path: Path) -> bool:
    """Whether a file is an archive, or should be one by its name."""
    with path.open("rb") as stream:
        return stream.read(len(ZIP_MAGIC)) == ZIP_MAGIC or path.suffix == ".eval"


def is_document(path: Path) -> bool:
    """Whether a file holds one document by its name and its first line, and not JSON Lines."""
    if path.suffix != ".json":
        return False
    with path.open("rb") as stream:
        first = stream.readline(_LONGEST_LINE)
        if not first.endswith(b"\n") and stream.read(1):
            return True
    try:
        line = decode_answer(first.decode("utf-8-sig"))
    except ValueError:
        return True
    return not isinstance(line, dict) or form_of_document(line) is not None
