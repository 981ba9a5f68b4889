"""Imports of known kinds of variants, whose changes the file need not repeat."""

import pytest
from sqlalchemy import select as query
from sqlalchemy import text

from registry.db import read_session
from registry.errors import IngestError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.lookups import find_evaluation
from registry.metrics import METRICS
from registry.metrics.repeats import right_twice_same_order
from registry.prompting.variants import ADVERSARIAL_TEXTS, QuestionShape, parse_variants
from registry.scores.outcomes import load_outcomes
from registry.tables import Question
from tests.outputs.conftest import Registry, four_options

WITH = [-1.0, -2.0, -5.0, -5.0]
WITHOUT = [-4.0, -2.5, -5.0, -5.0]


LINE = {"question_id": "q0", "order": [0, 1, 2, 3]}
APART = [{**LINE, "variant": 1, "logprobs": WITHOUT}, {**LINE, "variant": 0, "logprobs": WITH}]
TOGETHER = [{**LINE, "variant": 0, "logprobs": WITH, "logprobs_without_question": WITHOUT}]


@pytest.mark.parametrize("lines", [APART, TOGETHER, [*TOGETHER, APART[0]]], ids=["apart", "together", "both"])
def test_choice_only_is_paired_whether_on_one_line_or_on_two(
    registry: Registry, lines: list[dict[str, object]]
) -> None:
    registry.benchmark("b", four_options(1))
    request = ImportRequest(registry.file("o.jsonl", lines), "m", "b", "choice-only")
    with read_session(registry.engine) as session:
        metrics = evaluation_metrics(session, import_outputs(registry.engine, request), papers=True)["metrics"]
    # NPSQ .75 and .2, then two options that the question does not move.
    assert metrics["npsq_correct"] == pytest.approx(0.75)
    assert metrics["npsq_accuracy"] == 1.0
    assert metrics["choice_only_accuracy"] == 0.0  # −2.5 is the highest without the question, at position 1
    assert metrics["choice_sensitivity"] == 0.0
    assert metrics["accuracy"] == 1.0
    assert metrics["mcqa_plus"] is None  # the variant without the question shows no question: one prompt, untested


@pytest.mark.parametrize("kind", ["cyclic:repeats=2", "wording:repeats=2,templates=1-2"])
def test_recorded_repeats_count_as_repeats_although_their_prompts_are_unknown(registry: Registry, kind: str) -> None:
    registry.benchmark("b", four_options(1))
    definition = parse_variants(kind)
    variants = list(definition.variants(QuestionShape("q0", 4, 0)))
    lines = [
        # All are right except the second answer to the second prompt.
        {"question_id": "q0", "variant": item.ordinal, "order": item.order, "option": int(item.ordinal == 3)}
        for item in variants
    ]
    request = ImportRequest(registry.file("o.jsonl", lines), "m", "b", kind)
    with read_session(registry.engine) as session:
        evaluation_id = import_outputs(registry.engine, request)
        metrics = evaluation_metrics(session, evaluation_id)["metrics"]
        evaluation = find_evaluation(session, evaluation_id)
        (of_reference,) = load_outcomes(session, evaluation, {session.scalars(query(Question.id)).one(): 0}).values()
    prompts = len(variants) // 2
    assert metrics["right_in_every_order"] == pytest.approx(0.5)
    assert metrics["right_twice_same_order"] == pytest.approx(1 - 1 / prompts)
    assert metrics["right_twice_same_order"] == pytest.approx(right_twice_same_order(of_reference))


@pytest.mark.parametrize(("kind", "worst", "twice"), [("imported", 0.0, 0.5), ("imported:repeats=2", 1.0, 0.5)])
def test_recorded_orders_may_have_repeats_of_which_the_first_answer_counts(
    registry: Registry, kind: str, worst: float, twice: float
) -> None:
    registry.benchmark("b", four_options(1))
    lines = [
        {"question_id": "q0", "variant": variant, "order": order, "option": int(variant == 3)}
        for variant, order in enumerate([[0, 1, 2, 3], [0, 1, 2, 3], [3, 2, 1, 0], [3, 2, 1, 0]])
    ]
    request = ImportRequest(registry.file("o.jsonl", lines), "m", "b", kind)
    with read_session(registry.engine) as session:
        evaluation_id = import_outputs(registry.engine, request)
        metrics = evaluation_metrics(session, evaluation_id)["metrics"]
        assert find_evaluation(session, evaluation_id).variant_set.name == kind
    assert (metrics["worst_accuracy"], metrics["right_twice_same_order"]) == (worst, twice)


@pytest.mark.one_engine
def test_adversarial_lines_stand_for_their_counterparts(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    names = [3, *ADVERSARIAL_TEXTS]
    lines = [
        {**LINE, "order": [0, 1, 2, name], "variant": variant, "logprobs": WITH, "logprobs_without_question": WITHOUT}
        for variant, name in enumerate(names)
    ]
    request = ImportRequest(registry.file("o.jsonl", lines), "m", "b", "adversarial")
    with read_session(registry.engine) as session:
        assert evaluation_metrics(session, import_outputs(registry.engine, request))["complete"]


@pytest.mark.one_engine
def test_what_is_missing_is_named_as_the_kind_names_it(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    request = ImportRequest(registry.file("o.jsonl", [{**LINE, "variant": 0, "position": 0}]), "m", "b", "choice-only")
    with pytest.raises(IngestError, match=r"the first is q0 \(variant 1, without the question\)"):
        import_outputs(registry.engine, request)


TYPES = {
    # type of IBM/cat: options shown from ABCD, with A right; N is "None of the above"
    "standard_MC": "ABCD",
    "standard_MC_shuffled": "CADB",
    "NOTA_MC": ("ANCD", "ABND", "ABCN"),
    "NOTA_MC_shuffled": ("NACD", "DANB", "NCBA"),
    "decoupled_MC": ("AB", "AC", "AD"),
    "decoupled_MC_shuffled": ("BA", "AC", "DA"),
    "decoupled_NOTA_MC": ("ABN", "ACN", "ADN"),
    "decoupled_NOTA_MC_shuffled": ("NBA", "CAN", "AND"),
}


def cat_lines() -> list[dict[str, object]]:
    texts = {**{letter.upper(): letter for letter in "abcd"}, "N": "None of the above"}
    return [
        {
            "question_id": "q0",
            "variant_type": type_,
            "variant_index": index,
            "options": [texts[letter] for letter in letters],
            "correct": letters.index("A"),
            "chosen": letters.index("A"),
        }
        for type_, shown in TYPES.items()
        for index, letters in enumerate((shown,) if isinstance(shown, str) else shown)
    ]


@pytest.mark.one_engine
@pytest.mark.parametrize("select", [None, ",".join(TYPES), ",".join(reversed(TYPES))])
def test_divergent_types_find_their_variants_in_whatever_sequence_they_are_selected(
    registry: Registry, select: str | None
) -> None:
    registry.benchmark("b", four_options(1))
    path = registry.file("cat.jsonl", cat_lines())
    with read_session(registry.engine) as session:
        metrics = evaluation_metrics(
            session, import_outputs(registry.engine, ImportRequest(path, "m", "b", "divergent", select=select))
        )
    assert metrics["complete"]
    assert metrics["metrics"]["accuracy"] == 1.0


@pytest.mark.one_engine
def test_repeats_of_a_divergent_type_are_refused_with_a_valid_selection(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    lines = [line for line in cat_lines() if str(line["variant_type"]).startswith("standard")]
    path = registry.file("cat.jsonl", [*lines, lines[0] | {"variant_index": 1}])
    kind = "divergent:subset=original+shuffled"
    with pytest.raises(
        IngestError, match=r"standard_MC:1 shows what standard_MC:0 shows.* --select, such as (\S+)"
    ) as refusal:
        import_outputs(registry.engine, ImportRequest(path, "m", "b", kind))
    proposed = str(refusal.value).rpartition("such as ")[2]
    assert proposed == "standard_MC:0,standard_MC_shuffled"
    import_outputs(registry.engine, ImportRequest(path, "m", "b", kind, select=proposed))


@pytest.mark.one_engine
@pytest.mark.parametrize("repeated", range(0, 16, 5))
def test_a_proposed_selection_keeps_every_variant(registry: Registry, repeated: int) -> None:
    registry.benchmark("b", four_options(1))
    lines = cat_lines()
    repeat = lines[repeated % len(lines)]
    path = registry.file("cat.jsonl", [*lines, repeat | {"variant_index": 9}])
    with pytest.raises(IngestError, match=" --select, such as ") as refusal:
        import_outputs(registry.engine, ImportRequest(path, "m", "b", "divergent"))
    proposed = str(refusal.value).rpartition("such as ")[2]
    with read_session(registry.engine) as session:
        imported = import_outputs(registry.engine, ImportRequest(path, "m", "b", "divergent", select=proposed))
        assert evaluation_metrics(session, imported)["complete"]


def test_macro_is_undefined_with_a_benchmark_and_micro_is_for_question_means(
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
    # Only q0 is right: 1 of 1 and 1 of 3.
    assert rows["accuracy"]["macro"] == pytest.approx((1 + 1 / 3) / 2)
    assert rows["accuracy"]["micro"] == pytest.approx(2 / 4)
    assert (rows["accuracy"]["benchmarks"], rows["accuracy"]["n"]) == (2, 4)
    assert rows["npsq_correct"]["macro"] is None
    assert rows["pct_drop"]["macro"] == pytest.approx(0.0)
    with_micro = {name for name, row in rows.items() if row["micro"] is not None}
    means = {name for name, metric in METRICS.items() if metric.per_question is not None}
    assert with_micro == {name for name in means if rows[name]["macro"] is not None}
