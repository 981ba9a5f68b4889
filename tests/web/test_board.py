"""Groups, filters and order, without a database."""

import pytest

from web.board import BoardRequest, make, ordered


def row(evaluation_id, model, value, *, complete=True, **changes):
    return {
        "evaluation_id": evaluation_id,
        "model": model,
        "benchmark": "b",
        "benchmark_version": "1",
        "variants": "cyclic",
        "variant_set_id": 1,
        "protocol": "symbols",
        "protocol_id": 1,
        "shots": 0,
        "question_filter": {"limit": None, "subjects": None},
        "complete": complete,
        "worst_accuracy": value,
        **changes,
    }


def request(**changes):
    given = {"filters": {}, "metrics": ("worst_accuracy",), "sort": "worst_accuracy", "order": "desc", "grouped": True}
    return BoardRequest(**given | changes)


def test_a_filter_never_changes_a_rank():
    rows = [row(1, "best", 0.9), row(2, "second", 0.8)]
    board = make(rows, request(filters={"q": "SEC"}))
    assert [(one["model"], one["rank"]) for one in board.complete] == [("second", 2)]


def test_evaluations_of_a_part_of_a_benchmark_are_ranked_among_themselves():
    rows = [row(1, "whole", 0.5), row(2, "part", 0.9, question_filter={"limit": 10, "subjects": None})]
    assert [one["rank"] for one in make(rows, request()).complete] == [1, 1]


def test_an_incomplete_evaluation_has_no_rank_even_where_it_has_a_number():
    rows = [row(1, "done", 0.5), row(2, "half", 0.9, complete=False)]
    board = make(rows, request())
    assert [(one["model"], one["rank"]) for one in board.rows] == [("done", 1), ("half", None)]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_missing_value_is_last_in_either_direction(order):
    rows = [row(1, "none", None), row(2, "low", 0.1), row(3, "high", 0.9)]
    assert ordered(rows, "worst_accuracy", order)[-1]["model"] == "none"


def test_sorting_by_benchmark_moves_whole_groups():
    rows = [row(1, "m", 0.1, benchmark="a"), row(2, "m", 0.2, benchmark="z"), row(3, "n", 0.9, benchmark="a")]
    board = make(rows, request(sort="benchmark", order="desc"))
    assert [one["benchmark"] for one in board.complete] == ["z", "a", "a"]
