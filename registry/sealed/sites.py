"""The parts of a published site that prove it: chain, signatures and snapshot next to the evaluations' folders."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.orm import Session

from registry import formats
from registry.sealed.signing import signed_chain
from registry.tables import BoardSnapshot

PROOF: Final = "proof"
"""Folder of a site with the proof."""
CHAIN: Final = f"{PROOF}/chain.json"
BOARD: Final = f"{PROOF}/board.json"
SUMS: Final = "SHA256SUMS"
DATA: Final = "data"
"""Folder of a site with its tables, and with a folder for each evaluation."""
OF_EVALUATION: Final = "evaluation_id="
"""Beginning of the name of an evaluation's folder; programs that read Parquet make a column of it."""


def proof_files(session: Session, snapshot: BoardSnapshot) -> dict[str, bytes]:
    """Return the content of the files that prove a board."""
    board = {
        formats.NUMBER: formats.SITE,
        "as_of": snapshot.as_of.isoformat(),
        "digest": snapshot.digest,
        "board_digest": snapshot.board.digest,
        "snapshot": snapshot.document,
    }
    return {CHAIN: _json(signed_chain(session)), BOARD: _json(board)}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
