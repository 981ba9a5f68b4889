-- measured_and_published: numbers of this registry, less what was withdrawn, and numbers that papers print, told apart by
-- `origin`: "measured", or "printed in …". Names of models and benchmarks are those of their origin: a paper's "MMLU" is
-- not said to be yours. Units are this registry's; evaluation_id is NULL for printed numbers.
select
    'measured' as origin,
    evaluation_metrics.evaluation_id,
    model.name as model,
    benchmark.name as benchmark,
    protocol.name as protocol,
    variant_set.name as variants,
    evaluation_metrics.metric,
    evaluation_metrics.value,
    evaluation_metrics.interval_low,
    evaluation_metrics.interval_high,
    evaluation_metrics.n
from evaluation_metrics
inner join evaluation on evaluation.id = evaluation_metrics.evaluation_id
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
where
    evaluation_metrics.scope = 'all'
    and evaluation_metrics.evaluation_id not in (select withdrawal.evaluation_id from withdrawal)
union all
select
    'printed in ' || published_result.paper || ', Table ' || published_result.paper_table as origin,
    null as evaluation_id,
    published_result.model,
    published_result.benchmark,
    published_result.protocol,
    null as variants,
    published_result.registry_metric as metric,
    published_result.registry_value as value,
    null as interval_low,
    null as interval_high,
    null as n
from published_result
where published_result.registry_metric is not null
