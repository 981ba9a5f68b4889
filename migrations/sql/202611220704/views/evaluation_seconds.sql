-- evaluation_seconds: one row per evaluation with scored shards: what scoring it took, over all workers.
-- asking_s: seconds in which the model was asked; matching_s: in which answers were matched with options, NULL where
-- none are. prompts: those of the shards that are done.
select
    evaluation_id,
    sum(prompts) as prompts,
    sum(elapsed_s) - coalesce(sum(matching_s), 0) as asking_s,
    sum(matching_s) as matching_s,
    sum(tokens_naive) as tokens_naive,
    sum(tokens_computed) as tokens_computed
from shard
where state = 'done' and elapsed_s is not null
group by evaluation_id
