-- prediction_detail: one row per stored prompt, with the names that make it readable.
-- chosen_option_text is NULL where there is no valid answer or an inserted option was chosen.
select
    prediction.evaluation_id,
    prediction.question_id,
    question.external_id,
    question.subject,
    prediction.variant,
    variant.name as variant_name,
    prediction.shown,
    prediction.question_shown,
    prediction.own_options,
    prediction.unchanged,
    question.answer,
    prediction.chosen_position,
    prediction.chosen_option,
    question_option.text as chosen_option_text,
    prediction.correct,
    prediction.tied,
    coalesce(
        prediction.state, case when prediction.chosen_position is null then 'unread' else 'answered' end
    ) as state,
    prediction.extraction_rule,
    prediction.label_logprobs,
    prediction.label_probabilities,
    prediction.label_mass,
    prediction.answer_probability,
    prediction.brier_score,
    prediction.entropy,
    prediction.prompt_digest,
    prediction.logprobs_without_question,
    prediction.accuracy_normalized,
    prediction.npsq_correct,
    prediction.npsq_accuracy,
    prediction.choice_only_accuracy,
    prediction.choice_sensitivity,
    prediction.choice_sensitivity_normalized,
    generation.text as generation,
    generation.extracted,
    generation.tokens as generation_tokens,
    generation.finished as generation_finished,
    generation.seconds as generation_seconds,
    generation.forced as generation_forced,
    generation.thought_characters,
    generation.thought_tokens,
    generation.thought_digest,
    generation.thought_apart,
    generation.thought_opened,
    prediction.prompt_key
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
