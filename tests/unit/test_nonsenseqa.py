"""NonsenseQA: the number of words, the distribution of right options, and the same questions on every machine."""

from collections import Counter

import pytest

from registry.benchmarks.nonsenseqa import generate_nonsenseqa, words
from registry.errors import UsageError


def test_sizes_and_positions() -> None:
    content = generate_nonsenseqa(1000, seed=3)
    lengths = {len(record.text.split(" ")) for record in content.questions}
    of_options = {len(option.split(" ")) for record in content.questions for option in record.options}
    assert (lengths, of_options) == (set(range(5, 21)), set(range(1, 7)))
    assert {len(record.options) for record in content.questions} == {4}
    assert Counter(record.answer for record in content.questions) == dict.fromkeys(range(4), 250)
    assert len({record.external_id for record in (*content.questions, *content.pool)}) == 1020


@pytest.mark.parametrize("questions", [1, 2, 3, 5, 10, 99, 102])
def test_answers_are_as_even_as_they_can_be(questions: int) -> None:
    counts = Counter(record.answer for record in generate_nonsenseqa(questions).questions)
    assert max(counts.values()) - min(counts[position] for position in range(4)) <= 1


def test_the_order_of_answers_changes_from_four_to_four() -> None:
    answers = [record.answer for record in generate_nonsenseqa(400).questions]
    orders = {tuple(answers[start : start + 4]) for start in range(0, 400, 4)}
    assert len(orders) > 12
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


def test_no_word_stands_twice_in_a_question_and_its_options() -> None:
    for record in generate_nonsenseqa(200).questions:
        listed = " ".join((record.text, *record.options)).split(" ")
        assert len(set(listed)) == len(listed)
        assert set(listed) <= set(words())


def test_the_pool_holds_examples_of_its_own() -> None:
    content = generate_nonsenseqa(100)
    assert Counter(record.answer for record in content.pool) == dict.fromkeys(range(4), 5)
    assert not {record.text for record in content.pool} & {record.text for record in content.questions}


def test_fewer_questions_are_the_first_of_more() -> None:
    assert generate_nonsenseqa(10).questions == generate_nonsenseqa(30).questions[:10]
    assert generate_nonsenseqa(10).pool == generate_nonsenseqa(30).pool


def test_the_seed_names_the_benchmark() -> None:
    assert generate_nonsenseqa(20, 5) == generate_nonsenseqa(20, 5)
    assert generate_nonsenseqa(20, 5).content_digest != generate_nonsenseqa(20, 6).content_digest
    shared = {r.text for r in generate_nonsenseqa(20, 5).questions} & {
        r.text for r in generate_nonsenseqa(20, 6).questions
    }
    assert not shared


def test_a_seed_gives_these_questions_on_every_machine() -> None:
    content = generate_nonsenseqa()
    assert content.content_digest == "44707fe5c5b13a58c76abc7282eaf9466f701aa1169958e5e7e9cf52a2d4d530"
    assert len(words()) == 7862


@pytest.mark.parametrize(
    ("questions", "seed", "message"),
    [
        (0, 0, "questions 0: give a number from 1 to 100,000"),
        (100_001, 0, "questions 100001"),
        (1, -1, "seed -1: give"),
    ],
)
def test_numbers_out_of_range_are_refused(questions: int, seed: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generate_nonsenseqa(questions, seed)


def test_no_question_is_flagged_as_one_that_moving_breaks() -> None:
    for record in generate_nonsenseqa(300).questions:
        assert not record.refers_to_options
        assert not record.sorted_numeric
