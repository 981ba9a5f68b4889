-- extraction_counts: one row per evaluation whose model wrote text and rule that found answers in it.
-- extraction_rule 'stated': imported texts whose answer was imported too; 'none': no answer was found.
select
    generation.evaluation_id,
    coalesce(
        prediction.extraction_rule, case when prediction.chosen_position is null then 'none' else 'stated' end
    ) as extraction_rule,
    count(*) as prompts,
    sum(case when prediction.correct then 1 else 0 end) as correct
from generation
inner join prediction
    on prediction.evaluation_id = generation.evaluation_id
    and prediction.question_id = generation.question_id
    and prediction.variant = generation.variant
group by
    generation.evaluation_id,
    coalesce(prediction.extraction_rule, case when prediction.chosen_position is null then 'none' else 'stated' end)
