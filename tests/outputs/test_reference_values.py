"""Real outputs, compared with figures that others computed from them."""

import csv
import gzip
import json
from math import fsum
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text

from registry.db import read_session
from registry.leaderboard.reports import evaluation_metrics
from registry.leaderboard.rows import Ordering, leaderboard_page
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.metrics import METRICS
from registry.metrics.cora import consistency_index, cora
from registry.sealed.verification import verify_evaluation
from registry.tables import Evaluation, EvaluationMetric
from registry.verdicts.wording import value_text
from tests.conftest import FilledDatabases
from tests.outputs import independent_noise
from tests.outputs.conftest import DATA, Registry
from tests.proof.commands import run
from web import create_app

MEDALPACA = DATA / "medqa_medalpaca_cat.jsonl.gz"
CAT = DATA / "medqa_mistral7b_cat.jsonl.gz"
NAMES = ("accuracy", "mcqa_plus", "majority_vote", "bmca_50", "bmca_70", "bmca_100", "consistency_index", "cora")
# As counts: questions right on the original, right answers in all variants, questions past each threshold; M; CI, CoRA.
# 1,273 questions; printed as .3064 .3093 .2781 .2781 .2278 .1359 .8295 .2541 and .3064 .3350 .2451 .2993 .1548 .0432
# .7368 .2257.
REPEATS = (390 / 1273, 4331 / (1273 * 11), 354 / 1273, 354 / 1273, 290 / 1273, 173 / 1273)
SHUFFLES = (4728 / (1273 * 11), 349 / 1273, 349 / 1273, 220 / 1273, 61 / 1273)
BOTH = (390 / 1273, 5118 / (1273 * 12), 312 / 1273, 381 / 1273, 197 / 1273, 55 / 1273)


def _import(registry: Registry, select: str, outputs: Path = CAT) -> int:
    registry.benchmark("medqa", DATA / "medqa_usmle5.jsonl.gz")
    registry.model("m7b")
    return import_outputs(registry.engine, ImportRequest(outputs, "m7b", "medqa", "imported", select=select))


def _metrics(registry: Registry, evaluation_id: int) -> dict[str, float]:
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id, papers=True)
    assert (document["questions"], document["scored"], document["complete"]) == (1273, 1273, True)
    return document["metrics"]


OF_NOISE = {
    "repeats": ("repeat_disagreement", "repeat_interval"),
    "orders": ("order_disagreement", "order_interval"),
    "effect": ("order_effect", "interval"),
}


def _shuffles(engine: Engine, folder: Path) -> int:
    """Import the original and eleven shuffles; return the evaluation's id."""
    return _import(
        Registry(engine.url.render_as_string(hide_password=False), folder), "standard_MC:0,standard_MC_shuffled"
    )


@pytest.mark.long
def test_the_order_effect_of_eleven_shuffles_is_net_of_eleven_repeats(
    filled_sqlite: FilledDatabases, tmp_path: Path
) -> None:
    with filled_sqlite.copy(_shuffles, tmp_path) as (url, shuffles):
        _check_noise(Registry(url, tmp_path), shuffles)


def _check_noise(registry: Registry, shuffles: int) -> None:
    repeats = import_outputs(registry.engine, ImportRequest(CAT, "m7b", "medqa", "imported", select="standard_MC"))
    metrics = _metrics(registry, repeats)
    assert round(metrics.pop("accuracy"), 4) == 0.3064
    assert set(metrics.values()) == {None}  # only letters, since all other metrics compare orders or need probabilities
    # Page, JSON and command line state one document.
    client = create_app(database_url=registry.url).test_client()
    stated = {number: client.get(f"/api/v1/evaluations/{number}").json["noise"] for number in (repeats, shuffles)}
    assert client.get(f"/api/v1/evaluations/{shuffles}/metrics").json["noise"] == stated[shuffles]
    assert run(registry.engine, "metrics", shuffles, "--json").document["noise"] == stated[shuffles]
    assert run(registry.engine, "statistics", "noise", repeats, "--json").document == stated[repeats]
    named = client.get(f"/api/v1/evaluations/{shuffles}?noise_from={repeats}").json["noise"]
    assert named == stated[shuffles]
    expected = independent_noise.noise(CAT)
    for name, (key, interval) in OF_NOISE.items():
        mean, bounds = expected[name]
        assert stated[shuffles][key] == pytest.approx(mean, abs=1e-12)
        assert stated[shuffles][interval] == pytest.approx(bounds, abs=0.002)
    assert stated[repeats]["repeat_disagreement"] == stated[shuffles]["repeat_disagreement"]
    assert stated[repeats]["order_effect"] is None
    page = client.get(f"/evaluations/{repeats}").text
    assert "Two answers to one prompt differ in 30.3\u202f% of pairs." in page
    assert "Order effect and repeat noise" not in page
    page = client.get(f"/evaluations/{shuffles}").text
    assert "22.6 points more (21.1 to 24.2), over 1,273 questions." in page
    # Some shuffles of some questions are the original again: the loss by repetition covers not all of them.
    assert "changing the order costs 7.0 points of that (4.2 to 9.9)." in page
    assert "Guessing gives 20.0\u202f%." in page
    assert (
        'aria-label="Two answers to a question differ in 30.3\u202f% of pairs of the same prompt, the noise floor, and'
        in page
    )
    shown = run(registry.engine, "metrics", shuffles).stdout.splitlines()
    net = next(number for number, line in enumerate(shown) if "net of noise" in line)
    assert shown[net] == "  order effect, net of noise   22.6 points (21.1 to 24.2)"
    assert shown[net + 1] == f"  the repeats are those of evaluation {repeats}"


STATED = {
    # Document → its passage about the recorded answers, with names of metrics in place of values.
    "README.md": (
        "answers {average_accuracy} of MedQA's 1,273 questions correctly. Ask each question in two different orders of "
        "its options, and it is right in both only {right_twice_across_orders} of the time."
    ),
    "docs/installation.md": (
        "Right in two orders {right_twice_across_orders}; on the {n} of 1,273 questions with a repeated prompt, right "
        "twice in one order {right_twice_same_order}: changing the order costs {order_loss} of that"
    ),
    "docs/why-robust-metrics.md": "{worst_accuracy} | {best_accuracy} | {fluctuation_rate}",
    "docs/how-to/analyse-with-other-tools.md": "{accuracy} on MedQA {worst_accuracy} are left",
}


def test_documents_and_pages_state_the_same_numbers_of_the_recorded_answers(
    filled_sqlite: FilledDatabases, tmp_path: Path
) -> None:
    with filled_sqlite.copy(_shuffles, tmp_path) as (url, evaluation_id):
        client = create_app(database_url=url).test_client()
        document = client.get(f"/api/v1/evaluations/{evaluation_id}/metrics").json
        page = client.get(f"/evaluations/{evaluation_id}?open=all").text
        registry = Registry(url, tmp_path)
        output = run(registry.engine, "metrics", evaluation_id).stdout
        selection = {"evaluation_id": evaluation_id, "scope": "all", "metric": "order_loss"}
        with read_session(registry.engine) as session:
            n = session.scalar(select(EvaluationMetric.n).filter_by(**selection))
    metrics = document["metrics"]
    words = {name: value_text(name, value) for name, value in metrics.items() if value is not None}
    for path, passage in STATED.items():
        text_of = " ".join((DATA.parents[1] / path).read_text(encoding="utf-8").split())
        expected = passage.format(**words, n=n).replace("\u202f", " ")
        assert expected in text_of, (path, expected)
        for name in words:
            if f"{{{name}}}" in passage:
                assert words[name] in page, name
                assert words[name] in output, name
    assert STATED["docs/installation.md"].format(**words, n=n) in page


@pytest.mark.long
@pytest.mark.one_engine
def test_eleven_shuffles_give_the_reference_values(registry: Registry) -> None:
    # Their reference accuracy is that of the unshuffled prompt, which is not among these eleven.
    metrics = _metrics(registry, _import(registry, "standard_MC_shuffled"))
    assert [metrics[name] for name in NAMES[1:6]] == pytest.approx(SHUFFLES, abs=1e-9)
    mcqa, consistent = REPEATS[0], metrics["bmca_100"]
    assert round(consistency_index(mcqa, consistent), 4) == 0.7416
    assert round(cora(mcqa, consistent), 4) == 0.2272


def test_the_original_and_eleven_shuffles_give_the_reference_values(
    filled_sqlite: FilledDatabases, tmp_path: Path
) -> None:
    _check_shuffles(tmp_path, filled_sqlite)


@pytest.mark.long
def test_the_original_and_eleven_shuffles_have_one_seal_on_both_engines(
    filled_sqlite: FilledDatabases, filled_postgresql: FilledDatabases, tmp_path: Path
) -> None:
    _check_shuffles(tmp_path, filled_sqlite, filled_postgresql)


def _check_shuffles(tmp_path: Path, *databases: FilledDatabases) -> None:
    expected = (*BOTH, consistency_index(BOTH[0], BOTH[5]), cora(BOTH[0], BOTH[5]))
    printed = (0.3064, 0.3350, 0.2451, 0.2993, 0.1548, 0.0432, 0.7368, 0.2257)
    seals = set()
    for filled in databases:
        with filled.copy(_shuffles, tmp_path) as (url, evaluation_id):
            registry = Registry(url, tmp_path)
            metrics = _metrics(registry, evaluation_id)
            assert [metrics[name] for name in NAMES] == pytest.approx(expected, abs=1e-9)
            assert [round(metrics[name], 4) for name in NAMES] == list(printed)
            with read_session(registry.engine) as session:
                seals.add(session.get_one(Evaluation, evaluation_id).seal)
                assert verify_evaluation(session, evaluation_id)["ok"]
    assert len(seals) == 1
    assert None not in seals


@pytest.mark.long
@pytest.mark.one_engine
def test_the_papers_26_variants_give_the_reference_values(registry: Registry) -> None:
    # Hits of each question in the first prompt, the first shuffle and all altered prompts, computed from the lines.
    first = ("standard_MC", "standard_MC_shuffled")
    hits: dict[str, list[bool]] = {}
    kinds = set()
    with gzip.open(MEDALPACA, "rt", encoding="utf-8") as stream:
        for line in map(json.loads, stream):
            if line["variant_type"] not in first or line["variant_index"] == 0:
                hits.setdefault(line["question_id"], []).append(line["chosen"] == line["correct"])
                kinds.add(line["variant_type"])
    right = [sum(of_question) for of_question in hits.values()]
    assert (len(hits), {len(of_question) for of_question in hits.values()}) == (1273, {26})
    past = [sum(10 * count >= tenths * 26 for count in right) / 1273 for tenths in (5, 7, 10)]
    mcqa = sum(of_question[0] for of_question in hits.values()) / 1273
    consistency = 1 - (mcqa - past[2])
    majority = sum(2 * count > 26 for count in right) / 1273
    expected = (mcqa, sum(right) / (1273 * 26), majority, *past, consistency, mcqa * consistency)
    select = ",".join(f"{kind}:0" if kind in first else kind for kind in sorted(kinds))
    evaluation_id = _import(registry, select, MEDALPACA)
    metrics = _metrics(registry, evaluation_id)
    assert [metrics[name] for name in NAMES] == pytest.approx(expected, abs=1e-9)
    printed = (0.2608, 0.3571, 0.2435, 0.2938, 0.1108, 0.0102, 0.7494, 0.1954)
    assert [round(metrics[name], 4) for name in NAMES] == list(printed)
    with read_session(registry.engine) as session:
        assert evaluation_metrics(session, evaluation_id)["asked"] == "19 to 26 different prompts"


@pytest.mark.long
def test_recorded_letters_of_a_model_give_its_recorded_accuracy(sqlite_database: str, tmp_path) -> None:
    registry = Registry(sqlite_database, tmp_path)
    registry.benchmark("mmlu-pro", DATA / "mmlu_pro.jsonl.gz")
    with (DATA / "mmlu_pro_models.csv").open(encoding="utf-8") as stream:
        models = list(csv.DictReader(stream))
    assert len(models) == 26
    # The row with the most letters beyond the options shown represents all.
    row = max(models, key=lambda row: int(row["n_prediction_beyond_options"]))
    registry.model(row["model"])
    request = ImportRequest(
        DATA / "mmlu_pro_predictions.csv.gz", row["model"], "mmlu-pro", "original", shots=0, column=row["model"]
    )
    evaluation_id = import_outputs(registry.engine, request)
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id, papers=True)
    assert document["scored"] == 12032
    assert document["metrics"]["accuracy"] == pytest.approx(int(row["n_correct"]) / 12032, abs=1e-12)
    assert f"{100 * document['metrics']['accuracy']:.2f}" == row["accuracy"]
    low, high = document["intervals"]["accuracy"]
    assert low < document["metrics"]["accuracy"] < high
    assert (document["asked"], document["distinct_prompts"]) == ("asked in one order", {"min": 1, "max": 1})
    robust = {name for name, metric in METRICS.items() if metric.needs_two_prompts}
    assert {"worst_accuracy", "cora", "score", "accuracy_range", "mcqa_plus", "pct_drop"} < robust
    assert {document["metrics"][name] for name in robust} == {None}
    # Numbers of options differ: the guessing accuracy is the mean of 1 / k, not 1 / mean of k.
    with gzip.open(DATA / "mmlu_pro.jsonl.gz", "rt", encoding="utf-8") as stream:
        options = [len(json.loads(line)["options"]) for line in stream]
    chance = fsum(1 / k for k in options) / 12032
    assert document["chance"] == pytest.approx(chance, abs=1e-12)
    with read_session(registry.engine) as session:
        page = leaderboard_page(session, ordering=Ordering(above_chance=True)).documents()
        view = session.execute(text("SELECT worst_accuracy, accuracy_min, cora, chance FROM leaderboard")).one()
    above = page[0]["above_chance"]
    accuracy = document["metrics"]["accuracy"]
    assert above["accuracy"]["value"] == pytest.approx((accuracy - chance) / (1 - chance), abs=1e-12)
    assert above["accuracy"]["interval_low"] == pytest.approx((low - chance) / (1 - chance), abs=1e-12)
    assert page[0]["not_ranked"]["reason"] == "Right in two orders needs two orders or more; asked in one order"
    assert tuple(view)[:3] == (None, None, None)


@pytest.mark.long_on("postgresql")
def test_samples_of_the_harness_give_its_accuracy(registry: Registry) -> None:
    samples = DATA / "harness_samples.jsonl"
    question_ids = {json.loads(line)["doc"]["id"] for line in samples.read_text(encoding="utf-8").splitlines()}
    lines = (DATA.parent.parent / "registry/benchmarks/samples/mmlu.jsonl").read_text(encoding="utf-8").splitlines()
    registry.benchmark("mmlu", [line for line in map(json.loads, lines) if line["id"] in question_ids])
    request = ImportRequest(samples, "m", "mmlu", "original")
    evaluation_id = import_outputs(registry.engine, request)
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id, per_question=True)
    assert (document["questions"], document["scored"], document["complete"]) == (8, 8, True)
    assert document["metrics"]["accuracy"] == 3 / 8  # the harness printed acc 0.375
    first = document["per_question"]["mmlu-human_aging-test-0000"]
    assert first["accuracy"] == 1.0
