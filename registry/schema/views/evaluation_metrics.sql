-- evaluation_metrics: one row per sealed evaluation, scope and metric, in the newest definition of the metric.
-- value NULL: undefined; n: over how many questions it is a mean; interval NULL: none is stated.
-- reason: why value is NULL, where the way of asking left it undefined; else NULL.
-- interval_method: "bias-corrected percentile bootstrap over questions" with so many resamples and that seed, followed by
-- ", finite population" for a sample of the questions; "none" where it would not cover; NULL where none was looked for.
select
    evaluation_metric.evaluation_id,
    evaluation_metric.scope,
    evaluation_metric.metric,
    evaluation_metric.definition_version,
    evaluation_metric.value,
    evaluation_metric.n,
    evaluation_metric.interval_low,
    evaluation_metric.interval_high,
    evaluation_metric.computed_at,
    evaluation_metric.interval_method,
    evaluation_metric.interval_resamples,
    evaluation_metric.interval_seed,
    case
        when evaluation_metric.value is not null then null
        when
            evaluation_metric.metric like '%_question_variance'
            and exists (
                select 1
                from evaluation_metric as moved
                where
                    moved.evaluation_id = evaluation_metric.evaluation_id
                    and moved.scope = evaluation_metric.scope
                    and moved.definition_version = evaluation_metric.definition_version
                    and moved.metric = replace(evaluation_metric.metric, 'question_variance', 'moves')
                    and moved.value is not null
            )
            then 'chance is in it, too: answers are drawn at random, or may be, and no prompt was repeated'
        when
            evaluation_metric.metric in (
                {{ of_axes }}
            )
            then 'the variants do not vary it, or not in every combination with what else they vary'
    end as reason
from evaluation_metric
where not exists (
    select 1
    from evaluation_metric as newer
    where
        newer.evaluation_id = evaluation_metric.evaluation_id
        and newer.scope = evaluation_metric.scope
        and newer.metric = evaluation_metric.metric
        and newer.definition_version > evaluation_metric.definition_version
)
