-- published_results: one row per number that a paper prints, as printed. Never measured here.
-- printed keeps the digits; value is the number in the paper's unit. registry_metric and registry_value: the same in this
-- registry's name and unit, NULL where there is no such metric. Transcription: registry/studies/published/README.md.
select
    published_result.paper,
    published_result.paper_table,
    published_result.section,
    published_result.model,
    published_result.benchmark,
    published_result.protocol,
    published_result.target,
    published_result.metric,
    published_result.printed,
    published_result.value,
    published_result.unit,
    published_result.rank,
    published_result.standard_deviation,
    published_result.registry_metric,
    published_result.registry_value
from published_result
