-- evaluation_costs: one row per evaluation whose model a provider served for money: calls, tokens, cost.
-- cost: of the calls whose cost is known, NULL where none is; cost_unresolved: the most that the others can have cost.
select
    evaluation_id,
    count(*) as calls,
    sum(case when state = 'answered' then 1 else 0 end) as answered,
    sum(case when state = 'failed' then 1 else 0 end) as failed,
    sum(case when state = 'begun' then 1 else 0 end) as unresolved,
    sum(case when outcome = 'cut-off' then 1 else 0 end) as cut_off,
    sum(case when outcome = 'refused' then 1 else 0 end) as refused,
    sum(case when outcome = 'filtered' then 1 else 0 end) as filtered,
    sum(prompt_tokens) as prompt_tokens,
    sum(cached_tokens) as cached_tokens,
    sum(written_tokens) as written_tokens,
    sum(reasoning_tokens) as reasoning_tokens,
    sum(cost) as cost,
    coalesce(sum(case when cost is null then cost_limit end), 0) as cost_unresolved,
    sum(case when state = 'answered' and cost is null then 1 else 0 end) as unpriced,
    count(distinct served_model) as served_models,
    count(distinct system_fingerprint) as system_fingerprints
from provider_call
group by evaluation_id
