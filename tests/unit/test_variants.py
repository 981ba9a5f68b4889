"""Variants: orders that are computed by hand, and names that are refused."""

import pytest

from registry.errors import VariantError
from registry.prompting.variants import (
    QuestionShape,
    VariantShown,
    parse_variants,
    permutation_of_rank,
)


def show(kind: str, n_options: int, *, answer: int = 0, external_id: str = "q") -> list[VariantShown]:
    return parse_variants(kind).variants(QuestionShape(external_id, n_options, answer))


@pytest.mark.parametrize(("n_options", "rank"), [(3, 6), (3, -1), (1, 1)])
def test_a_rank_that_is_none_is_refused(n_options: int, rank: int) -> None:
    with pytest.raises(VariantError, match=f"rank {rank} is outside"):
        permutation_of_rank(n_options, rank)


@pytest.mark.parametrize("n_options", range(2, 14))
def test_cyclic_puts_every_option_at_every_position_once(n_options: int) -> None:
    rotations = [variant.order for variant in show("cyclic", n_options)]
    for position in range(n_options):
        assert sorted(order[position] for order in rotations) == list(range(n_options))


def test_an_order_says_whether_it_is_the_benchmark_s_own() -> None:
    identity, reverse = show("original-inverse", 3)
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
        show(kind, n_options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spiral", "unknown variant kind 'spiral'; use one of original, original-inverse, cyclic, "),
        ("Cyclic", "unknown variant kind 'Cyclic'"),
        ("", "unknown variant kind ''"),
        ("cyclic ", "unknown variant kind 'cyclic '"),
        ("cyclic\n", "unknown variant kind"),
        ("cyclic:seed=1", "variants 'cyclic:seed=1': 'seed=1' is not a parameter of cyclic; it takes: repeats"),
        ("full:", None),
        ("random2:x", "'x' is not a parameter of random2"),
        ("original:,", "'' is not a parameter of original"),
        ("cyclic:repeats=0", "'cyclic:repeats=0': repeats is how often each prompt is asked, from 1 to 100, not 0"),
        ("cyclic:repeats=101", "repeats is how often each prompt is asked, from 1 to 100, not 101"),
        ("cyclic:repeats=x", "repeats must be a whole number, not 'x'"),
        ("cyclic*repeat:k=4", "to ask each prompt several times, give the kind repeats, such as cyclic:repeats=4"),
        ("repeat:k=4", "to ask each prompt several times, give the kind repeats, such as cyclic:repeats=4"),
        ("shuffle:m=101", "m is a number of shuffles, from 1 to 100, not 101"),
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
