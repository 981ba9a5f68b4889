"""Variants: orders worked out by hand, and spellings that are refused."""

import itertools
import math
import random

import pytest

from registry.errors import VariantError
from registry.prompting.variants import (
    RANDOM_RANKS,
    VARIANT_KINDS,
    QuestionShape,
    VariantShown,
    parse_variants,
    permutation_of_rank,
)


def shown(kind: str, n_options: int, *, answer: int = 0, external_id: str = "q") -> list[VariantShown]:
    return parse_variants(kind).variants(QuestionShape(external_id, n_options, answer))


def orders(kind: str, n_options: int) -> list[str]:
    """Each variant's order as digits: "201" shows option 2 first."""
    return ["".join(map(str, variant.order)) for variant in shown(kind, n_options)]


@pytest.mark.parametrize(
    ("kind", "n_options", "expected"),
    [
        ("original", 2, ["01"]),
        ("original", 5, ["01234"]),
        ("original-inverse", 2, ["01", "10"]),
        ("original-inverse", 3, ["012", "210"]),
        ("original-inverse", 4, ["0123", "3210"]),
        ("original-inverse", 5, ["01234", "43210"]),
        ("cyclic", 2, ["01", "10"]),
        ("cyclic", 3, ["012", "120", "201"]),
        ("cyclic", 4, ["0123", "1230", "2301", "3012"]),
        ("cyclic", 5, ["01234", "12340", "23401", "34012", "40123"]),
        # As ranks: L2 1,0 · L3 3,5,0 · L4 12,13,1,8 · L5 108,49,97,113,53.
        ("random2", 2, ["10", "01"]),
        ("random2", 3, ["120", "210"]),
        ("random2", 4, ["2013", "2031"]),
        ("random2", 5, ["42013", "20143"]),
        ("randomL", 2, ["10", "01"]),
        ("randomL", 3, ["120", "210", "012"]),
        ("randomL", 4, ["2013", "2031", "0132", "1203"]),
        ("randomL", 5, ["42013", "20143", "40132", "42310", "20431"]),
        ("full", 2, ["01", "10"]),
        ("full", 3, ["012", "021", "102", "120", "201", "210"]),
    ],
)
def test_orders(kind: str, n_options: int, expected: list[str]) -> None:
    assert orders(kind, n_options) == expected


@pytest.mark.parametrize("n_options", [4, 5, 6])
def test_full_is_every_order_once_in_lexicographic_order(n_options: int) -> None:
    found = orders("full", n_options)
    assert len(set(found)) == len(found) == math.factorial(n_options)
    assert found == sorted(found)


@pytest.mark.parametrize("n_options", range(1, 7))
def test_permutation_of_rank_equals_itertools(n_options: int) -> None:
    expected = list(itertools.permutations(range(n_options)))
    assert [permutation_of_rank(n_options, rank) for rank in range(math.factorial(n_options))] == expected


@pytest.mark.parametrize(("n_options", "rank"), [(3, 6), (3, -1), (1, 1)])
def test_a_rank_that_is_none_is_refused(n_options: int, rank: int) -> None:
    with pytest.raises(VariantError, match=f"rank {rank} is outside"):
        permutation_of_rank(n_options, rank)


@pytest.mark.parametrize("n_options", sorted(RANDOM_RANKS))
def test_the_random_ranks_are_those_that_python_draws_with_seed_0(n_options: int) -> None:
    drawn = random.Random(0).sample(range(math.factorial(n_options)), n_options)
    assert list(RANDOM_RANKS[n_options]) == drawn


@pytest.mark.parametrize("n_options", range(2, 14))
def test_cyclic_puts_every_option_at_every_position_once(n_options: int) -> None:
    rotations = [variant.order for variant in shown("cyclic", n_options)]
    for position in range(n_options):
        assert sorted(order[position] for order in rotations) == list(range(n_options))


@pytest.mark.parametrize("kind", VARIANT_KINDS)
@pytest.mark.parametrize("n_options", [2, 3, 4, 5])
def test_every_kind_is_a_pure_function_with_rising_ordinals(kind: str, n_options: int) -> None:
    question = QuestionShape("q", n_options, 1)
    try:
        definition = parse_variants(kind)
        first = definition.variants(question)
    except VariantError:
        return  # imported outputs bring their own variants; others may want a parameter
    assert definition.variants(question) == first
    ordinals = [variant.ordinal for variant in first]
    assert ordinals == sorted(set(ordinals))
    assert len({variant.name for variant in first}) == len(first)


def test_an_order_says_whether_it_is_the_benchmark_s_own() -> None:
    identity, reverse = shown("original-inverse", 3)
    assert (identity.unchanged(3), identity.own_options(3)) == (True, True)
    assert (reverse.unchanged(3), reverse.own_options(3)) == (False, True)
    assert not VariantShown(0, "without the question", (0, 1, 2), question_shown=False).unchanged(3)
    assert not VariantShown(0, "one left out", (0, 1)).own_options(3)
    assert not VariantShown(0, "one inserted", (0, 1, -1)).own_options(3)
    assert not VariantShown(0, "one twice", (0, 1, 1)).own_options(3)


@pytest.mark.parametrize(
    ("kind", "n_options", "message"),
    [
        ("full", 7, "question q has 7 options, which makes 5,040 orders; full is limited to 6 options: use cyclic"),
        ("randomL", 11, "question q has 11 options; random orders are drawn for 2 to 10 only: use cyclic"),
        ("random2", 13, "question q has 13 options; random orders are drawn for 2 to 10 only: use cyclic"),
    ],
)
def test_too_many_options_are_refused_with_a_remedy(kind: str, n_options: int, message: str) -> None:
    with pytest.raises(VariantError, match=message):
        shown(kind, n_options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spiral", "unknown variant kind 'spiral'; use one of original, original-inverse, cyclic, "),
        ("Cyclic", "unknown variant kind 'Cyclic'"),
        ("", "unknown variant kind ''"),
        ("cyclic ", "unknown variant kind 'cyclic '"),
        ("cyclic\n", "unknown variant kind"),
        ("cyclic:seed=1", "variants 'cyclic:seed=1': 'seed=1' is not a parameter of cyclic .it takes: none."),
        ("full:", None),
        ("random2:x", "'x' is not a parameter of random2"),
        ("original:,", "'' is not a parameter of original"),
        ("repeat:k=1", "k is a number of answers to each prompt from 2 to 100, not 1"),
        ("shuffle:m=101", "m is a number of shuffles from 1 to 100, not 101"),
    ],
)
def test_spellings(text: str, message: str | None) -> None:
    if message is None:
        assert parse_variants(text).name == text.rstrip(":")
        return
    with pytest.raises(VariantError, match=message) as refused:
        parse_variants(text)
    assert refused.value.exit_status == 2


def test_the_specification_of_a_set_changes_with_its_kind_and_parameters() -> None:
    specifications = [repr(parse_variants(kind).specification()) for kind in ("original", "cyclic", "full")]
    assert len(set(specifications)) == 3
    assert parse_variants("cyclic").specification() | {"version": 0} == {
        "kind": "cyclic",
        "version": 0,
        "parameters": {},
    }
