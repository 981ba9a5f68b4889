"""Compute the leaves of a seal from Arrow tables, column by column: the same digests as `manifest.leaf_digest`."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.predictions.archive_files import QUESTION
from registry.predictions.binary_copy import (
    NUMBERS,
    Bytes,
    big_endian,
    binaries,
    column,
    contiguous,
    ends_of,
    items_of,
    join_bytes,
    lengths_of,
)

_HEX: Final = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), np.uint8).reshape(256, 2)


def leaves(
    table: pa.Table, names: Sequence[tuple[bytes, str]], header: Callable[[str], bytes]
) -> Iterator[tuple[str, str, str | None]]:
    """Yield external id, leaf and digest of the prompts (if all are known) for each question of a table.

    names: (name in a record, name in the table) of each column, in the order of a record. header: returns a question's
    header by its external id. The rows of a question must be adjacent and ordered by variant.
    """
    if not len(table):
        return
    content = records(table, names)
    ends, raw = ends_of(content) - ends_of(content)[0], contiguous(content)
    prompts = _prompts(table)
    ends_of_prompts, raw_prompts = ends_of(prompts) - ends_of(prompts)[0], contiguous(prompts)
    unknown = np.asarray(pc.is_null(column(table, "prompt_digest")))
    external_ids = column(table, QUESTION)
    coded = np.asarray(external_ids.dictionary_encode().indices.fill_null(-1))
    starts = np.flatnonzero(np.concatenate([[True], coded[1:] != coded[:-1]])).tolist()
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        external_id = external_ids[start].as_py()
        digest = hashlib.sha256(header(external_id))
        digest.update(raw[ends[start] : ends[end]])
        prompts_digest = None
        if not unknown[start:end].any():
            prompts_digest = hashlib.sha256(raw_prompts[ends_of_prompts[start] : ends_of_prompts[end]]).hexdigest()
        yield external_id, digest.hexdigest(), prompts_digest


def records(table: pa.Table, names: Sequence[tuple[bytes, str]]) -> pa.Array:
    """Return, for each row, the bytes that a leaf covers."""
    columns = [(before, column(table, name)) for before, name in names]
    # Records leave out a column whose values are all NULL.
    present = [(before, values) for before, values in columns if values.null_count < len(values)]
    counts = sum((np.asarray(pc.is_valid(values), np.int64) for _, values in present), np.zeros(len(table), np.int64))
    head = big_endian(pa.array(counts, pa.int32()), b"R")
    return join_bytes([binaries(head), *(_encode_named(before, values) for before, values in present)])


def _encode_named(name: bytes, values: pa.Array) -> pa.Array:
    """Return each value as `manifest.encode` encodes it, prefixed with the name; NULL stays NULL."""
    kind, known = values.type, pc.is_valid(values)
    if pa.types.is_list(kind):
        counts = lengths_of(values)
        heads = binaries(big_endian(pa.array(counts, pa.int32()), name + b"L"), known=known)
        items = _numbers(items_of(values))
        ends = np.concatenate([[0], np.cumsum(counts * items.shape[1])])
        return join_bytes([heads, binaries(items.reshape(-1), ends)], missing="emit_null")
    if kind in NUMBERS:
        return binaries(_prefix(name, _numbers(values)), known=known)
    if pa.types.is_boolean(kind):
        letters = np.where(np.asarray(pc.fill_null(values, False)), ord("T"), ord("F")).astype(np.uint8)
        return binaries(_prefix(name, letters[:, None]), known=known)
    content = _hexadecimal(values) if pa.types.is_fixed_size_binary(kind) else values.cast(pa.large_binary())
    sizes = pc.fill_null(pc.binary_length(content), 0).cast(pa.int32())
    return join_bytes([binaries(big_endian(sizes, name + b"S"), known=known), content], missing="emit_null")


def _numbers(values: pa.Array) -> Bytes:
    if values.type == pa.float64():
        numbers = np.asarray(pc.fill_null(values, 0.0)) + 0.0
        return big_endian(pa.array(numbers), b"D")
    return big_endian(pc.fill_null(values, 0).cast(pa.int64()), b"I")


def _prefix(name: bytes, values: Bytes) -> Bytes:
    return np.hstack([np.broadcast_to(np.frombuffer(name, np.uint8), (len(values), len(name))), values])


def _hexadecimal(digests: pa.Array) -> pa.Array:
    width = digests.type.byte_width
    filled = pc.fill_null(digests, pa.scalar(bytes(width), digests.type))
    raw = np.frombuffer(filled.buffers()[1], np.uint8)[width * filled.offset :][: width * len(filled)]
    return binaries(_HEX[raw].reshape(len(digests), -1), known=pc.is_valid(digests))


def _prompts(table: pa.Table) -> pa.Array:
    """Return, for each row, the bytes that the digest of a question's prompts covers."""
    variants = column(table, "variant").cast(pa.string()).cast(pa.large_binary())
    colon, line = (pa.scalar(text, pa.large_binary()) for text in (b":", b"\n"))
    return join_bytes([variants, colon, _hexadecimal(column(table, "prompt_digest")), line])
