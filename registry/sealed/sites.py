"""The files of a published site that prove its board: the signed chain and the snapshot."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.orm import Session

from registry import formats
from registry.sealed.signing import signed_chain
from registry.tables import BoardSnapshot

PROOF: Final = "proof"
"""Folder of a site that contains the proof."""
CHAIN: Final = f"{PROOF}/chain.json"
BOARD: Final = f"{PROOF}/board.json"
SUMS: Final = "SHA256SUMS"
DATA: Final = "data"
"""Folder of a site that contains its tables and a folder for each evaluation."""
OF_EVALUATION: Final = "evaluation_id="
"""Prefix of the names of evaluations' folders; programs that read Parquet turn it into a column."""


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
