-- leaderboard: one row per evaluation specification, with the metrics of its whole benchmark (scope "all").
-- Of several replicates the newest sealed one stands for the specification; the newest, where none is sealed. Withdrawn
-- and superseded evaluations are left out: see the view withdrawals.
-- mixed_engines: its shards were scored by different code, packages, devices or settings. copies_withdrawn: some of its
-- results were copied from an evaluation that was withdrawn since.
-- sampled_for: values are estimates from a sample of the questions, for this metric; questions says how many were asked.
-- stopped_for: each question was asked only until this metric was decided; what else it decides is exact, the rest NULL.
-- conflict_of_interest: as its submitter stated it, 'none' for none; NULL: not stated.
-- Metrics are NULL until the evaluation is sealed: incomplete is never ranked. scored/questions says how far it is.
with metrics as (
    select
        evaluation_metrics.evaluation_id,
        max(case when evaluation_metrics.metric = 'accuracy' then evaluation_metrics.value end) as accuracy,
        max(case when evaluation_metrics.metric = 'accuracy_normalized' then evaluation_metrics.value end) as accuracy_normalized,
        max(case when evaluation_metrics.metric = 'average_accuracy' then evaluation_metrics.value end) as average_accuracy,
        max(case when evaluation_metrics.metric = 'worst_accuracy' then evaluation_metrics.value end) as worst_accuracy,
        max(case when evaluation_metrics.metric = 'best_accuracy' then evaluation_metrics.value end) as best_accuracy,
        max(case when evaluation_metrics.metric = 'strong_accuracy' then evaluation_metrics.value end) as strong_accuracy,
        max(case when evaluation_metrics.metric = 'retest_accuracy' then evaluation_metrics.value end) as retest_accuracy,
        max(case when evaluation_metrics.metric = 'pct_drop' then evaluation_metrics.value end) as pct_drop,
        max(case when evaluation_metrics.metric = 'sensitivity_gap' then evaluation_metrics.value end) as sensitivity_gap,
        max(case when evaluation_metrics.metric = 'fluctuation_rate' then evaluation_metrics.value end) as fluctuation_rate,
        max(case when evaluation_metrics.metric = 'prob_mass' then evaluation_metrics.value end) as prob_mass,
        max(case when evaluation_metrics.metric = 'brier_score' then evaluation_metrics.value end) as brier_score,
        max(case when evaluation_metrics.metric = 'entropy' then evaluation_metrics.value end) as entropy,
        max(case when evaluation_metrics.metric = 'mcqa_plus' then evaluation_metrics.value end) as mcqa_plus,
        max(case when evaluation_metrics.metric = 'majority_vote' then evaluation_metrics.value end) as majority_vote,
        max(case when evaluation_metrics.metric = 'bmca_50' then evaluation_metrics.value end) as bmca_50,
        max(case when evaluation_metrics.metric = 'bmca_60' then evaluation_metrics.value end) as bmca_60,
        max(case when evaluation_metrics.metric = 'bmca_70' then evaluation_metrics.value end) as bmca_70,
        max(case when evaluation_metrics.metric = 'bmca_80' then evaluation_metrics.value end) as bmca_80,
        max(case when evaluation_metrics.metric = 'bmca_90' then evaluation_metrics.value end) as bmca_90,
        max(case when evaluation_metrics.metric = 'bmca_100' then evaluation_metrics.value end) as bmca_100,
        max(case when evaluation_metrics.metric = 'consistency_index' then evaluation_metrics.value end) as consistency_index,
        max(case when evaluation_metrics.metric = 'cora' then evaluation_metrics.value end) as cora,
        max(case when evaluation_metrics.metric = 'score' then evaluation_metrics.value end) as score,
        max(case when evaluation_metrics.metric = 'accuracy_mean_all' then evaluation_metrics.value end) as accuracy_mean_all,
        max(case when evaluation_metrics.metric = 'accuracy_mean_moved' then evaluation_metrics.value end) as accuracy_mean_moved,
        max(case when evaluation_metrics.metric = 'accuracy_median_moved' then evaluation_metrics.value end) as accuracy_median_moved,
        max(case when evaluation_metrics.metric = 'accuracy_abs_diff' then evaluation_metrics.value end) as accuracy_abs_diff,
        max(case when evaluation_metrics.metric = 'accuracy_variance' then evaluation_metrics.value end) as accuracy_variance,
        max(case when evaluation_metrics.metric = 'accuracy_min' then evaluation_metrics.value end) as accuracy_min,
        max(case when evaluation_metrics.metric = 'accuracy_max' then evaluation_metrics.value end) as accuracy_max,
        max(case when evaluation_metrics.metric = 'accuracy_range' then evaluation_metrics.value end) as accuracy_range,
        max(case when evaluation_metrics.metric = 'npsq_correct' then evaluation_metrics.value end) as npsq_correct,
        max(case when evaluation_metrics.metric = 'npsq_accuracy' then evaluation_metrics.value end) as npsq_accuracy,
        max(case when evaluation_metrics.metric = 'choice_only_accuracy' then evaluation_metrics.value end) as choice_only_accuracy,
        max(case when evaluation_metrics.metric = 'choice_sensitivity' then evaluation_metrics.value end) as choice_sensitivity,
        max(case when evaluation_metrics.metric = 'choice_sensitivity_normalized' then evaluation_metrics.value end) as choice_sensitivity_normalized,
        max(case when evaluation_metrics.metric = 'pride_accuracy' then evaluation_metrics.value end) as pride_accuracy,
        max(case when evaluation_metrics.metric = 'order_moves' then evaluation_metrics.value end) as order_moves,
        max(case when evaluation_metrics.metric = 'order_fluctuation_rate' then evaluation_metrics.value end) as order_fluctuation_rate,
        max(case when evaluation_metrics.metric = 'order_worst_accuracy' then evaluation_metrics.value end) as order_worst_accuracy,
        max(case when evaluation_metrics.metric = 'order_variance' then evaluation_metrics.value end) as order_variance,
        max(case when evaluation_metrics.metric = 'order_question_variance' then evaluation_metrics.value end) as order_question_variance,
        max(case when evaluation_metrics.metric = 'wording_moves' then evaluation_metrics.value end) as wording_moves,
        max(case when evaluation_metrics.metric = 'wording_fluctuation_rate' then evaluation_metrics.value end) as wording_fluctuation_rate,
        max(case when evaluation_metrics.metric = 'wording_worst_accuracy' then evaluation_metrics.value end) as wording_worst_accuracy,
        max(case when evaluation_metrics.metric = 'wording_variance' then evaluation_metrics.value end) as wording_variance,
        max(case when evaluation_metrics.metric = 'wording_question_variance' then evaluation_metrics.value end) as wording_question_variance,
        max(case when evaluation_metrics.metric = 'noise_moves' then evaluation_metrics.value end) as noise_moves,
        max(case when evaluation_metrics.metric = 'noise_fluctuation_rate' then evaluation_metrics.value end) as noise_fluctuation_rate,
        max(case when evaluation_metrics.metric = 'noise_worst_accuracy' then evaluation_metrics.value end) as noise_worst_accuracy,
        max(case when evaluation_metrics.metric = 'noise_variance' then evaluation_metrics.value end) as noise_variance,
        max(case when evaluation_metrics.metric = 'noise_question_variance' then evaluation_metrics.value end) as noise_question_variance,
        max(case when evaluation_metrics.metric = 'repeats_moves' then evaluation_metrics.value end) as repeats_moves,
        max(case when evaluation_metrics.metric = 'repeats_fluctuation_rate' then evaluation_metrics.value end) as repeats_fluctuation_rate,
        max(case when evaluation_metrics.metric = 'repeats_worst_accuracy' then evaluation_metrics.value end) as repeats_worst_accuracy,
        max(case when evaluation_metrics.metric = 'repeats_variance' then evaluation_metrics.value end) as repeats_variance,
        max(case when evaluation_metrics.metric = 'repeats_question_variance' then evaluation_metrics.value end) as repeats_question_variance
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
    metrics.accuracy_normalized,
    metrics.average_accuracy,
    metrics.worst_accuracy,
    metrics.best_accuracy,
    metrics.strong_accuracy,
    metrics.retest_accuracy,
    metrics.pct_drop,
    metrics.sensitivity_gap,
    metrics.fluctuation_rate,
    metrics.prob_mass,
    metrics.brier_score,
    metrics.entropy,
    metrics.mcqa_plus,
    metrics.majority_vote,
    metrics.bmca_50,
    metrics.bmca_60,
    metrics.bmca_70,
    metrics.bmca_80,
    metrics.bmca_90,
    metrics.bmca_100,
    metrics.consistency_index,
    metrics.cora,
    metrics.score,
    metrics.accuracy_mean_all,
    metrics.accuracy_mean_moved,
    metrics.accuracy_median_moved,
    metrics.accuracy_abs_diff,
    metrics.accuracy_variance,
    metrics.accuracy_min,
    metrics.accuracy_max,
    metrics.accuracy_range,
    metrics.npsq_correct,
    metrics.npsq_accuracy,
    metrics.choice_only_accuracy,
    metrics.choice_sensitivity,
    metrics.choice_sensitivity_normalized,
    metrics.pride_accuracy,
    (
        select count(distinct shard.engine_fingerprint_id) from shard where shard.evaluation_id = evaluation.id
    ) > 1 as mixed_engines,
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
    metrics.order_moves,
    metrics.order_fluctuation_rate,
    metrics.order_worst_accuracy,
    metrics.order_variance,
    metrics.order_question_variance,
    metrics.wording_moves,
    metrics.wording_fluctuation_rate,
    metrics.wording_worst_accuracy,
    metrics.wording_variance,
    metrics.wording_question_variance,
    metrics.noise_moves,
    metrics.noise_fluctuation_rate,
    metrics.noise_worst_accuracy,
    metrics.noise_variance,
    metrics.noise_question_variance,
    metrics.repeats_moves,
    metrics.repeats_fluctuation_rate,
    metrics.repeats_worst_accuracy,
    metrics.repeats_variance,
    metrics.repeats_question_variance,
    evaluation.sampled_for,
    evaluation.stopped_for,
    evaluation.conflict_of_interest
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
