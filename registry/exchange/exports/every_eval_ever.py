"""Results in the schema of Every Eval Ever 0.3.0: one JSON document per evaluation, and a file with its answers.

Schema and layout of the folders: https://github.com/evaleval/every_eval_ever (MIT). Facts that the schema has no field
for go into its `additional_details`, whose values are texts.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry import __version__
from registry.benchmarks.canary import canary
from registry.db import utc_text
from registry.digests import sha256_file, sha256_text
from registry.errors import NotFoundError
from registry.exchange.exports.relations import RELATIONS, batches
from registry.exchange.exports.selection import Selection
from registry.metrics import METRICS, Metric
from registry.tables import EngineFingerprint, Evaluation, ModelRevision, Question, QuestionOption, Shard

SCHEMA_VERSION: Final = "0.3.0"
UNKNOWN_DEVELOPER: Final = "local"
"""Name of an unknown developer: the schema requires an id of two parts, and its datastore allows no "unknown"."""
CONFIDENCE_LEVEL: Final = 0.95
ORDER_METRICS: Final = ("average_accuracy", "right_twice_across_orders", "order_loss")
"""Metrics written with each accuracy, in the schema's field for additional details."""

# Format of an import → name of the program, as the schema's own converters write it.
_LIBRARIES: Final[Mapping[str, str]] = {
    "helm": "helm",
    "inspect": "inspect_ai",
    "lm-evaluation-harness": "lm_eval",
}
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
HUB_DATASET: Final = re.compile(r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)/?")
_LINE_ENDS: Final = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}
_CHUNK: Final = 1000
"""Number of predictions for which the texts of questions are fetched at once."""


def every_eval_ever(
    session: Session, selection: Selection, folder: Path, report: Callable[[str, int, int | None], None]
) -> list[dict[str, Any]]:
    """Write the sealed evaluations of a selection that were not withdrawn; return a manifest entry for each file.

    Raises NotFoundError if there is none.
    """
    withdrawn = set(session.scalars(text("SELECT evaluation_id FROM withdrawals")))
    entries: list[dict[str, Any]] = []
    for done, evaluation_id in enumerate(selection.evaluation_ids, start=1):
        evaluation = session.get(Evaluation, evaluation_id)
        if evaluation is None or evaluation.seal is None or evaluation_id in withdrawn:
            continue
        entries += _evaluation(session, selection, evaluation, folder)
        report("evaluations", done, len(selection.evaluation_ids))
    if not entries:
        raise NotFoundError(
            "no sealed evaluation is selected, and the schema is for finished ones; wait for one, or leave out a filter"
        )
    return entries


def _evaluation(session: Session, selection: Selection, evaluation: Evaluation, folder: Path) -> list[dict[str, Any]]:
    assert evaluation.seal is not None
    name = _file_id(evaluation.seal)
    model = model_info(evaluation.model_revision)
    place = Path("data", evaluation.benchmark_version.benchmark.name, *model["id"].split("/"))
    (folder / place).mkdir(parents=True, exist_ok=True)
    document = _document(session, selection, evaluation, model)
    entries = []
    if evaluation.id not in selection.archived:
        samples = place / f"{name}_samples.jsonl"
        rows = _write_samples(session, selection, evaluation, document, folder / samples)
        entries.append({"file": samples.as_posix(), "relation": "samples", "rows": rows})
        document["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": samples.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": sha256_file(folder / samples),
            "total_rows": rows,
        }
    document_file = place / f"{name}.json"
    written = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / document_file).write_text(written + "\n", encoding="utf-8")
    return [{"file": document_file.as_posix(), "relation": "evaluation", "rows": 1}, *entries]


def _write_samples(
    session: Session, selection: Selection, evaluation: Evaluation, document: Mapping[str, Any], path: Path
) -> int:
    """Write a line for each answer, and return the number of lines."""
    results = {result["evaluation_result_id"] for result in document["evaluation_results"]}
    rows = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in _records(session, selection, evaluation, document, results):
            file.write(_line(record))
            rows += 1
    return rows


def _line(record: Mapping[str, Any]) -> str:
    """Format a record as one line of JSON, with Unicode line separators escaped."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS) + "\n"


def _file_id(seal: str) -> str:
    """Derive a UUID from the seal, the same in every export, in the form of version 4 that the datastore requires."""
    return str(UUID(bytes=hashlib.sha256(bytes.fromhex(seal)).digest()[:16], version=4))


def model_info(revision: ModelRevision) -> dict[str, Any]:
    """Describe the model in the schema's terms; weights from the hub keep the hub's id."""
    model = revision.model
    from_hub = revision.kind == "huggingface" and revision.revision is not None
    location = revision.location or ""
    if from_hub and _HUB_NAME.fullmatch(location):
        identity = location
    else:
        identity = f"{_component(model.developer or UNKNOWN_DEVELOPER)}/{model.name}"
    local = revision.kind in ("huggingface", "gguf")
    details = {
        "deployment_type": "self_deployed" if local else "unknown",
        "model_availability": "open_weights" if local and from_hub else "unknown",
        "revision_number": revision.number,
        "kind": revision.kind,
        "commit": revision.revision,
        "dtype": revision.dtype,
        "quantisation": revision.quantisation,
        "weights_sha256": revision.weights_digest,
        "tokenizer_sha256": revision.tokenizer_digest,
        "parameters": model.parameters,
        "family": model.family,
        "licence": model.licence,
    }
    info: dict[str, Any] = {"name": model.name, "id": identity}
    if model.developer:
        info["developer"] = model.developer
    return info | {"additional_details": _texts(details)}


def _component(name: str) -> str:
    """Turn a name into a folder's name: letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or UNKNOWN_DEVELOPER


def _texts(details: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in details.items() if value is not None}


def _document(session: Session, selection: Selection, evaluation: Evaluation, model: dict[str, Any]) -> dict[str, Any]:
    assert evaluation.sealed_at is not None
    request = selection.request
    fingerprint = _fingerprint(session, evaluation)
    retrieved = str(int(selection.as_of.timestamp()))
    protocol, version = evaluation.protocol, evaluation.benchmark_version
    replicate = f":replicate-{evaluation.replicate}" if evaluation.replicate else ""
    setting = f"{version.benchmark.name}:{protocol.name}:{protocol.shots}-shot:{evaluation.variant_set.name}{replicate}"
    organisation = request.organisation
    relationship = "other"
    if organisation is not None and evaluation.model_revision.model.developer is not None:
        is_developer = organisation.casefold() == evaluation.model_revision.model.developer.casefold()
        relationship = "first_party" if is_developer else "third_party"
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{setting}/{model['id']}/{retrieved}",
        "evaluation_timestamp": str(int(evaluation.sealed_at.timestamp())),
        "retrieved_timestamp": retrieved,
        "source_metadata": {
            "source_name": "Shuffleboard",
            "source_type": "evaluation_run",
            "source_organization_name": organisation or "unknown",
            "evaluator_relationship": relationship,
            "additional_details": _texts(
                {
                    "seal": evaluation.seal,
                    "specification_digest": evaluation.specification_digest,
                    "sealed_at": utc_text(evaluation.sealed_at),
                    "canary": canary(version.content_digest),
                }
            ),
        },
        "eval_library": _library(fingerprint, request.code_version),
        "model_info": model | _engine(fingerprint),
        "evaluation_results": list(_results(session, evaluation)),
    }


def _fingerprint(session: Session, evaluation: Evaluation) -> Mapping[str, Any]:
    """Return the engine's fingerprint from the first shard of an evaluation."""
    query = (
        select(EngineFingerprint.document)
        .join(Shard, Shard.engine_fingerprint_id == EngineFingerprint.id)
        .where(Shard.evaluation_id == evaluation.id)
        .order_by(Shard.ordinal)
        .limit(1)
    )
    document: Mapping[str, Any] = session.scalar(query) or {}
    return document


def _library(fingerprint: Mapping[str, Any], code_version: str) -> dict[str, Any]:
    """Return the program that ran the model: this one, or the program whose outputs were imported."""
    details = _texts({"metrics_by": f"shuffleboard {__version__}", "exported_by": code_version or None})
    if fingerprint.get("engine") != "replay":
        return {"name": "shuffleboard", "version": __version__, "additional_details": details}
    name = _LIBRARIES.get(str(fingerprint.get("format")), "unknown")
    version = fingerprint.get("log", {}).get(name, "unknown")
    return {"name": name, "version": version, "additional_details": details}


def _engine(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    version = fingerprint.get("packages", {}).get("transformers")
    return {} if version is None else {"inference_engine": {"name": "transformers", "version": version}}


def _results(session: Session, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """Yield a result for each metric over all questions that has a value."""
    rows = session.execute(
        text("SELECT * FROM evaluation_metrics WHERE evaluation_id = :id AND scope = 'all' ORDER BY metric"),
        {"id": evaluation.id},
    ).mappings()
    protocol = evaluation.protocol
    by_name = {row["metric"]: dict(row) for row in rows.all()}
    for row in by_name.values():
        metric = METRICS.get(row["metric"])
        if metric is None or row["value"] is None:
            continue
        yield {
            "evaluation_result_id": metric.name,
            "evaluation_name": evaluation.benchmark_version.benchmark.name,
            "source_data": _source(evaluation),
            "evaluation_timestamp": str(int(evaluation.sealed_at.timestamp())) if evaluation.sealed_at else "",
            "metric_config": _metric_config(metric, evaluation, int(row["definition_version"])),
            "score_details": {
                "score": float(row["value"]),
                "details": _texts(
                    {"questions": evaluation.questions, "prompts": evaluation.prompts}
                    | (_order_details(by_name) if metric.name == "accuracy" else {})
                ),
                "uncertainty": _uncertainty(row),
            },
            "generation_config": _generation_config(protocol.definition, protocol.shots),
        }


def _order_details(by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the order metrics with their intervals as details of the accuracy, for readers of no other metric."""
    details: dict[str, Any] = {}
    for name in ORDER_METRICS:
        row = by_name.get(name, {"value": None})
        if row["value"] is None:
            continue
        details[f"shuffleboard.{name}"] = float(row["value"])
        if row["interval_low"] is not None:
            details[f"shuffleboard.{name}.interval"] = f"{float(row['interval_low'])} to {float(row['interval_high'])}"
    return details


def _metric_config(metric: Metric, evaluation: Evaluation, definition_version: int) -> dict[str, Any]:
    """Describe a metric in the schema's terms. `accuracy` means the same everywhere; the others carry our namespace."""
    return {
        "evaluation_description": metric.summary,
        "metric_id": "accuracy" if metric.name == "accuracy" else f"shuffleboard.{metric.name}",
        "metric_name": metric.label,
        "metric_unit": "proportion" if metric.unit == "fraction" else metric.unit,
        "metric_parameters": {
            "variants": evaluation.variant_set.name,
            "protocol": evaluation.protocol.name,
            "shots": evaluation.protocol.shots,
            "definition_version": definition_version,
        },
        # The schema has two directions; the details of a metric without a direction note that it has none.
        "lower_is_better": metric.better == "lower",
        "score_type": "continuous",
        "min_score": "-Infinity" if metric.low is None else metric.low,
        "max_score": "Infinity" if metric.high is None else metric.high,
        "additional_details": {"better": metric.better, "definition": metric.source},
    }


def _uncertainty(row: Mapping[str, Any]) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {"num_samples": int(row["n"])}
    if row["interval_low"] is not None:
        uncertainty["confidence_interval"] = {
            "lower": float(row["interval_low"]),
            "upper": float(row["interval_high"]),
            "confidence_level": CONFIDENCE_LEVEL,
            "method": row["interval_method"] or "bootstrap",
        }
        if row["interval_resamples"] is not None:
            uncertainty["num_bootstrap_samples"] = int(row["interval_resamples"])
    return uncertainty


def _source(evaluation: Evaluation) -> dict[str, Any]:
    version = evaluation.benchmark_version
    details = _texts(
        {
            "version": version.version,
            "content_sha256": version.content_digest,
            "split": version.split,
            "language": version.language,
            "licence": version.licence,
            "source": version.source,
        }
    )
    name = version.benchmark.name
    hub = HUB_DATASET.fullmatch(version.source or "")
    if hub is not None:
        return {
            "dataset_name": name,
            "source_type": "hf_dataset",
            "hf_repo": hub.group(1),
            "hf_split": version.split,
            "samples_number": version.questions,
            "additional_details": details,
        }
    if (version.source or "").startswith(("https://", "http://")):
        return {
            "dataset_name": name,
            "source_type": "url",
            "url": [version.source],
            "additional_details": details,
        }
    return {"dataset_name": name, "source_type": "other", "additional_details": details}


def _generation_config(definition: Mapping[str, Any], shots: int) -> dict[str, Any]:
    details = {"shots": str(shots), "protocol": json.dumps(definition, ensure_ascii=False, sort_keys=True)}
    generation = definition.get("generation")
    if not isinstance(generation, Mapping):
        # Nothing is written: the options' log-probabilities are read.
        return {"additional_details": details}
    arguments: dict[str, Any] = {"max_tokens": int(generation["max_tokens"])}
    if generation.get("sampling") == "greedy":
        arguments["temperature"] = 0.0
    else:
        arguments |= {"temperature": float(generation["temperature"]), "top_p": float(generation["top_p"])}
        arguments["top_k"] = int(generation["top_k"])
    return {"generation_args": arguments, "additional_details": details}


def _records(
    session: Session, selection: Selection, evaluation: Evaluation, document: Mapping[str, Any], results: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield a record for each prompt and result that includes it, or one without a result if none does."""
    one_evaluation = replace(selection, evaluation_ids=(evaluation.id,))
    mark = canary(evaluation.benchmark_version.content_digest)
    name = evaluation.benchmark_version.benchmark.name
    inserted = {int(ordinal): shown for ordinal, shown in evaluation.variant_set.inserted.items()}
    original: set[int] = set()
    for batch in batches(session, RELATIONS["predictions"], one_evaluation):
        for start in range(0, len(batch), _CHUNK):
            rows = batch[start : start + _CHUNK]
            questions = _questions(session, sorted({row["question_id"] for row in rows}))
            for row in rows:
                parts = []
                # The original is the lowest unchanged variant; rows are ordered by question and variant.
                if row["unchanged"] and row["question_id"] not in original:
                    original.add(row["question_id"])
                    parts.append("accuracy")
                if row["own_options"] and row["question_shown"]:
                    parts.append("average_accuracy")
                named: Sequence[str | None] = [part for part in parts if part in results] or [None]
                for result in named:
                    yield _record(row, questions[row["question_id"]], document, inserted, mark, name, result)


def _questions(session: Session, ids: Sequence[int]) -> dict[int, tuple[str, str | None, list[str]]]:
    """Return (text, context, options) of each question."""
    query = select(Question.id, Question.text, Question.context).where(Question.id.in_(ids))
    by_id: dict[int, tuple[str, str | None, list[str]]] = {
        row.id: (row.text, row.context, []) for row in session.execute(query)
    }
    options = (
        select(QuestionOption.question_id, QuestionOption.text)
        .where(QuestionOption.question_id.in_(ids))
        .order_by(QuestionOption.question_id, QuestionOption.ordinal)
    )
    for question_id, option in session.execute(options):
        by_id[question_id][2].append(option)
    return by_id


def _record(
    row: Mapping[str, Any],
    question: tuple[str, str | None, list[str]],
    document: Mapping[str, Any],
    inserted: Mapping[int, str],
    mark: str,
    name: str,
    result: str | None,
) -> dict[str, Any]:
    question_text, context, options = question
    raw = question_text if context is None else f"{context}\n\n{question_text}"
    if not row["question_shown"]:
        raw = ""
    reference = options[row["answer"]]
    shown = [options[option] if option >= 0 else inserted.get(option, "") for option in row["shown"]]
    chosen = None if row["chosen_position"] is None else shown[row["chosen_position"]]
    written = row["generation"]
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": document["evaluation_id"],
        "model_id": document["model_info"]["id"],
        "evaluation_name": name,
        "evaluation_result_id": result,
        "sample_id": row["external_id"],
        "sample_hash": sha256_text(raw + reference),
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": [reference], "choices": shown},
        # If nothing was written, the answer is the option that the probabilities chose.
        "output": {"raw": [written] if written is not None else [chosen] if chosen is not None else []},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": chosen,
                "extraction_method": _extraction(row),
                "is_terminal": True,
            }
        ]
        if chosen is not None
        else [],
        "evaluation": {"score": 1.0 if row["correct"] else 0.0, "is_correct": bool(row["correct"])},
        "metadata": _texts(
            {
                "variant": row["variant"],
                "variant_name": row["variant_name"],
                "order": json.dumps(row["shown"]),
                "subject": row["subject"],
                "prompt_sha256": row["prompt_digest"],
                "label_probabilities": _numbers(row["label_probabilities"]),
                "canary": mark,
            }
        ),
    }
    if result is None:
        del record["evaluation_result_id"]
    return record


def _extraction(row: Mapping[str, Any]) -> str:
    """Return how the answer was found: a rule, the highest probability, or a statement in recorded outputs."""
    if row["extraction_rule"] is not None:
        return str(row["extraction_rule"])
    probabilities = row["label_probabilities"]
    if row["generation"] is None and probabilities and probabilities[row["chosen_position"]] == max(probabilities):
        return "highest_log_probability"
    return "stated"


def _numbers(values: Sequence[float] | None) -> str | None:
    return None if values is None else json.dumps(values)
