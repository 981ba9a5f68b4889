"""The questions of the logs in tests/data, and copies of these logs with changes."""

import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from registry.logs.documents import Log, open_archive, read_archived_json
from registry.logs.imports.agreement import Agreement, order_by_key, settle
from registry.logs.imports.repeats import Prompts
from registry.logs.recognition import log_file, read_log
from registry.logs.record import KnownQuestion, Recorded
from tests.outputs.conftest import DATA

SAMPLES = Path(__file__).parents[2] / "registry" / "benchmarks" / "samples" / "csqa.jsonl"
QUESTIONS = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").split("\n")[:5]]
IDS = [question["id"] for question in QUESTIONS]
HELM = DATA / "helm"
INSPECT = DATA / "inspect"


def list_known() -> dict[str, KnownQuestion]:
    """Return the five questions in the form that readers of logs require."""
    return {
        item["id"]: KnownQuestion(number, item["id"], number, item["question"], tuple(item["options"]), item["answer"])
        for number, item in enumerate(QUESTIONS)
    }


def read(path: Path) -> Log:
    """Read a log of the five questions as an import does."""
    file = log_file(path)
    assert file is not None
    log = read_log(file, list_known())
    return replace(log, recorded=agree(log.recorded, log.stated, file.name))


def agree(recorded: Iterable[Recorded], stated: float | None = None, file: str = "the log") -> list[Recorded]:
    """Read labels by the convention that reproduces the log's scores."""
    agreement, prompts, collected = Agreement(file), Prompts(), []
    for item in map(order_by_key, recorded):
        if prompts.add(item):
            agreement.add(item)
            collected.append(item)
        else:
            agreement.add_repeat(item)
    convention = agreement.choose(stated, ignore=False)
    return [settle(item, convention) for item in collected]


GONE: Final = object()
"""A value with which `place` deletes an entry."""


def place(where: str, value: Any) -> Callable[[Any], None]:
    """Return a function that sets the value at a place in a document, such as `samples/0/target`."""

    def change(document: Any) -> None:
        *way, last = [int(key) if key.isdecimal() else key for key in where.split("/")]
        for key in way:
            document = document[key]
        if value is GONE:
            del document[last]
        else:
            document[last] = value

    return change


def helm_copy(folder: Path, run: str, **changes: Callable[[Any], Any]) -> Path:
    """Copy a run's folder and change some of its files; return the copy.

    changes: name of a file, without .json, → function that changes or replaces its document.
    """
    copied = folder / f"{run}-copy"
    shutil.copytree(HELM / run, copied)
    for name, change in changes.items():
        path = copied / f"{name}.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        changed = change(document)
        path.write_text(json.dumps(document if changed is None else changed), encoding="utf-8")
    return copied


def inspect_document(name: str) -> dict[str, Any]:
    """Return a log as one document, from either of the two formats."""
    path = INSPECT / name
    if path.suffix == ".json":
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return document
    archive = open_archive(path)
    samples = [read_archived_json(archive, entry) for entry in archive.names() if entry.startswith("samples/")]
    return {**read_archived_json(archive, "header.json"), "samples": samples}


def inspect_copy(folder: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Write a changed copy of a log as a .json file; return its path."""
    document = inspect_document(name)
    changed = change(document)
    path = folder / "log.json"
    path.write_text(json.dumps(document if changed is None else changed), encoding="utf-8")
    return path


def deflate(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write a log as an archive with the older compression; return its path."""
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({key: value for key, value in document.items() if key != "samples"}))
        for number, sample in enumerate(document["samples"]):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    return path
