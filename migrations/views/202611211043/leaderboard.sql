-- leaderboard: one row per evaluation, with the metrics of its whole benchmark (scope "all").
-- Metrics are NULL until the evaluation is sealed: incomplete is never ranked. scored/questions says how far it is.
with metrics as (
    select
        evaluation_metrics.evaluation_id,
        max(case when evaluation_metrics.metric = 'accuracy' then evaluation_metrics.value end) as accuracy,
        max(case when evaluation_metrics.metric = 'average_accuracy' then evaluation_metrics.value end)
            as average_accuracy,
        max(case when evaluation_metrics.metric = 'worst_accuracy' then evaluation_metrics.value end)
            as worst_accuracy,
        max(case when evaluation_metrics.metric = 'fluctuation_rate' then evaluation_metrics.value end)
            as fluctuation_rate
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
    metrics.accuracy,
    metrics.average_accuracy,
    metrics.worst_accuracy,
    metrics.fluctuation_rate
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
left join metrics on metrics.evaluation_id = evaluation.id
left join scored on scored.evaluation_id = evaluation.id
where evaluation.state <> 'cancelled'
