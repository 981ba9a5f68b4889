"""Options that lose or change their meaning when they are permuted."""

import pytest

from registry.benchmarks.flags import are_sorted_numbers, refers_to_options


@pytest.mark.parametrize(
    "option",
    [
        "None of the above",
        "All of the above.",
        "both of the above",
        "Neither of these",
        "A and B",
        "Both A and B",
        "A, B and C only",
        "(A) and (C)",
        "neither A nor B",
        "B or C",
        "all of these",
        "Two of the above",
        "none of these options",
        "More than one of the above",
    ],
)
def test_an_option_that_refers_to_others_is_flagged(option: str) -> None:
    assert refers_to_options(["the heart", option])


@pytest.mark.parametrize(
    "option",
    [
        "a heart and a lung",
        "Vitamin A and vitamin B",
        "none",
        "all",
        "above",
        "I and II",
        "AB",
        "either party may sue",
        "the above-ground part",
    ],
)
def test_an_option_that_only_sounds_like_it_is_not_flagged(option: str) -> None:
    assert not refers_to_options(["the heart", option])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["1", "2", "3"], True),
        (["3", "2", "1"], True),
        (["-2", "-1", "0"], True),
        (["−2", "−1"], True),
        (["1.5", "10", "100"], True),
        (["1,000", "2,000"], True),
        (["$5", "$10"], True),
        (["5%", "10%"], True),
        (["5 cm", "10 cm"], True),
        ([".5", "1"], True),
        (["1", "3", "2"], False),
        (["1", "1"], False),
        (["1", "two"], False),
        (["5 cm", "10 m"], False),
        (["a", "b"], False),
        (["", "1"], False),
        (["1", ""], False),
    ],
)
def test_sorted_numbers_are_flagged(options: list[str], expected: bool) -> None:
    assert are_sorted_numbers(options) is expected
