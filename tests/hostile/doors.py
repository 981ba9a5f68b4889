"""Every importer, with a valid document for it in which tests place hostile values."""

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.recipes.recipe import read_recipe
from registry.benchmarks.recipes.rows import read_rows
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import read_board_file, read_suite_file
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.logs.recognition import log_file, log_questions
from registry.prompting.protocols.custom import read_protocol_file
from registry.revisions.store import RevisionRequest, add_revision
from shuffleboard.cli.apply import read_manifest
from tests.outputs.conftest import DATA
from tests.outputs.logs import HELM, INSPECT, QUESTIONS, inspect_document

BENCHMARK: Final = "csqa"
FIRST: Final = "csqa-first"
MODEL: Final = "m"
Write = Callable[[Path, str], Path]
"""Writes a document's text into a folder and returns the path to import."""


@dataclass(frozen=True)
class Importer:
    """An importer and a valid document for it.

    document: the document, or a line of it. write: writes its text. read: imports the file.
    """

    document: Any
    write: Write
    read: Callable[[Engine, Path], Any]


def fill(engine: Engine, folder: Path) -> None:
    """Store a benchmark of five questions, another with only the first of them, and an external model."""
    path = folder / "questions.jsonl"
    with write_session(engine) as session:
        for name, questions in ((BENCHMARK, QUESTIONS), (FIRST, QUESTIONS[:1])):
            path.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
            import_benchmark(session, read_benchmark(path), name=name)
        add_revision(session, MODEL, RevisionRequest("external"))


# How files are written


def _file(name: str) -> Write:
    def write(folder: Path, text: str) -> Path:
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        return folder / name

    return write


def _lines(name: str, others: list[Any]) -> Write:
    """Return a function that writes the document as the first line, followed by valid lines."""

    def write(folder: Path, text: str) -> Path:
        lines = [text, *map(json.dumps, others)]
        return _file(name)(folder, "".join(line + "\n" for line in lines))

    return write


def _write_beside(source: Path, name: str) -> Write:
    """Return a function that writes the document as a file in a run's folder."""

    def write(folder: Path, text: str) -> Path:
        copied = folder / source.name
        shutil.copytree(source, copied, dirs_exist_ok=True)
        (copied / name).write_text(text, encoding="utf-8")
        return copied

    return write


def _entry(name: str, entries: Mapping[str, Any]) -> Write:
    """Return a function that writes the document as an entry of an archive."""

    def write(folder: Path, text: str) -> Path:
        path = folder / "log.eval"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry_name, document in entries.items():
                archive.writestr(entry_name, text if entry_name == name else json.dumps(document))
        return path

    return write


def _results_of(program: str, predictions: Path, name: str) -> Write:
    """Return a function that writes the document as a program's file of results, next to its file of predictions."""

    def write(folder: Path, text: str) -> Path:
        copied = folder / program
        shutil.copytree(DATA / program, copied, dirs_exist_ok=True)
        (copied / name).write_text(text, encoding="utf-8")
        return copied / predictions

    return write


def _cells(heading: list[str]) -> Write:
    """Return a function that writes the document, an object of cells, as a table."""

    def write(folder: Path, text: str) -> Path:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = text
        cells = [row.get(name, "") for name in heading] if isinstance(row, dict) else [text]
        table = io.StringIO()
        writer = csv.writer(table)
        writer.writerow(heading)
        writer.writerow([cell if isinstance(cell, str) else json.dumps(cell) for cell in cells])
        return _file("table.csv")(folder, table.getvalue())

    return write


# Importers


def _outputs(engine: Engine, path: Path, benchmark: str = BENCHMARK) -> Any:
    return import_outputs(engine, ImportRequest(path, MODEL, benchmark, "imported"))


def _outputs_of_first(engine: Engine, path: Path) -> Any:
    return _outputs(engine, path, FIRST)


def _benchmark(engine: Engine, path: Path) -> Any:
    content = read_benchmark(path)
    with write_session(engine) as session:
        return import_benchmark(session, content, name="hostile")[1]


def _questions_of_log(engine: Engine, path: Path) -> Any:
    log = log_file(path)
    assert log is not None
    content = read_benchmark(log, documents=log_questions(log))
    with write_session(engine) as session:
        return import_benchmark(session, content, name="hostile")[1]


def _rows(_engine: Engine, path: Path) -> Any:
    return len(list(read_rows(path)))


def _contract_line(number: int) -> dict[str, Any]:
    return {
        "question_id": QUESTIONS[number]["id"],
        "variant": 0,
        "order": [4, 3, 2, 1, 0],
        "position": 1,
        "option": 3,
        "probabilities": [0.1, 0.5, 0.2, 0.1, 0.1],
        "logprobs": [-3.0, -1.0, -2.0, -3.0, -3.0],
        "logprobs_without_question": [-3.0, -1.0, -2.0, -3.0, -3.0],
        "text": "The second.",
    }


def _cat_line(number: int) -> dict[str, Any]:
    return {
        "question_id": QUESTIONS[number]["id"],
        "variant_type": "standard_MC",
        "variant_index": 0,
        "options": QUESTIONS[number]["options"],
        "correct": QUESTIONS[number]["answer"],
        "chosen": 1,
        "model_choice": "B",
        "raw": "B",
    }


def _harness_line(number: int) -> dict[str, Any]:
    scored = [[["-3.5", "False"]], [["-1.5", "True"]], [["-9.0", "False"]], [["-4.0", "False"]], [["-5.0", "False"]]]
    return {
        "doc_id": number,
        "doc": {key: QUESTIONS[number][key] for key in ("id", "question", "options")},
        "target": str(QUESTIONS[number]["answer"]),
        "resps": scored,
        "filtered_resps": ["(-3.5, False)", "(-1.5, True)", ["-9.0", "False"], [-4.0, False], -5.0],
    }


def _score_line(number: int) -> dict[str, Any]:
    doc = {"prompt_id": number, **{key: QUESTIONS[0][key] for key in ("id", "question", "options")}}
    return {"doc_id": 0, "doc": doc, "target": "", "resps": [["The best answer is B."]]}


def _eee_line(number: int) -> dict[str, Any]:
    question = QUESTIONS[number]
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "e",
        "sample_id": question["id"],
        "evaluation_result_id": "accuracy",
        "interaction_type": "single_turn",
        "error": None,
        "input": {
            "raw": question["question"],
            "reference": [question["options"][question["answer"]]],
            "choices": question["options"],
        },
        "output": {"raw": [question["options"][question["answer"]]]},
        "answer_attribution": [{"extracted_value": question["options"][question["answer"]], "is_terminal": True}],
        "evaluation": {"score": 1.0, "is_correct": True},
        "metadata": {
            "variant": "0",
            "epoch": "1",
            "order": "[0, 1, 2, 3, 4]",
            "label_probabilities": "[0.2, 0.2, 0.2, 0.2, 0.2]",
        },
    }


def _inspect() -> dict[str, Any]:
    log = inspect_document("plain.eval")
    return log | {"samples": [_small(sample) for sample in log["samples"]]}


def _small(sample: dict[str, Any]) -> dict[str, Any]:
    """Return those fields of a sample that the importer reads."""
    keys = ("id", "epoch", "input", "choices", "target", "output", "scores", "metadata", "error")
    return {key: sample[key] for key in keys if key in sample}


def _inspect_header() -> dict[str, Any]:
    return {key: value for key, value in _inspect().items() if key != "samples"}


def _inspect_entries() -> dict[str, Any]:
    log = _inspect()
    samples = {f"samples/{number}_epoch_1.json": sample for number, sample in enumerate(log["samples"])}
    return {"header.json": _inspect_header(), **samples}


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


_LETTERS: Final = Path("predictions/smollm2/csqa_letters.json")
_WRITTEN: Final = Path("predictions/smollm2/csqa_written.json")
_DETAILS: Final = next(path for path in sorted((DATA / "lighteval").rglob("details_csqa_letters*.parquet")))
_LIGHTEVAL_RESULTS: Final = next(path for path in sorted((DATA / "lighteval" / "results").rglob("*.json")))
_OPENCOMPASS_RESULTS: Final = Path("results/smollm2/csqa_written.json")
_HEADING: Final = ["id", "subject", "question", "options", "answer", "note"]
_LETTERS_HEADING: Final = ["question_id", "m"]


def _opencompass() -> Any:
    return _json(DATA / "opencompass" / _LETTERS)


def _opencompass_prediction(folder: Path, text: str) -> Path:
    return _results_of("opencompass", _LETTERS, str(_LETTERS))(folder, text)


def _make_lines(line: Callable[[int], Any], count: int = 5, read: Callable[[Engine, Path], Any] = _outputs) -> Importer:
    return Importer(line(0), _lines("o.jsonl", [line(number) for number in range(1, count)]), read)


def _make_run(run: str, name: str, read: Callable[[Engine, Path], Any] = _outputs) -> Importer:
    return Importer(_json(HELM / run / name), _write_beside(HELM / run, name), read)


IMPORTERS: Final[dict[str, Importer]] = {
    "the outputs contract": _make_lines(_contract_line),
    "IBM/cat": _make_lines(_cat_line),
    "lm-evaluation-harness": _make_lines(_harness_line),
    "SCORE": _make_lines(_score_line, 4, _outputs_of_first),
    "Every Eval Ever": _make_lines(_eee_line),
    "a table of letters": Importer(
        {"question_id": QUESTIONS[0]["id"], "m": "A"}, _cells(_LETTERS_HEADING), _outputs_of_first
    ),
    "HELM's state": _make_run("joint", "scenario_state.json"),
    "HELM's separate state": _make_run("separate", "scenario_state.json"),
    "HELM's instances": _make_run("joint", "per_instance_stats.json"),
    "HELM's statistics": _make_run("joint", "stats.json"),
    "HELM's specification": Importer({"name": "csqa"}, _write_beside(HELM / "joint", "run_spec.json"), _outputs),
    "HELM's questions": _make_run("joint", "scenario_state.json", _questions_of_log),
    "Inspect's document": Importer(_inspect(), _file("log.json"), _outputs),
    "Inspect's shuffled document": Importer(_json(INSPECT / "shuffled_dataset.json"), _file("log.json"), _outputs),
    "Inspect's header": Importer(_inspect_header(), _entry("header.json", _inspect_entries()), _outputs),
    "Inspect's sample": Importer(
        _inspect()["samples"][0], _entry("samples/0_epoch_1.json", _inspect_entries()), _outputs
    ),
    "Inspect's questions": Importer(_inspect(), _file("log.json"), _questions_of_log),
    "OpenCompass's predictions": Importer(_opencompass(), _opencompass_prediction, _outputs),
    "OpenCompass's results": Importer(
        _json(DATA / "opencompass" / _OPENCOMPASS_RESULTS),
        _results_of("opencompass", _WRITTEN, str(_OPENCOMPASS_RESULTS)),
        _outputs,
    ),
    "lighteval's results": Importer(
        _json(_LIGHTEVAL_RESULTS),
        _results_of(
            "lighteval",
            _DETAILS.relative_to(DATA / "lighteval"),
            str(_LIGHTEVAL_RESULTS.relative_to(DATA / "lighteval")),
        ),
        _outputs,
    ),
    "a benchmark": Importer(
        QUESTIONS[0] | {"context": "c", "cluster": "1", "split": "test", "note": {"a": [1, "b"]}},
        _lines("b.jsonl", []),
        _benchmark,
    ),
    "a benchmark's table": Importer(
        {"id": "q", "subject": "s", "question": "q?", "options": ["a", "b"], "answer": 1, "note": "n"},
        _cells(_HEADING),
        _benchmark,
    ),
    "records of a data set": Importer([{"id": 1, "question": "q?"}], _file("rows.json"), _rows),
    "a protocol in JSON": Importer(
        {
            "name": "mine",
            "base": "match-dash",
            "generation": {"temperature": 0.5, "max_tokens": 3, "stop": ["x"]},
            "instruction": "Answer.",
        },
        _file("p.json"),
        lambda _, path: read_protocol_file(path),
    ),
}


# Definitions in TOML


@dataclass(frozen=True)
class Definition:
    """The text of a definition with one key per line, and the function that reads its file."""

    text: str
    read: Callable[[Path], Any]

    @property
    def keys(self) -> list[str]:
        """Return the keys whose values are on the same line."""
        return [line.partition(" = ")[0] for line in self.text.splitlines() if " = " in line]

    def with_value(self, key: str, value: str) -> str:
        """Return the text with another value for a key."""
        lines = self.text.splitlines()
        return "\n".join(f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in lines) + "\n"


DEFINITIONS: Final[dict[str, Definition]] = {
    "a suite": Definition(
        'name = "hostile"\ntitle = "A suite"\ntext = "What it is for."\n[[tasks]]\nname = "t"\n'
        'benchmarks = ["csqa"]\nvariants = ["cyclic"]\nprotocols = ["symbols"]\nshots = 0\n',
        read_suite_file,
    ),
    "a board": Definition(
        'name = "hostile"\ntitle = "A board"\nsuite = "robustness-core"\ncolumns = ["accuracy@cyclic"]\n'
        'benchmarks = ["csqa"]\nsort = "accuracy@cyclic"\n',
        read_board_file,
    ),
    "a protocol": Definition(
        'name = "hostile"\nbase = "match-dash"\ninstruction = "Answer."\n[generation]\ntemperature = 0.5\n'
        'max_tokens = 3\nstop = ["x"]\n',
        read_protocol_file,
    ),
    "a description of a registry": Definition(
        '[[models]]\nname = "n"\nkind = "external"\nurl = "https://example.org/"\n', read_manifest
    ),
    "a recipe": Definition(
        'title = "A recipe"\nrepository = "owner/name"\nlicence = "MIT"\ncitation = "c"\n[questions]\nfiles = "data/*.jsonl"\n'
        'split = "test"\ncount = 5\n[columns]\nid = "{row}"\nsubject = "s"\nquestion = "{question}"\n'
        'options = "options"\nanswer = { index = "answer" }\n',
        read_recipe,
    ),
}
