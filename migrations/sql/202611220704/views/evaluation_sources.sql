-- evaluation_sources: one row per sealed evaluation and other sealed evaluation that results of it were copied from.
-- source_seal names the source in every registry; source_evaluation_id is NULL where this one does not hold it.
-- withdrawn: the source no longer counts, so the copies are open to the same doubt.
select
    evaluation_source.evaluation_id,
    evaluation_source.seal as source_seal,
    source.id as source_evaluation_id,
    evaluation_source.predictions,
    exists (select 1 from withdrawal where withdrawal.evaluation_id = source.id) as withdrawn
from evaluation_source
left join evaluation as source on source.seal = evaluation_source.seal
