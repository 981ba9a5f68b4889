"""One text, and so one digest, for one document; and the bytes that a seal is taken over."""

import hashlib
import itertools
import json
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.digests import canonical_json, sha256_file, sha256_text, specification_digest
from registry.proof.manifest import LEAF_COLUMNS, encode, leaf_digest


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"b": {"d": 1, "c": 2}, "a": ()}, '{"a":[],"b":{"c":2,"d":1}}'),
        ({"temperature": Decimal("0.60")}, '{"temperature":"0.60"}'),
        ("größe \u2028 \U0001f600", '"größe \u2028 \U0001f600"'),
        ({1: "x"}, '{"1":"x"}'),
    ],
)
def test_canonical_json(document: Any, expected: str) -> None:
    assert canonical_json(document) == expected


def test_floats_have_no_place_in_a_specification() -> None:
    with pytest.raises(TypeError, match=r"a specification holds a float \(0\.6\); give it as a Decimal"):
        canonical_json({"sampling": [{"temperature": 0.6}]})


def test_the_order_of_keys_does_not_matter_and_that_of_lists_does() -> None:
    assert specification_digest({"a": 1, "b": 2}) == specification_digest({"b": 2, "a": 1})
    assert specification_digest({"a": [1, 2]}) != specification_digest({"a": [2, 1]})


def test_digests_are_sha_256_in_hexadecimal(tmp_path: Path) -> None:
    assert sha256_text("ä") == hashlib.sha256(b"\xc3\xa4").hexdigest()
    path = tmp_path / "large"
    content = b"x" * (3 << 20) + b"y"
    path.write_bytes(content)
    assert sha256_file(path) == hashlib.sha256(content).hexdigest()


# The seal's encoding


@pytest.mark.parametrize(
    ("value", "content"),
    [(0.5, struct.pack(">d", 0.5)), (-0.0, bytes(8)), (1, struct.pack(">q", 1)), (-1, b"\xff" * 8)],
)
def test_numbers_are_big_endian_and_minus_zero_is_zero(value: float, content: bytes) -> None:
    assert encode(value)[-8:] == content


DIFFERENT: list[Any] = [
    True,
    False,
    0,
    1,
    0.0,
    1.0,
    math.nextafter(1.0, 2.0),
    "",
    "0",
    "1",
    "True",
    [],
    [0],
    [0.0],
    [[]],
    ["", ""],
    ["a", "b"],
    ["ab"],
    [1, 2],
    [[1], 2],
    [[1, 2]],
]


def test_different_values_have_different_encodings() -> None:
    for one, other in itertools.combinations(DIFFERENT, 2):
        assert encode(one) != encode(other), (one, other)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(TypeError, match="set cannot be part of a seal"):
        encode({1})


values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


def plain(value: Any) -> str:
    """A text that tells values and their types apart, −0 and 0 not."""
    if isinstance(value, list):
        return f"[{','.join(map(plain, value))}]"
    if isinstance(value, float):
        return f"float {(value + 0.0).hex()}"
    return f"{type(value).__name__} {json.dumps(value)}"


@given(st.lists(values, max_size=4), st.lists(values, max_size=4))
def test_no_two_different_rows_run_together(one: list[Any], other: list[Any]) -> None:
    joined = b"".join(map(encode, one)), b"".join(map(encode, other))
    assert (joined[0] == joined[1]) == (list(map(plain, one)) == list(map(plain, other)))


def row(**changes: Any) -> tuple[Any, ...]:
    """A prediction's values in the order of LEAF_COLUMNS."""
    values = (
        dict.fromkeys(LEAF_COLUMNS) | {"variant": 0, "shown": [0, 1], "correct": True, "brier_score": 0.5} | changes
    )
    return tuple(values[name] for name in LEAF_COLUMNS)


def test_a_leaf_changes_with_every_value_and_with_the_rows_it_covers() -> None:
    leaves = [
        leaf_digest(rows)
        for rows in (
            [],
            [row()],
            [row(), row()],
            [row(variant=1)],
            [row(shown=[1, 0])],
            [row(correct=False)],
            [row(brier_score=math.nextafter(0.5, 1.0))],
            [row(brier_score=None)],
            [row(brier_score=None, entropy=0.5)],
            [row(), row(variant=1)],
            [row(variant=1), row()],
        )
    ]
    assert len(set(leaves)) == len(leaves)


def test_every_column_of_a_prediction_is_sealed_except_database_ids() -> None:
    from registry.tables import Prediction

    columns = {column.name for column in Prediction.__table__.columns}
    pointers = {"reused_from_evaluation_id"}
    assert set(LEAF_COLUMNS) == columns - {"evaluation_id", "question_id"} - pointers
