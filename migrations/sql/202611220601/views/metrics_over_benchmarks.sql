-- metrics_over_benchmarks: one row per model revision, protocol, variant set and metric, over the benchmarks that the
-- revision has a sealed evaluation of, withdrawn ones left out. Of several evaluations of a benchmark the newest counts.
-- macro: unweighted mean over benchmarks; NULL if it is undefined on any. micro: mean over all questions; NULL for
-- metrics that are not means over questions (pct_drop, consistency_index, cora and those that compare runs).
-- The macro of pct_drop comes from the macro means of accuracy and retest accuracy.
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
        sum(evaluation_metrics.n) as n
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
    case
        when averaged.metric <> 'pct_drop' then averaged.macro
        when accuracy.macro > 0 then 100.0 * (accuracy.macro - retest.macro) / accuracy.macro
    end as macro,
    case
        when
            averaged.metric in ('pct_drop', 'consistency_index', 'cora')
            or (averaged.metric like 'accuracy\_%' escape '\' and averaged.metric <> 'accuracy_normalized')
            then null
        else averaged.weighted
    end as micro,
    averaged.n
from averaged
inner join model_revision on model_revision.id = averaged.model_revision_id
inner join model on model.id = model_revision.model_id
inner join protocol on protocol.id = averaged.protocol_id
inner join variant_set on variant_set.id = averaged.variant_set_id
left join averaged as accuracy
    on accuracy.model_revision_id = averaged.model_revision_id
    and accuracy.protocol_id = averaged.protocol_id
    and accuracy.variant_set_id = averaged.variant_set_id
    and accuracy.metric = 'accuracy'
left join averaged as retest
    on retest.model_revision_id = averaged.model_revision_id
    and retest.protocol_id = averaged.protocol_id
    and retest.variant_set_id = averaged.variant_set_id
    and retest.metric = 'retest_accuracy'
