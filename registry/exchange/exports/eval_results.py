"""Results in the format of Hugging Face's hub: a YAML file for the folder `.eval_results/` of each model's repository.

Specification: https://github.com/huggingface/hub-docs/blob/main/eval_results.yaml. A file is a list of entries, and an
entry is one value for one task of a dataset. An export has a file for each evaluation, since a model may be evaluated
in several ways, and in it an entry for each metric for which the request names a task.
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
from registry.metrics import METRICS
from registry.settings import get_settings
from registry.tables import Evaluation
from registry.verdicts.wording import lowered

METRICS_SHOWN: Final = ("accuracy", "right_twice_across_orders", "order_loss")
"""Metrics that may have a task on the hub. A task given without a metric is for the first one."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def eval_results(
    session: Session, selection: Selection, folder: Path, report: Callable[[str, int, int | None], None]
) -> list[dict[str, Any]]:
    """Write the metrics of each sealed evaluation that was not withdrawn; return a manifest entry for each file.

    Benchmarks whose source is not a dataset of the hub, and evaluations without any of the metrics, are left out.
    Raises UsageError for a benchmark without a task in the request, NotFoundError if nothing is left.
    """
    tasks = _tasks(selection.request.tasks)
    withdrawn = set(session.scalars(text("SELECT evaluation_id FROM withdrawals")))
    entries: list[dict[str, Any]] = []
    for done, evaluation_id in enumerate(selection.evaluation_ids, start=1):
        evaluation = session.get(Evaluation, evaluation_id)
        if evaluation is None or evaluation.seal is None or evaluation_id in withdrawn:
            continue
        documents = _documents(session, evaluation, tasks)
        if documents:
            place = Path(*model_info(evaluation.model_revision)["id"].split("/"), ".eval_results")
            (folder / place).mkdir(parents=True, exist_ok=True)
            file = place / f"{evaluation.benchmark_version.benchmark.name}-{evaluation.seal[:12]}.yaml"
            (folder / file).write_text("".join(map(_yaml, documents)), encoding="utf-8")
            entries.append({"file": file.as_posix(), "relation": "result", "rows": len(documents)})
        report("evaluations", done, len(selection.evaluation_ids))
    if not entries:
        raise NotFoundError(
            "no sealed evaluation with such a metric on a data set of the hub is selected; import the benchmark with "
            "--source https://huggingface.co/datasets/OWNER/NAME, or leave out a filter"
        )
    return entries


def _tasks(texts: tuple[str, ...]) -> dict[tuple[str, str], str]:
    """Map benchmark and metric to the task, from texts such as `mmlu-pro=mmlu_pro` and `mmlu-pro:order_loss=loss`."""
    tasks = {}
    for item in texts:
        named, equals, task = item.partition("=")
        benchmark, _, metric = named.partition(":")
        if not (benchmark and equals and task):
            raise UsageError(f"--task {item!r}: give BENCHMARK=TASK, such as mmlu-pro=mmlu_pro")
        if metric and metric not in METRICS_SHOWN:
            raise UsageError(f"--task {item!r}: {metric} is not exported; give one of {', '.join(METRICS_SHOWN)}")
        tasks[benchmark, metric or METRICS_SHOWN[0]] = task
    return tasks


def _documents(session: Session, evaluation: Evaluation, tasks: dict[tuple[str, str], str]) -> list[dict[str, Any]]:
    """Return an entry for each metric of an evaluation that has a value and a task."""
    version = evaluation.benchmark_version
    name = version.benchmark.name
    hub = HUB_DATASET.fullmatch(version.source or "")
    query = text(
        "SELECT metric, value FROM evaluation_metrics WHERE evaluation_id = :id AND scope = 'all' AND value IS NOT NULL"
    )
    values = {row.metric: float(row.value) for row in session.execute(query, {"id": evaluation.id})}
    shown = [metric for metric in METRICS_SHOWN if metric in values]
    if hub is None or not shown:
        return []
    if not any((name, metric) in tasks for metric in METRICS_SHOWN):
        raise UsageError(
            f"benchmark {name}: its task on the hub is not known; give --task {name}=TASK, a task that eval.yaml of "
            f"{hub.group(1)} defines"
        )
    assert evaluation.sealed_at is not None
    protocol = evaluation.protocol
    shared: dict[str, Any] = {"date": utc_text(evaluation.sealed_at)}
    base = get_settings().public_url.rstrip("/")
    if base:
        shared["source"] = {"url": f"{base}/evaluations/{evaluation.id}", "name": "Shuffleboard"}
    values_text = ", ".join(f"{lowered(METRICS[metric].label)} {values[metric]:.4f}" for metric in shown)
    shared["notes"] = (
        f"{protocol.name}, {protocol.shots}-shot, {evaluation.variant_set.name}, {evaluation.questions} questions; "
        f"{values_text}; seal {evaluation.seal}"
    )
    revision = {"revision": version.version} if _COMMIT.fullmatch(version.version) else {}
    return [
        {"dataset": {"id": hub.group(1), "task_id": tasks[name, metric]} | revision, "value": values[metric]} | shared
        for metric in shown
        if (name, metric) in tasks
    ]


def _yaml(document: dict[str, Any]) -> str:
    """Return a YAML list of one entry.

    Texts and numbers are written as JSON, which YAML includes: a quoted date stays a text.
    """
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines.append(f"{key}:")
            lines += [f"  {name}: {json.dumps(item)}" for name, item in value.items()]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "".join(f"{'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(lines))
