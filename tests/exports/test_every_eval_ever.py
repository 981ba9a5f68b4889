"""Exports to Every Eval Ever, checked by that project's schema and against the registry's numbers."""

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from sqlalchemy import text

from registry.db import read_session
from registry.errors import NotFoundError
from registry.exchange.exports import ExportRequest, export
from registry.exchange.exports.every_eval_ever import model_info
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.tables import Model, ModelRevision
from tests.exports.conftest import Filled, many_evaluations
from tests.outputs.conftest import Registry
from tests.outputs.logs import INSPECT, QUESTIONS

SCHEMAS = Path(__file__).parents[1] / "data" / "every_eval_ever"


def _validator(name: str) -> Any:
    return jsonschema_rs.Draft7Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))


def _export(filled: Filled, out: Path, **more: Any) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return seal → (document, records), after checking them with the schemas and against each other."""
    manifest = export(filled.engine, ExportRequest("every-eval-ever", **more), out)
    aggregate, single = _validator("eval.schema.json"), _validator("instance_level_eval.schema.json")
    documents = {}
    for entry in manifest["files"]:
        if entry["relation"] != "evaluation":
            continue
        document = json.loads((out / entry["file"]).read_text(encoding="utf-8"))
        assert [error.message for error in aggregate.iter_errors(document)] == []
        detailed = document["detailed_evaluation_results"]
        samples = (out / detailed["file_path"]).read_bytes()
        assert detailed["checksum"] == hashlib.sha256(samples).hexdigest()
        records = [json.loads(line) for line in samples.decode().split("\n") if line]
        assert detailed["total_rows"] == len(records) == len(samples.decode().splitlines())
        for record in records:
            assert [error.message for error in single.iter_errors(record)] == []
            assert record["evaluation_id"] == document["evaluation_id"]
            assert record["model_id"] == document["model_info"]["id"]
        assert entry["file"].split("/")[:4] == ["data", "odd", *document["model_info"]["id"].split("/")]
        documents[document["source_metadata"]["additional_details"]["seal"]] = (document, records)
    return documents


def test_documents_keep_the_schema_and_hold_the_registrys_numbers(filled: Filled, tmp_path: Path) -> None:
    documents = _export(filled, tmp_path / "out", organisation="Someone")
    assert len(documents) == 2
    with read_session(filled.engine) as session:
        query = text(
            "SELECT evaluation.seal, metric, value, n, interval_low, interval_high FROM evaluation_metrics "
            "JOIN evaluation ON evaluation.id = evaluation_metrics.evaluation_id "
            "WHERE scope = 'all' AND value IS NOT NULL AND evaluation.id IN (:odd, :other)"
        )
        rows = session.execute(query, {"odd": filled.odd, "other": filled.other}).all()
    expected: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in rows:
        expected[bytes(row.seal).hex()][row.metric] = row
    for seal, (document, _) in documents.items():
        results = {result["evaluation_result_id"]: result for result in document["evaluation_results"]}
        assert results.keys() == expected[seal].keys()
        for name, result in results.items():
            row = expected[seal][name]
            details = result["score_details"]
            assert (details["score"], details["uncertainty"]["num_samples"]) == (row.value, row.n)
            interval = details["uncertainty"].get("confidence_interval", {})
            assert (interval.get("lower"), interval.get("upper")) == (row.interval_low, row.interval_high)
            configuration = result["metric_config"]
            low, high = configuration["min_score"], configuration["max_score"]
            assert float(low) <= details["score"] <= float(high), name
        assert document["source_metadata"]["source_organization_name"] == "Someone"
        assert results["accuracy"]["source_data"]["url"] == ["https://example.org/odd"]
        assert results["fluctuation_rate"]["metric_config"]["lower_is_better"] is True


def test_records_add_up_to_the_results_they_belong_to(sqlite_filled: Filled, tmp_path: Path) -> None:
    for document, records in _export(sqlite_filled, tmp_path / "out").values():
        scores = {
            result["evaluation_result_id"]: result["score_details"]["score"]
            for result in document["evaluation_results"]
        }
        of_result: dict[str, list[float]] = defaultdict(list)
        for record in records:
            of_result[record["evaluation_result_id"]].append(record["evaluation"]["score"])
        assert {name: len(values) for name, values in of_result.items()} == {"accuracy": 3, "average_accuracy": 9}
        for name, values in of_result.items():
            assert sum(values) / len(values) == pytest.approx(scores[name], abs=1e-12)
        first = next(record for record in records if record["metadata"]["variant"] == "1")
        assert first["input"]["choices"] == ["NA", "=1+1", "None"]
        assert "shuffleboard canary" in first["metadata"]["canary"]
        silent = [record for record in records if not record["answer_attribution"]]
        assert {(record["sample_id"], record["metadata"]["variant"]) for record in silent} == {("q2", "1")}


def test_twenty_exports_keep_the_schema_and_their_accuracies_have_the_order_metrics(
    sqlite_database: str, tmp_path: Path
) -> None:
    registry = many_evaluations(sqlite_database, tmp_path, 20)
    documents = _export(Filled(sqlite_database, registry.engine, 1, 2, 3, 4), tmp_path / "out")
    assert len(documents) == 20
    for document, _ in documents.values():
        results = {result["evaluation_result_id"]: result for result in document["evaluation_results"]}
        details = results["accuracy"]["score_details"]["details"]
        for name in ("average_accuracy", "right_twice_across_orders", "order_loss"):
            assert float(details[f"shuffleboard.{name}"]) == results[name]["score_details"]["score"]


def test_files_have_the_same_names_in_every_export(sqlite_filled: Filled, tmp_path: Path) -> None:
    def names(folder: str) -> list[str]:
        return [
            entry["file"]
            for entry in export(sqlite_filled.engine, ExportRequest("every-eval-ever"), tmp_path / folder)["files"]
        ]

    assert names("one") == names("other")


def test_imported_outputs_name_the_program_that_asked(sqlite_database: str, tmp_path: Path) -> None:
    registry = Registry(sqlite_database, tmp_path)
    registry.model("m")
    registry.benchmark("csqa", QUESTIONS)
    evaluation_id = import_outputs(
        registry.engine, ImportRequest(INSPECT / "plain.eval", "m", "csqa", "original", "select-letter")
    )
    out = tmp_path / "out"
    manifest = export(registry.engine, ExportRequest("every-eval-ever", evaluations=(evaluation_id,)), out)
    document = json.loads((out / manifest["files"][0]["file"]).read_text(encoding="utf-8"))
    library = document["eval_library"]
    assert (library["name"], library["version"]) == ("inspect_ai", "0.3.285")
    assert [error.message for error in _validator("eval.schema.json").iter_errors(document)] == []
    arguments = document["evaluation_results"][0]["generation_config"]["generation_args"]
    assert arguments == {"max_tokens": 512, "temperature": 0.6, "top_p": 0.95, "top_k": 20}


def test_a_model_of_the_hub_has_the_hubs_name() -> None:
    def make(**more: Any) -> dict[str, Any]:
        revision = ModelRevision(number=1, model=Model(name="small", developer=more.pop("developer", None)), **more)
        return model_info(revision)

    hub = make(kind="huggingface", location="org/Small-1B", revision="0" * 40)
    assert (hub["id"], hub["additional_details"]["model_availability"]) == ("org/Small-1B", "open_weights")
    local = make(kind="huggingface", location="models/small", revision=None, developer="A & B")
    assert (local["id"], local["developer"]) == ("A-B/small", "A & B")
    assert local["additional_details"]["model_availability"] == "unknown"
    assert make(kind="external", location=None, revision=None)["id"] == "local/small"


def test_nothing_sealed_is_nothing_to_export(sqlite_database: str, tmp_path: Path) -> None:
    registry = Registry(sqlite_database, tmp_path)
    registry.model("m")
    registry.benchmark("csqa", QUESTIONS)
    with pytest.raises(NotFoundError, match="no sealed evaluation is selected"):
        export(registry.engine, ExportRequest("every-eval-ever"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
