-- metrics_over_benchmarks: one row per model revision, protocol, variant set and metric, over the benchmarks that the
-- revision has a sealed evaluation of, withdrawn ones left out. Of several evaluations of a benchmark the newest counts.
-- macro: unweighted mean over benchmarks; NULL if it is undefined on any. micro: mean over all questions; NULL for
-- metrics that are not means over questions (functions of two means, and those that compare runs).
-- The macro of a metric that is a share of another's mean comes from the two macro means.
-- Compare rows only where `benchmarks` means the same benchmarks: boards fix them.
with newest as (
    select max(evaluation.id) as evaluation_id
    from evaluation
    inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
    where evaluation.seal is not null and evaluation.id not in (select withdrawal.evaluation_id from withdrawal)
    group by
        evaluation.model_revision_id,
        benchmark_version.benchmark_id,
        evaluation.protocol_id,
        evaluation.variant_set_id
),

averaged as (
    select
        evaluation.model_revision_id,
        evaluation.protocol_id,
        evaluation.variant_set_id,
        evaluation_metrics.metric,
        count(*) as benchmarks,
        case when count(*) = count(evaluation_metrics.value) then avg(evaluation_metrics.value) end as macro,
        sum(evaluation_metrics.value * evaluation_metrics.n)
        / nullif(sum(case when evaluation_metrics.value is not null then evaluation_metrics.n end), 0) as weighted,
        cast(sum(evaluation_metrics.n) as bigint) as n
    from newest
    inner join evaluation on evaluation.id = newest.evaluation_id
    inner join evaluation_metrics on evaluation_metrics.evaluation_id = newest.evaluation_id
    where evaluation_metrics.scope = 'all'
    group by
        evaluation.model_revision_id, evaluation.protocol_id, evaluation.variant_set_id, evaluation_metrics.metric
)

select
    model.name as model,
    model_revision.number as revision,
    protocol.name as protocol,
    protocol.shots,
    variant_set.name as variants,
    averaged.metric,
    averaged.benchmarks,
    case averaged.metric
        {{ shares }}
        else averaged.macro
    end as macro,
    case
        when
            averaged.metric in (
                {{ not_means }}
            )
            then null
        else averaged.weighted
    end as micro,
    averaged.n
from averaged
inner join model_revision on model_revision.id = averaged.model_revision_id
inner join model on model.id = model_revision.model_id
inner join protocol on protocol.id = averaged.protocol_id
inner join variant_set on variant_set.id = averaged.variant_set_id
left join averaged as first_mean
    on first_mean.model_revision_id = averaged.model_revision_id
    and first_mean.protocol_id = averaged.protocol_id
    and first_mean.variant_set_id = averaged.variant_set_id
    and first_mean.metric = case averaged.metric {{ firsts }} end
left join averaged as second_mean
    on second_mean.model_revision_id = averaged.model_revision_id
    and second_mean.protocol_id = averaged.protocol_id
    and second_mean.variant_set_id = averaged.variant_set_id
    and second_mean.metric = case averaged.metric {{ seconds }} end
