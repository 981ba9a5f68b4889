"""Writing what a site has besides its rows: signatures, chain, snapshot, and what each seal is taken over."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.predictions.stored import read
from registry.proof.folder import ASKED_SCHEMA, asked_rows, evaluation_document
from registry.proof.signing import signed_chain
from registry.tables import (
    BoardSnapshot,
    Evaluation,
    Prediction,
    Question,
)

CHAIN: Final = "chain.json"
BOARD: Final = "board.json"
LEAVES: Final = "leaves.parquet"
COPIES: Final = "copies.parquet"
EVALUATIONS: Final = "evaluations"
LEAF_SCHEMA: Final = pa.schema([("evaluation_id", pa.int64()), *ASKED_SCHEMA])
COPY_SCHEMA: Final = pa.schema(
    [
        ("evaluation_id", pa.int64()),
        ("question", pa.string()),
        ("variant", pa.int64()),
        ("reused_from_variant", pa.int64()),
        ("reused_from_seal", pa.string()),
    ]
)


def proof_files(
    session: Session, snapshot: BoardSnapshot, ids: Sequence[int], scratch: Path
) -> Iterator[tuple[str, bytes]]:
    """File to content of a board's proof, beside its rows. ids: of the evaluations that are published."""
    yield CHAIN, _json(signed_chain(session))
    board = snapshot.board
    yield (
        BOARD,
        _json(
            {
                "as_of": snapshot.as_of.isoformat(),
                "digest": snapshot.digest,
                "board_digest": board.digest,
                "snapshot": snapshot.document,
            }
        ),
    )
    for evaluation_id in ids:
        document = evaluation_document(session, session.get_one(Evaluation, evaluation_id))
        yield f"{EVALUATIONS}/{evaluation_id}.json", _json(document)
    for name, schema, rows in ((LEAVES, LEAF_SCHEMA, _leaves), (COPIES, COPY_SCHEMA, _copies)):
        path = scratch / name
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for evaluation_id in ids:
                writer.write_table(pa.Table.from_pylist(list(rows(session, evaluation_id)), schema))
        yield name, path.read_bytes()


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _leaves(session: Session, evaluation_id: int) -> Iterable[dict[str, Any]]:
    return ({"evaluation_id": evaluation_id, **row} for row in asked_rows(session, evaluation_id))


def _copies(session: Session, evaluation_id: int) -> Iterable[dict[str, Any]]:
    """What a seal covers of a prediction and the table of predictions does not have: where it was copied from."""
    query = (
        select(Question.external_id, Prediction.variant, Prediction.reused_from_variant, Prediction.reused_from_seal)
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.reused_from_variant.is_not(None))
        .order_by(Question.ordinal, Prediction.variant)
    )
    for row in read(session, [evaluation_id], query):
        yield {
            "evaluation_id": evaluation_id,
            "question": row.external_id,
            "variant": row.variant,
            "reused_from_variant": row.reused_from_variant,
            "reused_from_seal": row.reused_from_seal,
        }
