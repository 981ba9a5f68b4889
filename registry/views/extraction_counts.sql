-- extraction_counts: one row per evaluation whose model wrote text and rule that found answers in it.
-- extraction_rule 'none': the prompts in whose text no rule found an answer.
select
    generation.evaluation_id,
    coalesce(prediction.extraction_rule, 'none') as extraction_rule,
    count(*) as prompts,
    sum(case when prediction.correct then 1 else 0 end) as correct
from generation
inner join prediction
    on prediction.evaluation_id = generation.evaluation_id
    and prediction.question_id = generation.question_id
    and prediction.variant = generation.variant
group by generation.evaluation_id, coalesce(prediction.extraction_rule, 'none')
