"""The provenance of an evaluation's numbers, and its differences from another's, for pages and JSON."""

from typing import Any, Final

from registry.schema.selectables import Row
from registry.sealed.provenance import are_mixed, more_provenance, provenance_document
from registry.tables import Evaluation
from web.serving.responses import session
from web.shown import queries

IDENTITY: Final = ("kind", "location", "dtype", "quantisation", "weights_digest", "tokenizer_digest")


def provenance_of(evaluation: Row) -> Row:
    """Return the provenance of an evaluation's numbers. Each engine fingerprint appears once, under its digest."""
    shards = queries.shards(session(), evaluation["evaluation_id"])
    fingerprints = {
        row["engine_fingerprint_digest"]: row["engine_fingerprint"]
        for row in shards
        if row["engine_fingerprint_digest"] is not None
    }
    return {
        "specification": evaluation["specification"],
        "specification_digest": evaluation["specification_digest"],
        "model": {key: evaluation[key] for key in (*IDENTITY, "commit")},
        "benchmark": {key: evaluation[key] for key in ("content_digest", "file_digest", "licence", "source")},
        "protocol_digest": evaluation["protocol_digest"],
        "variant_set_digest": evaluation["variant_set_digest"],
        **more_provenance(session(), session().get_one(Evaluation, evaluation["evaluation_id"]), shards),
        "requester": evaluation["requester"],
        "conflict_of_interest": evaluation["conflict_of_interest"],
        "seal": evaluation["seal"],
        "mixed_engines": are_mixed(fingerprints),
        "engine_fingerprints": fingerprints,
        "shards": [
            {key: value for key, value in row.items() if key not in ("evaluation_id", "engine_fingerprint")}
            for row in shards
        ],
    }


def comparable_provenance_of(evaluation: Row) -> dict[str, Any]:
    """Return the document of `shuffleboard evaluations provenance`, without paths on a server's disk."""
    document = provenance_document(session(), evaluation["evaluation_id"])
    document["model"]["location"] = evaluation["location"]
    return document
