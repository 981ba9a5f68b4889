"""Accuracies as Hugging Face's hub shows them: a YAML file for `.eval_results/` in the repository of each model.

Specification: https://github.com/huggingface/hub-docs/blob/main/eval_results.yaml. A file is a list of entries; ours
have one each, since a model may be evaluated in several ways and each way is a file of its own there.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.db import utc_text
from registry.errors import NotFoundError, UsageError
from registry.exchange.exports.every_eval_ever import HUB_DATASET, model_info
from registry.exchange.exports.selection import Selection
from registry.settings import get_settings
from registry.tables import Evaluation

METRIC: Final = "accuracy"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def eval_results(
    session: Session, selection: Selection, folder: Path, report: Callable[[str, int, int | None], None]
) -> list[dict[str, Any]]:
    """Writes the accuracy of each sealed evaluation that was not withdrawn; returns an entry for each file.

    Benchmarks whose source is no data set of the hub, and evaluations without an accuracy, are left out.
    Raises UsageError for a benchmark whose task on the hub was not given, NotFoundError where nothing is left.
    """
    tasks = _tasks(selection.request.tasks)
    withdrawn = set(session.scalars(text("SELECT evaluation_id FROM withdrawals")))
    entries: list[dict[str, Any]] = []
    for done, evaluation_id in enumerate(selection.evaluation_ids, start=1):
        evaluation = session.get(Evaluation, evaluation_id)
        if evaluation is None or evaluation.seal is None or evaluation_id in withdrawn:
            continue
        document = _document(session, evaluation, tasks)
        if document is not None:
            place = Path(*model_info(evaluation.model_revision)["id"].split("/"), ".eval_results")
            (folder / place).mkdir(parents=True, exist_ok=True)
            file = place / f"{evaluation.benchmark_version.benchmark.name}-{evaluation.seal[:12]}.yaml"
            (folder / file).write_text(_yaml(document), encoding="utf-8")
            entries.append({"file": file.as_posix(), "relation": "result", "rows": 1})
        report("evaluations", done, len(selection.evaluation_ids))
    if not entries:
        raise NotFoundError(
            "no sealed evaluation with an accuracy on a data set of the hub is selected; import the benchmark with "
            "--source https://huggingface.co/datasets/OWNER/NAME, or leave out a filter"
        )
    return entries


def _tasks(given: tuple[str, ...]) -> dict[str, str]:
    """Benchmark to task, of texts such as `mmlu-pro=mmlu_pro`."""
    tasks = {}
    for item in given:
        benchmark, equals, task = item.partition("=")
        if not (benchmark and equals and task):
            raise UsageError(f"--task {item!r}: give BENCHMARK=TASK, such as mmlu-pro=mmlu_pro")
        tasks[benchmark] = task
    return tasks


def _document(session: Session, evaluation: Evaluation, tasks: dict[str, str]) -> dict[str, Any] | None:
    version = evaluation.benchmark_version
    name = version.benchmark.name
    hub = HUB_DATASET.fullmatch(version.source or "")
    value = session.scalar(
        text("SELECT value FROM evaluation_metrics WHERE evaluation_id = :id AND metric = :metric AND scope = 'all'"),
        {"id": evaluation.id, "metric": METRIC},
    )
    if hub is None or value is None:
        return None
    if name not in tasks:
        raise UsageError(
            f"benchmark {name}: its task on the hub is not known; give --task {name}=TASK, a task that eval.yaml of "
            f"{hub.group(1)} defines"
        )
    assert evaluation.sealed_at is not None
    dataset = {"id": hub.group(1), "task_id": tasks[name]}
    if _COMMIT.fullmatch(version.version):
        dataset["revision"] = version.version
    protocol = evaluation.protocol
    document = {
        "dataset": dataset,
        "value": float(value),
        "date": utc_text(evaluation.sealed_at),
        "notes": f"{protocol.name}, {protocol.shots}-shot, {evaluation.variant_set.name}, {evaluation.questions} "
        f"questions; seal {evaluation.seal}",
    }
    base = get_settings().public_url.rstrip("/")
    if base:
        document["source"] = {"url": f"{base}/evaluations/{evaluation.id}", "name": "Shuffleboard"}
    return document


def _yaml(document: dict[str, Any]) -> str:
    """A list of one entry. JSON's texts and numbers are YAML's too, quoted, so that a date stays a text."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines.append(f"{key}:")
            lines += [f"  {name}: {json.dumps(item)}" for name, item in value.items()]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "".join(f"{'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(lines))
