"""Provenance: trace an evaluation's numbers to files, prompts and machines, and compare two evaluations."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry.db import pick
from registry.digests import specification_digest
from registry.errors import UsageError
from registry.lookups import find_evaluation
from registry.revisions.store import model_identity
from registry.sealed.manifest import shard_provenance
from registry.sealed.withdrawals import copies_of, withdrawals_of
from registry.tables import ChainLink, Evaluation, EvaluationMetric, EvaluationQuestion, Question, QuestionSeal


def provenance_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Return the origin of an evaluation's numbers: specification, files, prompts, shards, copies, seal, chain."""
    evaluation = find_evaluation(session, evaluation_id)
    revision, version = evaluation.model_revision, evaluation.benchmark_version
    shards = shard_provenance(session, evaluation_id)
    fingerprints = engine_fingerprints(shards)
    return {
        "evaluation": evaluation_id,
        "state": evaluation.state,
        "replicate": evaluation.replicate,
        "specification": evaluation.specification,
        "specification_digest": evaluation.specification_digest,
        "model": model_identity(revision)
        | {"revision": revision.number, "location": revision.location, "commit": revision.revision},
        "benchmark": {
            "name": version.benchmark.name,
            "version": version.version,
            "content_digest": version.content_digest,
            "file_digest": version.file_digest,
            "licence": version.licence,
            "source": version.source,
        },
        "protocol_digest": evaluation.protocol.digest,
        "protocol": {"name": evaluation.protocol.name, "shots": evaluation.protocol.shots},
        "variant_set": {
            "name": evaluation.variant_set.name,
            "digest": evaluation.variant_set.digest,
            "version": evaluation.variant_set.version,
        },
        **more_provenance(session, evaluation, shards),
        "requester": evaluation.requester,
        "created_at": evaluation.created_at,
        "started_at": evaluation.started_at,
        "sealed_at": evaluation.sealed_at,
        "seal": evaluation.seal,
        "mixed_engines": are_mixed(fingerprints),
        "engine_fingerprints": fingerprints,
        "shards": shards,
    }


def more_provenance(session: Session, evaluation: Evaluation, shards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the provenance beyond names and digests: seeds, prompts, tokens, copies, withdrawals, the link."""
    listed = list(shards)
    naive, computed = (
        sum(shard[key] or 0 for shard in listed) if any(shard[key] is not None for shard in listed) else None
        for key in ("tokens_naive", "tokens_computed")
    )
    return {
        "seeds": seeds_of(evaluation),
        "prompts": prompts_document(session, evaluation.id),
        "tokens": {
            "naive": naive,
            "computed": computed,
            "saved": None if naive is None or computed is None else naive - computed,
        },
        "metrics_computed_by": _metrics_computed_by(session, evaluation.id),
        "copies": copies_document(session, evaluation.id),
        "replayed_from": evaluation_of_seal(session, evaluation.replayed_from),
        "replays": replays_of(session, evaluation.seal),
        "withdrawals": [
            {
                "kind": row.kind,
                "reason": row.reason,
                "actor": row.actor,
                "at": row.at,
                "superseded_by": row.superseded_by,
                "superseding_evaluation": evaluation_of_seal(session, row.superseded_by),
            }
            for row in withdrawals_of(session, evaluation.id)
        ],
        "seal_version": evaluation.seal_version,
        "chain": link_document(session, evaluation.seal),
    }


def _metrics_computed_by(session: Session, evaluation_id: int) -> list[str]:
    """Return the code versions that computed the evaluation's metrics; several if some were added later."""
    computed_by = EvaluationMetric.code_version
    query = select(computed_by).where(EvaluationMetric.evaluation_id == evaluation_id, computed_by.is_not(None))
    return list(session.scalars(query.distinct().order_by(computed_by)))


def engine_fingerprints(shards: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Map the digest of each engine that scored a shard to its document."""
    documents = [shard["engine_fingerprint"] for shard in shards if shard["engine_fingerprint"] is not None]
    return {specification_digest(document): document for document in documents}


def are_mixed(fingerprints: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether several engines scored an evaluation, or a server named another model within one shard."""
    return len(fingerprints) > 1 or any("served_model_changed" in document for document in fingerprints.values())


def seeds_of(evaluation: Evaluation) -> dict[str, int | str]:
    """Return the seeds that affected the numbers, by their use; empty if nothing was drawn at random."""
    seeds: dict[str, int | str] = {}
    parameters = evaluation.variant_set.parameters
    if "seed" in parameters:
        seeds["variants"] = parameters["seed"]
    if evaluation.benchmark_version.shuffle_seed is not None:
        seeds["order of the benchmark's options"] = evaluation.benchmark_version.shuffle_seed
    if "generation" in evaluation.protocol.definition:
        seeds["what is written"] = f"each prompt's digest, and {evaluation.replicate} for the replicate"
    return seeds


def prompts_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Return the number of known prompt digests and a digest over them, which is None if the prompts are unknown.

    The digest covers one line for each question, by external id: the id, and the SHA-256 over its prompts' digests.
    """
    rows = session.execute(
        select(Question.external_id, QuestionSeal.prompts, EvaluationQuestion.n_variants)
        .join(Question, Question.id == QuestionSeal.question_id)
        .join(
            EvaluationQuestion,
            (EvaluationQuestion.evaluation_id == QuestionSeal.evaluation_id)
            & (EvaluationQuestion.question_id == QuestionSeal.question_id),
        )
        .where(QuestionSeal.evaluation_id == evaluation_id, QuestionSeal.prompts.is_not(None))
    ).all()
    lines = sorted(f"{external_id} {prompts}\n" for external_id, prompts, _ in rows)
    return {
        "count": sum(row.n_variants for row in rows),
        "digest": hashlib.sha256("".join(lines).encode()).hexdigest() if rows else None,
    }


def copies_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Return the sealed evaluations that results were copied from, and the evaluations that copied from this one."""
    query = text(
        "SELECT source_seal, source_evaluation_id, predictions, withdrawn FROM evaluation_sources "
        "WHERE evaluation_id = :id ORDER BY source_evaluation_id, predictions"
    )
    sources = [
        {
            "seal": bytes(row.source_seal).hex(),
            "evaluation": row.source_evaluation_id,
            "predictions": row.predictions,
            "withdrawn": bool(row.withdrawn),
        }
        for row in session.execute(query, {"id": evaluation_id})
    ]
    return {
        "predictions": sum(source["predictions"] for source in sources),
        "sources": sources,
        "withdrawn": any(source["withdrawn"] for source in sources),
        "copied_by": copies_of(session, evaluation_id),
    }


PLACE: Final = ("position", "digest", "previous", "labels", "at")


def link_document(session: Session, subject: str | None, kind: str = "seal") -> dict[str, Any] | None:
    """Return the link of a seal, or of another subject, in the chain; None while there is none."""
    if subject is None:
        return None
    query = select(ChainLink).filter_by(kind=kind, subject=subject).order_by(ChainLink.position.desc()).limit(1)
    link = session.scalar(query)
    if link is None:
        return None
    return pick(link, PLACE)


def evaluation_of_seal(session: Session, seal: str | None) -> int | None:
    """Return the number of the evaluation with that seal; None if the registry does not contain it."""
    return None if seal is None else session.scalar(select(Evaluation.id).filter_by(seal=seal).limit(1))


def replays_of(session: Session, seal: str | None) -> list[int]:
    """Return the sealed evaluations that were made from the stored answers of the evaluation with this seal."""
    if seal is None:
        return []
    made = select(Evaluation.id).where(Evaluation.replayed_from == seal, Evaluation.seal.is_not(None))
    return list(session.scalars(made.order_by(Evaluation.id)))


# Two evaluations

GROUPS: Final = {
    "model": "Model",
    "benchmark": "Benchmark and questions",
    "protocol": "Protocol",
    "variants": "Variants",
    "prompts": "Prompts",
    "engine": "Engine: code, packages, device, settings",
    "machines": "Machines",
    "work": "Work",
    "record": "Record",
}
"""Maps each group of facts about an evaluation to its heading, in the order of display."""


def compare_provenance(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two documents of `provenance_document`, by group.

    same: group to fact to value; different: group to fact to both values. A fact that one document lacks is None there;
    facts that differ between the shards of an evaluation are lists.
    """
    if one["evaluation"] == other["evaluation"]:
        raise UsageError(f"evaluation {one['evaluation']} is compared with itself; give another")
    facts = [_facts(document) for document in (one, other)]
    same: dict[str, dict[str, Any]] = {}
    different: dict[str, dict[str, list[Any]]] = {}
    for group in GROUPS:
        for key in dict.fromkeys([*facts[0][group], *facts[1][group]]):
            values = [side[group].get(key) for side in facts]
            if values[0] == values[1]:
                same.setdefault(group, {})[key] = values[0]
            else:
                different.setdefault(group, {})[key] = values
    return {"evaluations": [one["evaluation"], other["evaluation"]], "same": same, "different": different}


def _facts(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Map group to fact to value, all plain JSON."""
    specification, shards = document["specification"], document["shards"]
    fingerprints: dict[str, set[str]] = {}
    for engine in document["engine_fingerprints"].values():
        for key, value in _flatten(engine):
            fingerprints.setdefault(key, set()).add(_plain(value))
    return {
        "model": _drop_missing(document["model"]),
        "benchmark": _drop_missing(document["benchmark"])
        | {f"questions {key}": value for key, value in _flatten(specification["questions"])},
        "protocol": dict(_flatten(specification["protocol"])) | {"digest": document["protocol_digest"]},
        "variants": dict(_flatten(document["variant_set"])) | dict(_flatten(document["seeds"], "seed of")),
        "prompts": dict(_flatten(document["prompts"])),
        "engine": {key: _one_or_several(values) for key, values in sorted(fingerprints.items())}
        | {"mixed": document["mixed_engines"]},
        "machines": {
            key: _one_or_several({_plain(shard[key]) for shard in shards if shard[key] is not None})
            for key in ("host", "device", "worker")
        },
        "work": {
            "shards": len(shards),
            **{key: sum(shard[key] or 0 for shard in shards) for key in ("prompts", "claims", "failures", "crashes")},
            "seconds": _sum_seconds(shards),
            **{f"tokens {key}": value for key, value in document["tokens"].items()},
            "predictions copied": document["copies"]["predictions"],
        },
        "record": {
            **{key: _plain(document[key]) for key in ("created_at", "started_at", "sealed_at")},
            **{key: document[key] for key in ("requester", "replicate")},
            "seal": document["seal"],
            "seal version": document["seal_version"],
            "place in the chain": None if document["chain"] is None else document["chain"]["position"],
            "withdrawn": document["withdrawals"][-1]["kind"] if document["withdrawals"] else None,
            "replayed from": document["replayed_from"],
        },
    }


def _sum_seconds(shards: Iterable[Mapping[str, Any]]) -> float | None:
    seconds = [float(shard["elapsed_s"]) for shard in shards if shard["elapsed_s"] is not None]
    return sum(seconds) if seconds else None


def _drop_missing(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value is not None}


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each leaf of nested documents; a list counts as one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, f"{path} {key}".strip())
    else:
        yield path, value if isinstance(value, (str, int, float, bool, type(None))) else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _one_or_several(values: Iterable[str]) -> str | list[str] | None:
    listed = sorted(set(values))
    if len(listed) > 1:
        return listed
    return listed[0] if listed else None
