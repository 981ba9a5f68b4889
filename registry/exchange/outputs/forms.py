"""The forms of log files: how each is recognised, and its description in messages and documentation."""

from collections.abc import Mapping
from dataclasses import dataclass
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

TABLE: Final = "table"


@dataclass(frozen=True)
class Form:
    """The form of a program's files, which import, audit, messages and documentation are made of.

    layout: "lines" of JSON, one "document", "columns" of Parquet, or a "table" as CSV. keys: of each line or of the
    document, or columns; the first form that fits is meant. recognised, becomes: cells of the table in
    `docs/importing-outputs.md`. scores: how its logs come to have scores, empty if they never have.
    """

    title: str
    layout: str
    keys: frozenset[str]
    program: str = ""
    recognised: str = ""
    becomes: str = ""
    scores: str = ""


FORMS: Final[Mapping[str, Form]] = {
    HARNESS: Form(
        "lm-evaluation-harness",
        "lines",
        frozenset({"doc_id", "doc", "target"}),
        "lm-evaluation-harness, samples written with `--log_samples`",
        "`doc_id`, `doc`, `target`",
        "Variant 0 of each question, with the log-likelihoods as `logprobs`, or with the generated text",
        "give a task with a metric, and --log_samples",
    ),
    HELM: Form(
        "HELM",
        "document",
        frozenset({"adapter_spec", "request_states"}),
        "HELM, a run folder or its `scenario_state.json`",
        "`adapter_spec`, `request_states`",
        "A variant for each training trial, with the generated text, and log-likelihoods if options were scored "
        "separately",
        "keep stats.json and per_instance_stats.json next to scenario_state.json",
    ),
    INSPECT: Form(
        "Inspect",
        "document",
        frozenset({"version", "eval", "status"}),
        "Inspect AI, `.eval` archives and `.json` logs",
        "`eval`, `status`, `version`",
        "A variant for each epoch, in the order that was shown, with the generated text",
        "score the task with choice()",
    ),
    LIGHTEVAL: Form(
        "lighteval",
        "columns",
        frozenset({"doc", "metric", "model_response"}),
        "lighteval, the Parquet file of a task written with `--save-details`",
        "columns `doc`, `metric`, `model_response`",
        "Variant 0, with log-probabilities if choices were scored, else a variant for each text",
        "keep details/ and results/ together, written with --save-details",
    ),
    OPENCOMPASS: Form(
        "OpenCompass",
        "document",
        frozenset({"0"}),
        "OpenCompass, a file in a run's `predictions/MODEL/`",
        'predictions numbered from `"0"`',
        "Variant 0, with the text if one was generated; probabilities only from log-likelihood runs",
        "keep predictions/ and results/ together, written with --dump-eval-details",
    ),
    EVERY_EVAL_EVER: Form(
        "Every Eval Ever",
        "lines",
        frozenset({"schema_version", "sample_id", "interaction_type", "input", "evaluation"}),
        "Every Eval Ever 0.3.0, a `…_samples.jsonl`",
        "`schema_version`, `sample_id`, `interaction_type`",
        "The variants that its metadata names, else those of one prompt in the order of the file",
        "give each record its evaluation.is_correct",
    ),
    CAT: Form(
        "IBM/cat",
        "lines",
        frozenset({"question_id", "variant_type", "variant_index", "options", "chosen"}),
        "IBM/cat's layout",
        "`question_id`, `variant_type`, `variant_index`, `options`, `chosen`",
        "All variant types, or those of `--select`; import as `--variants imported` or `divergent`",
    ),
    TABLE: Form(
        "table",
        "table",
        frozenset({"question_id"}),
        "Table of letters",
        "`.csv`, `.tsv` or `.xlsx` whose heading begins with `question_id`",
        "An evaluation for each column, on the original order",
    ),
    OUTPUTS: Form("your own answers", "lines", frozenset({"question_id", "variant", "order"})),
    QUESTIONS: Form("questions", "lines", frozenset({"id", "question", "options", "answer"})),
}
"""Every form that is read, in the order in which they are tried."""
KEYS: Final[Mapping[str, frozenset[str]]] = {name: form.keys for name, form in FORMS.items()}
LINES: Final = tuple(name for name, form in FORMS.items() if form.layout == "lines")
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
