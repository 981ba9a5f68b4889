-- evaluation_progress: one row per evaluation: prompts and shards done, counts of each shard state, tokens and seconds.
-- rates: prompts_done / elapsed_s is the rate of one worker; NULL elapsed_s: nothing has been scored yet.
select
    evaluation.id as evaluation_id,
    evaluation.state,
    evaluation.questions,
    evaluation.prompts,
    coalesce(sum(case when shard.state = 'done' then shard.prompts end), 0) as prompts_done,
    count(shard.id) as shards,
    sum(case when shard.state = 'done' then 1 else 0 end) as shards_done,
    sum(case when shard.state = 'queued' then 1 else 0 end) as shards_queued,
    sum(case when shard.state = 'leased' then 1 else 0 end) as shards_leased,
    sum(case when shard.state = 'failed' then 1 else 0 end) as shards_failed,
    sum(shard.failures) as failures,
    sum(shard.crashes) as crashes,
    sum(shard.tokens_naive) as tokens_naive,
    sum(shard.tokens_computed) as tokens_computed,
    sum(shard.elapsed_s) as elapsed_s,
    min(shard.claimed_at) as first_claimed_at,
    max(shard.finished_at) as last_finished_at,
    count(distinct shard.engine_fingerprint_id) as engine_fingerprints,
    (coalesce(archive.state, '') = 'archived') as archived
from evaluation
left join shard on shard.evaluation_id = evaluation.id
left join archive on archive.evaluation_id = evaluation.id
group by evaluation.id, evaluation.state, evaluation.questions, evaluation.prompts, archive.state
