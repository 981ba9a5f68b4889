-- prediction_detail: one row per stored prompt, with the names that make it readable.
-- chosen_option_text is NULL where there is no valid answer or an inserted option was chosen.
select
    {{ prediction }},
    question.external_id,
    question.subject,
    question.answer,
    variant.name as variant_name,
    question_option.text as chosen_option_text,
    coalesce(
        prediction.state, case when prediction.chosen_position is null then 'unread' else 'answered' end
    ) as state,
    generation.text as generation,
    {{ generation }}
from prediction
inner join evaluation on evaluation.id = prediction.evaluation_id
inner join question on question.id = prediction.question_id
left join generation
    on generation.evaluation_id = prediction.evaluation_id
    and generation.question_id = prediction.question_id
    and generation.variant = prediction.variant
left join variant
    on variant.variant_set_id = evaluation.variant_set_id
    and variant.n_options = question.n_options
    and variant.ordinal = prediction.variant
left join question_option
    on question_option.question_id = prediction.question_id
    and question_option.ordinal = prediction.chosen_option
