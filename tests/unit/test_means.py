"""Means over a field that a log's overall score may be."""

from collections.abc import Mapping

import pytest

from registry.logs.means import Means, fields_of, tolerance

# Three answers about law, one of them right, and one about art, which is right.
ANSWERS = (("law", True), ("law", False), ("law", False), ("art", True))


def means(right: Mapping[bool, bool | Mapping[int, int]], scores: Mapping[bool, float | None], name: str) -> Means:
    counted = Means()
    for subject, correct in ANSWERS:
        counted.add({name: subject, "id": "same"}, scores[correct], right[correct])
    return counted


def test_a_mean_over_a_fields_values_is_found_by_right_answers() -> None:
    counted = means({True: True, False: False}, {True: None, False: None}, "subject")
    found = counted.find(2 / 3, 4)
    assert found is not None
    assert (found.field, found.values, found.mean, found.own) == ("subject", 2, pytest.approx(2 / 3), False)
    assert found.describe() == "the mean over its 2 values of 'subject'"
    assert counted.find(0.5, 4) is None
    assert counted.find(2 / 3, 5) is None  # the field is missing from an answer


def test_each_reading_has_its_own_mean() -> None:
    counted = means({True: {0: 1}, False: {1: 1}}, {True: None, False: None}, "subject")
    assert [counted.find(1 / 3, 4, number) is not None for number in (0, 1, 2)] == [False, True, False]
    assert counted.find(2 / 3, 4, 0) is not None


def test_the_logs_own_scores_have_a_mean_if_all_answers_have_one() -> None:
    own = means({True: False, False: False}, {True: 0.5, False: 0.25}, "subject").find(5 / 12, 4)
    assert own is not None
    assert own.own
    assert means({True: False, False: False}, {True: 0.5, False: None}, "subject").find(5 / 12, 4) is None


def test_a_rounded_score_is_a_mean_over_groups_only() -> None:
    answered, scores = {True: True, False: False}, {True: None, False: None}
    assert means(answered, scores, "subject").find(0.667, 4) is not None
    assert means(answered, scores, "shown").find(0.667, 4) is None
    assert means(answered, scores, "shown").find(2 / 3, 4) is not None


def test_a_tolerance_comes_from_the_decimals_that_are_stated() -> None:
    assert [tolerance(stated) for stated in (0.5, 0.7905, 0.79051, 1 / 3)] == [6e-4, 1e-4, 1e-5, 1e-6]


def test_short_texts_and_whole_numbers_of_a_record_are_its_fields() -> None:
    record = {"subject": "law", "level": 3, "text": "x" * 101, "lines": "a\nb", "right": True, "none": None, "": ""}
    assert fields_of(record, {"subject": "art", "task": "y" * 100}) == {
        "subject": "law",
        "level": "3",
        "task": "y" * 100,
    }
    assert len(fields_of({f"field {number}": number for number in range(50)})) == 40
