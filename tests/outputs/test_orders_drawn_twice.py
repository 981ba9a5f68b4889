"""Exports of 1.0.0, in which only one recorded answer counts for an order that was drawn twice."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from registry import formats
from registry.db import read_session
from registry.files.manifests import MANIFEST
from registry.logs.imports import importer
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, parse_variants
from registry.scores.asked import as_specified
from registry.sealed.exporting import export_evaluation
from registry.sealed.files import manifest_of, write_json
from registry.sealed.importing import import_evaluation
from registry.sealed.verification import verify_evaluation
from registry.settings import get_settings
from registry.tables import Evaluation, EvaluationMetric
from tests.outputs.conftest import Registry, four_options
from tests.proof.test_columns import open_unguarded

VARIANTS = "shuffle:m=6,repeats=2"


def metrics_of(registry: Registry, evaluation: int) -> dict[tuple[str, str], float | None]:
    with read_session(registry.engine) as session:
        rows = session.scalars(select(EvaluationMetric).filter_by(evaluation_id=evaluation))
        return {(row.scope, row.metric): row.value for row in rows}


def test_an_export_of_1_0_keeps_its_seal_and_metrics(
    registries: list[Registry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = registries
    old.benchmark("four", four_options(12))
    old.model("m")
    definition = parse_variants(VARIANTS)
    lines = [
        {"question_id": f"q{q}", "variant": shown.ordinal, "order": shown.order, "position": shown.ordinal * q % 4}
        for q in range(12)
        for shown in definition.variants(QuestionShape(f"q{q}", 4, q % 4))
    ]
    answers = old.file("answers.jsonl", [json.dumps(line) for line in lines])
    request = ImportRequest(answers, "m", "four", VARIANTS)
    with monkeypatch.context() as patched:
        patched.setattr(formats, "SEAL", 1)
        patched.setattr(
            importer, "as_specified", lambda specification: as_specified(specification) | {"recorded": False}
        )
        before = import_outputs(old.engine, request)
    folder = tmp_path / "exported"
    export_evaluation(old.engine, get_settings().model_copy(update={"database_url": old.url}), before, folder)
    document = json.loads((folder / "evaluation.json").read_text())
    del document["evaluation"]["recorded"]
    write_json(folder / "evaluation.json", document)
    write_json(folder / MANIFEST, manifest_of(folder, document["seal"]))

    after, _ = import_evaluation(new.engine, folder)
    assert metrics_of(new, after) == pytest.approx(metrics_of(old, before), nan_ok=True)
    with read_session(new.engine) as session:
        assert verify_evaluation(session, after)["problems"] == []
    today = Registry(old.url, tmp_path)
    today.model("other")
    again = import_outputs(today.engine, ImportRequest(answers, "other", "four", VARIANTS))
    assert metrics_of(today, again) != metrics_of(old, before)

    older = "evaluation: recorded has a value, which a seal of format 1 does not cover"
    assert older in problems_of_changed_mark(new, after)
    newer = "seal: its specification, its own columns or its shards are not as they were sealed"
    assert newer in problems_of_changed_mark(today, again)


def problems_of_changed_mark(registry: Registry, number: int) -> list[str]:
    """Return what `verify` finds if the evaluation has the other mark of recorded answers."""
    with open_unguarded(registry.engine) as connection, Session(connection) as session:
        marked = update(Evaluation).where(Evaluation.id == number).values(recorded=~Evaluation.recorded)
        session.execute(marked)
        return list(verify_evaluation(session, number)["problems"])
