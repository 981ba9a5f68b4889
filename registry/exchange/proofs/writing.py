"""Writing what a site has besides its rows: signatures, chain and snapshot."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.orm import Session

from registry.proof.signing import signed_chain
from registry.tables import BoardSnapshot

PROOF: Final = "proof"
"""Folder of a site with the proof."""
CHAIN: Final = "chain.json"
BOARD: Final = "board.json"
DATA: Final = "data"
"""Folder of a site with its tables, and with a folder for each evaluation."""
OF_EVALUATION: Final = "evaluation_id="
"""What the name of an evaluation's folder begins with; programs that read Parquet make a column of it."""


def proof_files(session: Session, snapshot: BoardSnapshot) -> dict[str, bytes]:
    """File to content of a board's proof, beside its rows."""
    board = {
        "as_of": snapshot.as_of.isoformat(),
        "digest": snapshot.digest,
        "board_digest": snapshot.board.digest,
        "snapshot": snapshot.document,
    }
    return {CHAIN: _json(signed_chain(session)), BOARD: _json(board)}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
