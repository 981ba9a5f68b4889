-- leaderboard: one row per evaluation specification, with the metrics of its whole benchmark (scope "all").
-- Of several replicates the newest sealed one stands for the specification; the newest, where none is sealed. Withdrawn
-- and superseded evaluations are left out: see the view withdrawals.
-- mixed_engines: its shards were scored by different code, packages, devices or settings. copies_withdrawn: some of its
-- results were copied from an evaluation that was withdrawn since.
-- sampled_from: the questions are a sample, drawn by sample_seed, of so many; values estimate those of all of these.
-- NULL: no sample was drawn.
-- samples: whether the model draws its answers at random; NULL: nothing says so.
-- conflict_of_interest: as its submitter stated it, 'none' for none; NULL: not stated.
-- replayed_from: the evaluation whose stored answers this one has, under another key or reading; NULL: no replay, or this
-- registry does not hold it.
-- Metrics are NULL until the evaluation is sealed: incomplete is never ranked. scored/questions says how far it is.
with metrics as (
    select
        evaluation_metrics.evaluation_id,
        {{ values }}
    from evaluation_metrics
    where evaluation_metrics.scope = 'all'
    group by evaluation_metrics.evaluation_id
),

scored as (
    select evaluation_question.evaluation_id, count(*) as questions
    from evaluation_question
    inner join shard on shard.id = evaluation_question.shard_id
    where shard.state = 'done'
    group by evaluation_question.evaluation_id
)
select
    evaluation.id as evaluation_id,
    model.name as model,
    model_revision.number as revision,
    model.family,
    model.parameters,
    model_revision.kind,
    model_revision.dtype,
    model_revision.quantisation,
    benchmark.name as benchmark,
    benchmark_version.version as benchmark_version,
    protocol.name as protocol,
    protocol.shots,
    variant_set.name as variants,
    evaluation.replicate,
    evaluation.state,
    (evaluation.seal is not null) as complete,
    evaluation.questions,
    coalesce(scored.questions, 0) as scored,
    evaluation.sealed_at,
    {{ metrics }},
    (
        select count(distinct shard.engine_fingerprint_id) from shard where shard.evaluation_id = evaluation.id
    ) > 1
    or exists (
        select 1
        from shard
        inner join engine_fingerprint on engine_fingerprint.id = shard.engine_fingerprint_id
        where shard.evaluation_id = evaluation.id
        and engine_fingerprint.document ->> 'served_model_changed' is not null
    ) as mixed_engines,
    exists (
        select 1
        from evaluation_sources
        where evaluation_sources.evaluation_id = evaluation.id and evaluation_sources.withdrawn
    ) as copies_withdrawn,
    evaluation.distinct_prompts_min,
    evaluation.distinct_prompts_max,
    evaluation.variants_max,
    evaluation.orders_only,
    evaluation.chance,
    evaluation.sampled_from,
    evaluation.sample_seed,
    evaluation.conflict_of_interest,
    evaluation.lists_options,
    evaluation.samples,
    evaluation.unread,
    evaluation.unfinished,
    evaluation.tokens_per_answer,
    evaluation.thought_tokens_per_answer,
    (select source.id from evaluation as source where source.seal = evaluation.replayed_from) as replayed_from
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
left join metrics on metrics.evaluation_id = evaluation.id
left join scored on scored.evaluation_id = evaluation.id
where
    evaluation.id = (
        select replicate.id
        from evaluation as replicate
        where
            replicate.specification_digest = evaluation.specification_digest
            and replicate.state <> 'cancelled'
            and replicate.id not in (select withdrawal.evaluation_id from withdrawal)
        order by case when replicate.seal is not null then 0 else 1 end, replicate.replicate desc
        limit 1
    )
