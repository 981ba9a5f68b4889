"""Imports of known kinds: what a kind changes is known without being said in the file."""

import pytest
from sqlalchemy import text

from registry.db import read_session
from registry.exchange.outputs import ImportRequest, import_outputs
from registry.metrics import METRICS
from registry.results.reports import evaluation_metrics
from tests.outputs.conftest import Registry, four_options

WITH = [-1.0, -2.0, -5.0, -5.0]
WITHOUT = [-4.0, -2.5, -5.0, -5.0]


def test_choice_only_lines_are_paired_although_they_stand_apart(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    line = {"question_id": "q0", "order": [0, 1, 2, 3]}
    lines = [{**line, "variant": 1, "logprobs": WITHOUT}, {**line, "variant": 0, "logprobs": WITH}]
    request = ImportRequest(registry.file("o.jsonl", lines), "m", "b", "choice-only")
    with read_session(registry.engine) as session:
        metrics = evaluation_metrics(session, import_outputs(registry.engine, request))["metrics"]
    # METRICS.md's example: NPSQ .75 and .2, then two options that the question does not move.
    assert metrics["npsq_correct"] == pytest.approx(0.75)
    assert metrics["npsq_accuracy"] == 1.0
    assert metrics["choice_only_accuracy"] == 0.0  # −2.5 is the highest without the question, at position 1
    assert metrics["choice_sensitivity"] == 0.0
    assert metrics["accuracy"] == 1.0
    assert metrics["mcqa_plus"] is None  # the variant without the question asks nothing: one prompt, untested


def test_macro_is_undefined_where_a_benchmark_is_and_micro_only_exists_for_means_over_questions(
    registry: Registry,
) -> None:
    registry.benchmark("one", four_options(1))
    registry.benchmark("three", four_options(3))
    for name, count in (("one", 1), ("three", 3)):
        lines = [
            {"question_id": f"q{q}", "variant": v, "order": order, "option": 0}
            for q in range(count)
            for v, order in enumerate(([0, 1, 2, 3], [3, 2, 1, 0]))
        ]
        path = registry.file(f"{name}-outputs.jsonl", lines)
        import_outputs(registry.engine, ImportRequest(path, "m", name, "original-inverse"))
    with read_session(registry.engine) as session:
        rows = {row["metric"]: row for row in session.execute(text("SELECT * FROM metrics_over_benchmarks")).mappings()}
    # Right on q0 alone: 1 of 1 and 1 of 3.
    assert rows["accuracy"]["macro"] == pytest.approx((1 + 1 / 3) / 2)
    assert rows["accuracy"]["micro"] == pytest.approx(2 / 4)
    assert (rows["accuracy"]["benchmarks"], rows["accuracy"]["n"]) == (2, 4)
    assert rows["npsq_correct"]["macro"] is None
    assert rows["pct_drop"]["macro"] == pytest.approx(0.0)
    with_micro = {name for name, row in rows.items() if row["micro"] is not None}
    means = {name for name, metric in METRICS.items() if metric.per_question is not None}
    assert with_micro == {name for name in means if rows[name]["macro"] is not None}
