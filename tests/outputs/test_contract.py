"""The outputs contract line by line: valid lines, and refused files, of which nothing is stored."""

import json
import re
from typing import Any

import pytest
from sqlalchemy import func, select

from registry.db import read_session
from registry.errors import IngestError, ShuffleboardError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.sealed.archiving import archive, restore
from registry.sealed.verification import verify_evaluation
from registry.tables import (
    Evaluation,
    EvaluationQuestion,
    Generation,
    Prediction,
    Protocol,
    QuestionScore,
    Shard,
    VariantSet,
)
from tests.outputs.conftest import Registry, four_options

pytestmark = pytest.mark.one_engine

LINE = {"question_id": "q0", "variant": 0, "order": [0, 1, 2, 3], "position": 0}
TWICE = {**LINE, "position": 3}
TABLES = (Evaluation, EvaluationQuestion, Shard, Prediction, Generation, QuestionScore, Protocol, VariantSet)


def _import(registry: Registry, lines: list[Any], variants: str = "imported") -> int:
    return import_outputs(registry.engine, ImportRequest(registry.file("o.jsonl", lines), "m", "b", variants))


def _predictions(registry: Registry, evaluation_id: int) -> list[Prediction]:
    with read_session(registry.engine) as session:
        query = select(Prediction).where(Prediction.evaluation_id == evaluation_id)
        return list(session.scalars(query.order_by(Prediction.question_id, Prediction.variant)))


@pytest.mark.parametrize(
    ("answer", "position", "option", "tied"),
    [
        ({"position": 1}, 1, 0, False),
        ({"position": None}, None, None, False),
        ({"option": 0}, 1, 0, False),
        ({"option": None}, None, None, False),
        ({"probabilities": [0.1, 0.2, 0.6, 0.1]}, 2, 1, False),
        ({"probabilities": [0.4, 0.1, 0.4, 0.1]}, 0, 2, True),
        ({"logprobs": [-3, -2, -2.5, -2]}, 1, 0, True),
        # A stated answer has priority over the probabilities, and so has a stated "none".
        ({"position": 3, "probabilities": [0.9, 0.1, 0, 0]}, 3, 3, False),
        ({"position": None, "probabilities": [0.9, 0.1, 0, 0]}, None, None, False),
        # Probabilities that are all zero are no valid answer.
        ({"probabilities": [0, 0, 0, 0]}, None, None, False),
    ],
)
def test_an_answer_is_the_stated_one_or_else_the_most_probable(
    registry: Registry, answer: dict[str, Any], position: int | None, option: int | None, tied: bool
) -> None:
    registry.benchmark("b", four_options(1))
    line = {"question_id": "q0", "variant": 0, "order": [2, 0, 1, 3], **answer}
    [row] = _predictions(registry, _import(registry, [line]))
    assert (row.chosen_position, row.chosen_option, row.tied) == (position, option, tied)
    assert row.correct == (option == 0)


def test_probabilities_of_any_sum_are_renormalised_and_true_mass_is_kept(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    lines = [
        {**LINE, "variant": 0, "probabilities": [1, 1, 2, 4]},
        {**LINE, "variant": 1, "probabilities": [0.1, 0.1, 0.2, 0.4]},
        {**LINE, "variant": 2, "probabilities": [0, 0, 0, 0]},
    ]
    rows = _predictions(registry, _import(registry, lines))
    assert rows[0].label_probabilities == pytest.approx([0.125, 0.125, 0.25, 0.5], abs=1e-12)
    assert rows[1].label_probabilities == pytest.approx([0.125, 0.125, 0.25, 0.5], abs=1e-12)
    assert [row.label_mass for row in rows] == [None, pytest.approx(0.8), 0.0]
    assert (rows[2].label_probabilities, rows[2].brier_score) == (None, None)


def test_inserted_options_are_negative_by_name_and_their_names_are_kept(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    lines = [
        {**LINE, "order": [0, "nota", 2, 3], "position": 1},
        {**LINE, "variant": 1, "order": ["filler", 0], "option": "filler"},
    ]
    evaluation_id = _import(registry, lines)
    rows = _predictions(registry, evaluation_id)
    assert [(row.shown, row.chosen_option, row.own_options) for row in rows] == [
        ([0, -2, 2, 3], -2, False),
        ([-1, 0], -1, False),
    ]
    with read_session(registry.engine) as session:
        evaluation = session.get_one(Evaluation, evaluation_id)
        assert evaluation.variant_set.inserted == {"-1": "filler", "-2": "nota"}


def test_repeated_orders_and_unequal_numbers_of_variants_are_fine(registry: Registry) -> None:
    registry.benchmark("b", four_options(2))
    lines = [
        {**LINE, "variant": 0},
        {**LINE, "variant": 7},
        {**LINE, "variant": 3, "order": [3, 2, 1, 0]},
        {**LINE, "question_id": "q1", "position": 1},
    ]
    evaluation_id = _import(registry, lines)
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id, per_question=True)
    assert (document["questions"], document["scored"], document["complete"]) == (2, 2, True)
    # q0: right twice in the original order, wrong once in the reversed one; each order counts once.
    assert document["per_question"]["q0"]["average_accuracy"] == pytest.approx(1 / 2)
    assert document["per_question"]["q1"]["fluctuation_rate"] is None


def test_importing_again_makes_a_new_replicate(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    ids = [_import(registry, [LINE]) for _ in range(3)]
    with read_session(registry.engine) as session:
        assert [session.get_one(Evaluation, evaluation_id).replicate for evaluation_id in ids] == [0, 1, 2]


def test_a_file_without_one_variant_is_refused_and_nothing_is_stored(registry: Registry) -> None:
    registry.benchmark("b", four_options(2))
    orders = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    lines = [
        {"question_id": f"q{q}", "variant": k, "order": order, "option": q}
        for q in range(2)
        for k, order in enumerate(orders)
    ]
    for rest, lost in ((lines[:-1], "variant 3, "), (lines[:4], "variant 0, ")):
        with pytest.raises(IngestError, match=rf"incomplete: 1 of 2 questions .*the first is q1 \({lost}") as refused:
            _import(registry, rest, "cyclic")
        assert "nothing is imported" in str(refused.value)
    with read_session(registry.engine) as session:
        assert [session.scalar(select(func.count()).select_from(table)) for table in TABLES] == [0] * len(TABLES)


def test_generated_text_is_kept(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    evaluation_id = _import(registry, [{**LINE, "text": "The answer is a.\n"}])
    with read_session(registry.engine) as session:
        [text] = session.scalars(select(Generation.text).where(Generation.evaluation_id == evaluation_id))
    assert text == "The answer is a.\n"


BAD = [
    ("not json", "line 2: not JSON"),
    ({**LINE, "question_id": "nobody"}, '"nobody" is not among'),
    ({key: value for key, value in LINE.items() if key != "order"}, "key 'order' is missing"),
    ({**LINE, "variant": -1}, "variant"),
    ({**LINE, "variant": 1.5}, "variant"),
    ({**LINE, "order": [0, 1, 2, 4]}, "option 4 is outside 0 … 3"),
    ({**LINE, "order": [0, 1, 1, 3]}, "option 1 is shown twice"),
    ({**LINE, "order": []}, "order"),
    ({**LINE, "order": [0, True]}, "neither an option ordinal nor"),
    ({**LINE, "position": 4}, "position 4 is not among 0 … 3"),
    ({**LINE, "position": "A"}, "is not among 0 … 3"),
    ({**LINE, "probabilities": [0.5, 0.5]}, "2 values for 4 positions"),
    ({**LINE, "probabilities": [0.5, -0.1, 0.3, 0.3]}, "must not be below 0"),
    ('{"question_id": "q0", "variant": 1, "order": [0, 1, 2, 3], "probabilities": [NaN, 0, 0, 1]}', "NaN"),
    ('{"question_id": "q0", "variant": 1, "order": [0, 1, 2, 3], "logprobs": [-1e999, 0, 0, 0]}', "finite"),
    ({**LINE, "logprobs": [0.1, -1, -1, -1]}, "must not exceed 0"),
    ({"question_id": "q0", "variant": 1, "order": [0, 1, 2, 3]}, "no answer"),
    ({**LINE, "option": 2}, "contradict each other"),
    (TWICE, "is already on an earlier line, with another answer"),
]


@pytest.mark.parametrize(("line", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_a_bad_line_is_named_and_nothing_is_stored(registry: Registry, line: Any, problem: str) -> None:
    registry.benchmark("b", four_options(2))
    bad = line if isinstance(line, str) or line is TWICE else {**line, "variant": line.get("variant", 1) or 1}
    if isinstance(bad, dict) and line is not TWICE and "variant" in problem:
        bad = line
    with pytest.raises(ShuffleboardError, match=re.escape(problem)) as raised:
        _import(registry, [LINE, bad, {**LINE, "question_id": "q1"}])
    assert "o.jsonl line 2" in str(raised.value)
    with read_session(registry.engine) as session:
        assert [session.scalar(select(func.count()).select_from(table)) for table in TABLES] == [0] * len(TABLES)


def test_a_bad_line_far_down_leaves_nothing_behind(registry: Registry) -> None:
    registry.benchmark("b", four_options(5000))
    lines = [{**LINE, "question_id": f"q{q % 5000}", "variant": q // 5000} for q in range(50_000)]
    lines[40_000 - 1]["position"] = 9
    with pytest.raises(ShuffleboardError, match="line 40000: position 9"):
        _import(registry, lines)
    with read_session(registry.engine) as session:
        assert session.scalar(select(func.count()).select_from(Prediction)) == 0
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0


def test_an_order_that_a_kind_lacks_is_refused_with_a_remedy(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    with pytest.raises(ShuffleboardError, match="use --variants imported"):
        _import(registry, [{**LINE, "variant": 1, "order": [3, 2, 1, 0]}], "cyclic")


def test_json_written_by_the_contract_is_read_back_to_the_last_bit(registry: Registry) -> None:
    registry.benchmark("b", four_options(1))
    logprobs = [-0.1234567890123456, -2.220446049250313e-16, -700.5, -3.0]
    line = {**LINE, "logprobs": logprobs, "logprobs_without_question": [value - 1 for value in logprobs]}
    [row] = _predictions(registry, _import(registry, [json.loads(json.dumps(line))]))
    assert row.label_logprobs == logprobs
    assert row.logprobs_without_question == [value - 1 for value in logprobs]


def test_recorded_answers_are_archived_and_come_back(registry: Registry) -> None:
    """Check answers whose prompts are unknown here, so that their digests are neither known nor computable."""
    registry.benchmark("b", four_options(3))
    lines = [
        {"question_id": f"q{question}", "variant": variant, "order": order, **answer}
        for question, answer in enumerate(
            ({"position": 1}, {"probabilities": [0.1, 0.2, 0.6, 0.1]}, {"position": None})
        )
        for variant, order in enumerate(([0, 1, 2, 3], [3, 2, 1, 0]))
    ]
    evaluation_id = _import(registry, lines)

    def load() -> list[dict[str, Any]]:
        columns = [column.key for column in Prediction.__table__.columns]
        return [{name: getattr(row, name) for name in columns} for row in _predictions(registry, evaluation_id)]

    def problems() -> list[str]:
        with read_session(registry.engine) as session:
            return list(verify_evaluation(session, evaluation_id)["problems"])

    before = load()
    assert len(before) == len(lines)
    assert archive(registry.engine, evaluation_id, str(registry.folder / "archives")) is not None
    assert (load(), problems()) == ([], [])
    assert restore(registry.engine, evaluation_id) is not None
    assert (load(), problems()) == (before, [])
