"""Signs of contamination in the evaluations of a board, for boards that state them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from registry.boards.standings import BoardRow
from registry.scores.contamination import contamination_document
from registry.statistics.original_order import LEVEL
from registry.statistics.simultaneous import holm

Document = dict[str, Any]


def board_contamination(
    session: Session, rows: Sequence[BoardRow], known: Sequence[Mapping[str, Any]]
) -> list[Document]:
    """Of each sealed evaluation of the board what `contamination_document` says, where it can say something.

    With `model`, `revision`, `benchmark`, `variants` and `seal`, the most extreme first. `p_holm` is corrected for all
    evaluations of the board, and `outlier` goes by it. known: those of an earlier snapshot, not to be computed again.
    """
    computed = {item["seal"]: item for item in known}
    found: dict[int, Document] = {}
    for row in rows:
        for evaluation in row.evaluations:
            if evaluation is None or evaluation.id in found:
                continue
            document = computed.get(evaluation.seal) or contamination_document(session, evaluation.id)
            found[evaluation.id] = {
                **document,
                "evaluation": evaluation.id,
                "seal": evaluation.seal,
                "model": row.revision.model.name,
                "revision": row.revision.number,
                "benchmark": evaluation.benchmark_version.benchmark.name,
                "variants": evaluation.variant_set.name,
            }
    told = sorted(
        (item for item in found.values() if item["p_value"] is not None),
        key=lambda item: (item["p_value"], item["model"], item["revision"], item["benchmark"], item["variants"]),
    )
    corrected = holm(np.array([item["p_value"] for item in told], dtype=np.float64))
    return [
        item | {"p_holm": float(p_holm), "outlier": bool(p_holm <= LEVEL)}
        for item, p_holm in zip(told, corrected, strict=True)
    ]
