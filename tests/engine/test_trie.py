"""The token trie, its passes and its pieces, compared with their definitions."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workers.engine.prefixes import shared_ends
from workers.engine.trie import build_trie
from workers.engine.trie_engine import plan_passes, plan_pieces

# Few tokens, so that much is shared: prefixes of others, duplicates and single tokens come up by themselves.
SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=40)


def prefixes(sequences: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence) + 1)}


@given(SEQUENCES)
def test_every_distinct_beginning_is_one_node(sequences: list[list[int]]) -> None:
    trie = build_trie(sequences)
    beginnings = [tuple(trie.tokens[step] for step in trie.path(node)) for node in range(len(trie))]
    assert len(set(beginnings)) == len(beginnings)
    assert set(beginnings) == prefixes(sequences)
    assert [list(beginnings[node]) for node in trie.last] == sequences
    assert trie.depth == [len(beginning) - 1 for beginning in beginnings]


@given(SEQUENCES)
def test_the_interval_of_a_node_holds_exactly_its_descendants(sequences: list[list[int]]) -> None:
    trie = build_trie(sequences)
    for node in range(len(trie)):
        path = set(trie.path(node))
        assert [above for above in range(len(trie)) if above <= node < trie.end[above]] == sorted(path)


@given(SEQUENCES, st.data())
def test_ancestors_outside_a_range_of_nodes_are_all_ancestors_of_its_first(
    sequences: list[list[int]], data: st.DataObject
) -> None:
    trie = build_trie(sequences)
    first = data.draw(st.integers(0, len(trie) - 1))
    last = data.draw(st.integers(first + 1, len(trie)))
    above = set(trie.path(trie.parent[first]))
    for node in range(first, last):
        assert {step for step in trie.path(node) if step < first} <= above


@given(SEQUENCES, st.lists(st.integers(0, 3), max_size=12))
def test_following_a_sequence_gives_the_path_it_shares(sequences: list[list[int]], sequence: list[int]) -> None:
    trie = build_trie(sequences)
    expected = prefixes(sequences)
    shared = max((end for end in range(len(sequence) + 1) if tuple(sequence[:end]) in expected), default=0)
    nodes = trie.follow(sequence)
    assert [trie.tokens[node] for node in nodes] == sequence[:shared]
    assert nodes == (trie.path(nodes[-1]) if nodes else [])


@given(SEQUENCES, st.integers(1, 50), st.sets(st.integers(0, 30)))
def test_passes_cover_the_unknown_nodes_once_and_in_order(
    sequences: list[list[int]], budget: int, known: set[int]
) -> None:
    nodes = len(build_trie(sequences))
    ranges = list(plan_passes(known, budget, 0, nodes))
    assert [node for first, last in ranges for node in range(first, last)] == [
        node for node in range(nodes) if node not in known
    ]
    assert all(0 < last - first <= budget for first, last in ranges)


@given(SEQUENCES, st.integers(1, 30))
def test_pieces_cover_the_trie_once_and_in_order(sequences: list[list[int]], piece_tokens: int) -> None:
    trie = build_trie(sequences)
    pieces = list(plan_pieces(trie, set(), piece_tokens))
    assert pieces[0][0] == 0
    assert pieces[-1][1] == len(trie)
    assert all(last == first for (_, last), (first, _) in pairwise(pieces))
    assert all(first < last for first, last in pieces)


def test_a_piece_begins_where_a_question_does() -> None:
    header = [9, 9, 9]
    questions = [[*header, q, *([7] * 20), option] for q in range(4) for option in (1, 2)]
    trie = build_trie(questions)
    starts = [first for first, _ in plan_pieces(trie, set(), 22)]
    assert [trie.depth[start] for start in starts] == [0, 3, 3, 3]


# Tokens kept for later calls


def list_kept_tokens(sequences: list[list[int]], groups: list[int]) -> list[list[int]]:
    trie = build_trie(sequences)
    return [[trie.tokens[step] for step in trie.path(end)] for end in shared_ends(trie, groups)]


def test_the_beginning_that_several_questions_share_is_kept() -> None:
    sequences = [[9, 8, 7, q, 5, variant] for q in (1, 2, 3) for variant in (0, 1)]
    assert list_kept_tokens(sequences, [0, 0, 1, 1, 2, 2]) == [[9, 8, 7]]


def test_each_of_several_beginnings_is_kept() -> None:
    # As under answer-moving, whose examples differ from variant to variant.
    sequences = [[9, variant, *([6] * 10), q, 5] for q in (1, 2, 3) for variant in (0, 1)]
    assert list_kept_tokens(sequences, [0, 0, 1, 1, 2, 2]) == [[9, 0, *([6] * 10)], [9, 1, *([6] * 10)]]


def test_words_shared_by_two_questions_do_not_replace_the_common_beginning() -> None:
    sequences = [[*([9] * 20), *question] for question in ([1, 2, 3, 4], [1, 2, 3, 5], [6], [7])]
    assert list_kept_tokens(sequences, [0, 1, 2, 3]) == [[9] * 20]


def test_of_one_question_alone_the_common_beginning_is_kept() -> None:
    assert list_kept_tokens([[9, 8, 7, 1], [9, 8, 7, 2, 3]], [0, 0]) == [[9, 8, 7]]
    assert list_kept_tokens([[1], [2]], [0, 0]) == []
    assert list_kept_tokens([[1, 2], [1, 2, 3]], [0, 0]) == [[1, 2]]
