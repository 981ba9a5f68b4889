-- evaluation_provenance: one row per shard of an evaluation: who scored it, when, on what, with which attempts.
-- NULL worker, times and fingerprint: not scored yet.
select
    shard.evaluation_id,
    shard.ordinal as shard,
    shard.state,
    shard.prompts,
    shard.failures,
    shard.crashes,
    shard.fence as claims,
    shard.error,
    worker.host,
    worker.device,
    shard.claimed_at,
    shard.finished_at,
    shard.elapsed_s,
    shard.tokens_naive,
    shard.tokens_computed,
    engine_fingerprint.digest as engine_fingerprint_digest,
    engine_fingerprint.document as engine_fingerprint,
    shard.matching_s
from shard
left join worker on worker.id = shard.worker_id
left join engine_fingerprint on engine_fingerprint.id = shard.engine_fingerprint_id
