"""Canonical texts of documents, each with one digest, and the bytes that a seal covers."""

import hashlib
import itertools
import json
import math
import random
import struct
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.digests import canonical_json, sha256_file, sha256_text, specification_digest
from registry.predictions import archive_files
from registry.sealed import leaf_tables
from registry.sealed.manifest import GENERATION_COLUMNS, LEAF_COLUMNS, encode, leaf_digest


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
    """Return a text that differs for different values and types, except −0 and 0."""
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
    """Return a prediction's values in the order of LEAF_COLUMNS."""
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
    pointers = {"reused_from_evaluation_id", "prompt_key"}
    assert set(LEAF_COLUMNS) == columns - {"evaluation_id", "question_id"} - pointers


def test_leaves_of_tables_are_those_of_rows() -> None:
    rng = random.Random(32)

    def make_values(kind: pa.DataType) -> Any:
        if rng.random() < 0.2:
            return None
        if pa.types.is_list(kind):
            return [draw(kind.value_type) for _ in range(rng.randint(0, 4))]
        return draw(kind)

    def draw(kind: pa.DataType) -> Any:
        if kind == pa.float64():
            return rng.choice([-0.0, 0.0, rng.gauss(0, 1e9)])
        if kind == pa.bool_():
            return rng.random() < 0.5
        if kind == pa.string():
            return "é\n\0" * rng.randint(0, 3)
        return rng.randbytes(32) if kind in (pa.binary(32), pa.binary()) else rng.randint(-30_000, 30_000)

    columns = {field.name: [make_values(field.type) for _ in range(90)] for field in archive_files.SCHEMA}
    columns |= {"question": [f"q{row // 7:02}" for row in range(90)], "variant": [row % 7 for row in range(90)]}
    table = pa.Table.from_pydict(columns, schema=archive_files.SCHEMA)
    names = [*LEAF_COLUMNS, *(f"generation_{name}" for name in GENERATION_COLUMNS)]
    encoded = [encode(name.replace("generation_", "generation.")) for name in names]
    digest = LEAF_COLUMNS.index("prompt_digest")
    for part in (table, table.slice(7, 40)):
        rows = list(zip(*(archive_files.values(part, name) for name in ("question", *names)), strict=True))
        expected = []
        for name, group in groupby(rows, key=itemgetter(0)):
            values = [row[1:] for row in group]
            shown = "".join(f"{row[names.index('variant')]}:{row[digest]}\n" for row in values)
            complete = all(row[digest] is not None for row in values)
            prompts = hashlib.sha256(shown.encode()).hexdigest() if complete else None
            expected.append((name, leaf_digest(values, name.encode()), prompts))
        listed = list(zip(encoded, names, strict=True))
        assert list(leaf_tables.leaves(part, listed, str.encode)) == expected
