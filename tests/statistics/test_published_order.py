"""Whether the order in which a benchmark was published is as good as random."""

import gzip
import json
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from registry.statistics.published_order import key_places, regularity

DATA = Path(__file__).parents[1] / "data"


def test_medqa_stands_by_alphabet_and_by_length():
    with gzip.open(DATA / "medqa_usmle5.jsonl.gz", "rt", encoding="utf-8") as file:
        options = [json.loads(line)["options"] for line in file]
    by_alphabet = regularity([[text.casefold() for text in texts] for texts in options])
    assert by_alphabet.p_value < 1e-9
    assert by_alphabet.sorted == pytest.approx(0.19, abs=0.005)
    assert by_alphabet.expected == pytest.approx(2 / 120)
    assert regularity([[len(text) for text in texts] for texts in options]).p_value < 0.001


def test_what_any_order_would_give_is_that_of_all_orders():
    values = [3, 1, 2, 1]
    every = list(permutations(values))
    in_order = sum(list(order) in (sorted(values), sorted(values, reverse=True)) for order in every)
    assert regularity([values] * 30).expected == pytest.approx(in_order / len(every))


def test_an_order_drawn_at_random_is_regular_in_about_one_percent():
    random = Random(1)
    found = 0
    for _ in range(400):
        questions = [random.sample(range(20), 4) for _ in range(100)]
        found += regularity(questions).p_value <= 0.01
    assert found <= 12


@pytest.mark.parametrize("share", [0.3, 0.4])
def test_a_benchmark_sorted_in_part_is_found_whichever_way(share):
    random = Random(2)
    found = 0
    for _ in range(50):
        questions = [random.sample(range(20), 4) for _ in range(200)]
        for question in questions:
            if random.random() < share:
                question.sort(reverse=random.random() < 0.5)
        found += regularity(questions).p_value <= 0.01
    assert found >= 49


def test_keys_that_depend_on_the_subject_or_on_the_place_are_found_and_any_others_seldom():
    random = Random(3)

    def found(weights: list[float], other: list[float], subjects: str) -> int:
        hits = 0
        for _ in range(100):
            halves = [(subject, of) for subject, of in zip(subjects, (weights, other), strict=True) for _ in range(150)]
            keys = [(subject, 4, random.choices(range(4), of)[0]) for subject, of in halves]
            hits += key_places(keys).p_value <= 0.01
        return hits

    assert found([1, 1, 1, 1], [1, 1, 1, 1], "ab") <= 4
    assert found([4, 2, 1, 1], [4, 2, 1, 1], "ab") <= 4  # uneven, and everywhere alike
    assert found([4, 2, 1, 1], [1, 1, 2, 4], "ab") >= 99
    assert found([4, 2, 1, 1], [1, 1, 2, 4], "aa") >= 95
    assert key_places([("a", 4, 0)] * 29) is None
    assert key_places([("a", 4, 0)] * 40).p_value == 1
