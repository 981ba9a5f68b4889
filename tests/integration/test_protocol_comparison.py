"""Comparisons of two protocols from imported outputs: which evaluations they use, and the message if there is none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from registry.db import get_engine, read_session, write_session
from registry.errors import NotFoundError, ShuffleboardError, UsageError, VariantError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, parse_variants
from registry.queue.evaluations import EvaluationRequest, submit
from registry.studies.protocol_comparison import compare_protocols
from tests.integration.test_worker import run as run_worker
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.population import add_benchmark, add_model, question

pytestmark = pytest.mark.long_on("postgresql")

QUESTIONS = 4
ANSWERS = {f"q{number}": number % 4 for number in range(QUESTIONS)}

Answering = Callable[[str, int, tuple[int, ...]], int]
"""Function of (question, variant, order) that returns the answered option."""


def first_position(_question: str, _variant: int, order: tuple[int, ...]) -> int:
    """Return the first option. Right in the original order of q0, then everywhere, then nowhere three times.

    Accuracies .25, 1, 0, 0, 0: mean .25, variance 1500, moved mean .25 and median 0. SCORE: q0 has contents 0 0 1 2 3,
    2 of 20 ordered pairs; the others their answer once and 0 four times, 12 of 20. (.1 + 3 · .6)/4 = .475.
    """
    return order[0]


def right(question: str, _variant: int, _order: tuple[int, ...]) -> int:
    """Return the right option: variance 0, SCORE 1."""
    return ANSWERS[question]


def right_but_once(question: str, variant: int, order: tuple[int, ...]) -> int:
    """Return the right option, except for q3 in the original order.

    Accuracies .75, 1, 1, 1, 1: mean .95, variance 100, moved mean and median 1. SCORE (3 + 12/20)/4 = .9.
    """
    return 0 if (question, variant) == ("q3", 0) else right(question, variant, order)


@pytest.fixture
def registry(database: str, tmp_path: Path) -> Registry:
    """Return a registry on each engine in turn, with two models and two benchmarks of four questions."""
    created = Registry(database, tmp_path)
    for model in ("m", "n"):
        created.model(model)
    for name in ("one", "two"):
        created.benchmark(name, four_options(QUESTIONS, context=name))
    return created


def answered(
    registry: Registry,
    answering: Answering,
    shots: int,
    *,
    model: str = "m",
    benchmark: str = "one",
    variants: str = "answer-moving",
) -> int:
    """Import a model's answers; return the evaluation's id."""
    lines = [
        {
            "question_id": question,
            "variant": variant.ordinal,
            "order": list(variant.order),
            "option": answering(question, variant.ordinal, variant.order),
        }
        for question, answer in ANSWERS.items()
        for variant in parse_variants(variants).variants(QuestionShape(question, 4, answer))
    ]
    path = registry.file("outputs.jsonl", lines)
    return import_outputs(registry.engine, ImportRequest(path, model, benchmark, variants, shots=shots))


def compare(registry: Registry, first: str = "symbols:5", second: str = "symbols:0", **options):
    with read_session(registry.engine) as session:
        return compare_protocols(session, first, second, **options)


def test_values_of_both_protocols_stand_side_by_side(registry: Registry) -> None:
    five, none = answered(registry, first_position, 5), answered(registry, right_but_once, 0)
    document = compare(registry)
    assert (document["first"], document["second"]) == ("symbols:5", "symbols:0")
    assert document["variants"] == "answer-moving:examples=moved"
    (pair,) = document["pairs"]
    assert (pair["model"], pair["evaluations"]) == ("m@1", {"first": five, "second": none})
    assert pair["benchmark"].startswith("one@")
    assert pair["first"] == pytest.approx(
        {
            "accuracy_mean_all": 0.25,
            "accuracy_mean_moved": 0.25,
            "accuracy_median_moved": 0,
            "accuracy_variance": 1500,
            "score": 0.475,
        }
    )
    assert pair["second"] == pytest.approx(
        {
            "accuracy_mean_all": 0.95,
            "accuracy_mean_moved": 1,
            "accuracy_median_moved": 1,
            "accuracy_variance": 100,
            "score": 0.9,
        }
    )
    assert pair["variance_ratio"] == pytest.approx(1 / 15)
    assert pair["score_difference"] == pytest.approx(0.475 - 0.9)
    assert document["overall"]["variance_ratio"] == pytest.approx(1 / 15)
    (benchmark,) = document["benchmarks"]
    # There is one difference, .75: half of the two possible signs on either side, and no deviation.
    assert benchmark["accuracy_mean_moved"]["wilcoxon"]["p_value"] == pytest.approx(1)
    assert benchmark["accuracy_mean_moved"]["cohens_d"] is None


def test_the_newest_sealed_evaluation_counts(registry: Registry) -> None:
    answered(registry, right, 5)
    newest = answered(registry, first_position, 5)
    answered(registry, right_but_once, 0)
    (pair,) = compare(registry)["pairs"]
    assert pair["evaluations"]["first"] == newest
    assert pair["first"]["accuracy_variance"] == pytest.approx(1500)


@pytest.mark.one_engine
def test_what_has_one_protocol_only_is_left_out(registry: Registry) -> None:
    for model, benchmark in (("m", "one"), ("m", "two"), ("n", "one")):
        answered(registry, first_position, 5, model=model, benchmark=benchmark)
    for model, benchmark in (("m", "one"), ("m", "two"), ("n", "two")):
        answered(registry, right_but_once, 0, model=model, benchmark=benchmark)
    answered(registry, right_but_once, 0, model="n", benchmark="one", variants="cyclic")  # other variants
    document = compare(registry)
    assert [(pair["model"], pair["benchmark"][:4]) for pair in document["pairs"]] == [("m@1", "one@"), ("m@1", "two@")]
    assert document["complete"] is True
    assert document["models"] == [{"model": "m@1", "benchmarks": 2, "variance_ratio": pytest.approx(1 / 15)}]
    (agreement,) = document["benchmark_pairs"]
    assert agreement["models"] == 1


@pytest.mark.one_engine
def test_a_variance_of_zero_leaves_the_mean_of_ratios_undefined(registry: Registry) -> None:
    answered(registry, first_position, 5)
    answered(registry, right, 0)
    document = compare(registry)
    assert document["pairs"][0]["variance_ratio"] == 0
    assert document["overall"]["variance_ratio"] is None
    # The other way round nothing is divided by zero.
    assert compare(registry, "symbols", "symbols:5")["pairs"][0]["variance_ratio"] is None


def fill(registry: Registry) -> None:
    """Import two models on two benchmarks, except the model n on the second."""
    for shots, answering in ((5, first_position), (0, right_but_once)):
        answered(registry, answering, shots)
        answered(registry, answering, shots, benchmark="two")
        answered(registry, answering, shots, model="n")


def test_benchmarks_and_models_can_be_chosen(registry: Registry) -> None:
    fill(registry)
    document = compare(registry)
    assert len(document["pairs"]) == 3
    assert document["complete"] is False
    of_two = compare(registry, benchmarks=["two"])
    assert [pair["model"] for pair in of_two["pairs"]] == ["m@1"]
    assert len(compare(registry, benchmarks=["one", "two"], models=["m@1"])["pairs"]) == 2
    (version,) = {pair["benchmark"] for pair in of_two["pairs"]}
    assert compare(registry, benchmarks=[version]) == of_two
    with pytest.raises(
        NotFoundError, match=r"model o has not been evaluated under both protocols; there are: m@1, n@1"
    ):
        compare(registry, models=["o"])
    with pytest.raises(NotFoundError, match=r"benchmark three has not been evaluated under both .* one@\w+, two@\w+"):
        compare(registry, benchmarks=["three"])


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            ("symbols:5", "symbols:1"),
            NotFoundError,
            r"under both symbols:5 and symbols:1 .* there are: symbols:5 \(1\)",
        ),
        (("symbols:5", "match-dash:5"), NotFoundError, r"with these variants there are: symbols:5 \(1\)$"),
        (("symbols", "symbols:0"), UsageError, "protocol symbols:0 is given twice"),
        (("symbols:five", "symbols"), UsageError, "protocol 'symbols:five': write NAME or NAME:SHOTS"),
        ((":5", "symbols"), UsageError, "protocol ':5': write NAME"),
    ],
)
def test_what_there_is_is_named_where_there_is_nothing_to_compare(
    registry: Registry, given: tuple[str, str], error: type[ShuffleboardError], message: str
) -> None:
    answered(registry, first_position, 5)
    with pytest.raises(error, match=message):
        compare(registry, *given)


def test_variants_without_sealed_evaluations_are_named_with_the_existing_ones(registry: Registry) -> None:
    with pytest.raises(NotFoundError, match="no evaluation is sealed yet"):
        compare(registry)
    answered(registry, first_position, 5, variants="cyclic")
    with pytest.raises(NotFoundError, match="no evaluation with these variants is sealed, there are: cyclic"):
        compare(registry)
    with pytest.raises(VariantError, match="unknown variant kind 'moving'"):
        compare(registry, variants="moving")


@pytest.mark.one_engine
def test_the_command_prints_one_document_or_tables(registry: Registry) -> None:
    fill(registry)
    command = ("compare-protocols", "symbols:5", "symbols:0")
    assert shuffleboard_json(*command, database_url=registry.url) == compare(registry)
    of_one = ("--benchmark", "two", "--model", "m")
    chosen = shuffleboard_json(*command, *of_one, database_url=registry.url)
    assert chosen == compare(registry, benchmarks=["two"], models=["m"])
    tables = shuffleboard(*command, database_url=registry.url).stdout
    assert "first: symbols:5  second: symbols:0  variants: answer-moving:examples=moved" in tables
    assert "1500.000" in tables
    assert "Spearman, first" in tables
    assert "variance ratio over all models and benchmarks: 0.067" in tables


def test_a_part_of_a_benchmark_is_compared_with_the_same_part_only(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    with write_session(engine) as session:
        lines = [question(number) for number in range(3)]
        add_benchmark(session, tmp_path, [*lines, question(9, split="fewshot")])
        add_model(session)

    def score(**request: int) -> int:
        with write_session(engine) as session:
            evaluation, _ = submit(session, EvaluationRequest("fake", "bench", "answer-moving", **request))
        run_worker(engine)
        return evaluation.id

    score(shots=1, limit=2)
    score(shots=0)
    registry = Registry(database, tmp_path)
    with pytest.raises(NotFoundError, match=r"with these variants there are: symbols:0 \(1\), symbols:1 \(1\)"):
        compare(registry, "symbols:1", "symbols:0")
    part = score(shots=0, limit=2)
    document = compare(registry, "symbols:1", "symbols:0")
    (pair,) = document["pairs"]
    assert pair["evaluations"]["second"] == part
    assert pair["benchmark"].endswith(" (limit 2)")
    assert compare(registry, "symbols:1", "symbols:0", benchmarks=[pair["benchmark"]]) == document
