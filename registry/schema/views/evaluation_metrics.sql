-- evaluation_metrics: one row per sealed evaluation, scope and metric, in the newest definition of the metric.
-- value NULL: undefined; n: over how many questions it is a mean; interval NULL: none is stated.
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
    evaluation_metric.interval_seed
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
