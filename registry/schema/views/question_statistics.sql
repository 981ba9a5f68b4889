-- question_statistics: one row per question of an evaluation, computed from its predictions.
-- Sufficient statistics only; metrics are made of them in question_metrics. The table question_score is a copy of these
-- rows, written in the transaction that stores the predictions.
-- "own" variants show the question with exactly its own options; the CoRA family counts all that show the question.
-- original_correct, original_answered, others: NULL where no original was stored. first_option: NULL where the first own variant had no
-- valid answer. accuracy_normalized is that of the original; the columns after it are those of the original, else of
-- the first own variant once all expected ones are stored: until then the first may be among those that lack.
-- probability_variants: own variants with probabilities; sums over them are NULL where there are none.
-- distinct_prompts: different prompts that show the question, as prediction.prompt_key numbers them.
-- Of a prompt that is asked repeatedly the first answer counts, but in answers and in the columns from average_accuracy
-- on, which are over all answers that were drawn by themselves: unless the answers were recorded, two variants with the
-- same prompt and the same remainder have one answer, copied. These columns are NULL below two distinct prompts with the
-- question's own options; those from repeated_prompts on also if none of them was answered twice; the last two also if
-- prompts were answered differently often.
-- Dialect trap: SQLite pushes a condition on evaluation_id into the first subquery of FROM only, never into one behind
-- LEFT JOIN; hence the aggregate comes first and all else is looked up by primary key.
-- Reference: registry/metrics/. Spec: tests/spec/.
with counted as (
    select
        evaluation_question.evaluation_id,
        evaluation_question.question_id,
        evaluation_question.n_variants as expected,
        count(prediction.variant) as stored,
        min(case when {{ own }} then prediction.variant end) as first_own,
        min(case when prediction.unchanged then prediction.variant end) as original,
        sum(case when {{ own }} then 1 else 0 end) as variants,
        count(case when {{ own }} then prediction.chosen_option end)
            as valid,
        sum(case when {{ own }} and prediction.correct then 1 else 0 end)
            as correct,
        sum(case when {{ own }} and prediction.tied then 1 else 0 end) as tied,
        sum(case when {{ shown }} then 1 else 0 end) as shown,
        sum(case when prediction.question_shown then 1 else 0 end) as answers,
        sum(case when prediction.question_shown and prediction.own_options then 1 else 0 end) as own_answers,
        sum(case when {{ shown }} and prediction.correct then 1 else 0 end) as shown_correct,
        count(case when {{ own }} then prediction.answer_probability end)
            as probability_variants,
        sum(case when {{ own }} then prediction.answer_probability end)
            as answer_probability_sum,
        sum(case when {{ own }} then prediction.brier_score end)
            as brier_score_sum,
        sum(case when {{ own }} then prediction.entropy end) as entropy_sum,
        count(distinct case when prediction.question_shown then prediction.prompt_key end) as distinct_prompts,
        count(distinct case when prediction.question_shown and prediction.own_options then prediction.prompt_key end)
            as own_prompts,
        coalesce(evaluation.repeats, 1) as times,
        (evaluation.repeats is null or evaluation.recorded) as recorded
    from evaluation_question
    inner join evaluation on evaluation.id = evaluation_question.evaluation_id
    left join prediction
        on prediction.evaluation_id = evaluation_question.evaluation_id
        and prediction.question_id = evaluation_question.question_id
    group by
        evaluation_question.evaluation_id,
        evaluation_question.question_id,
        evaluation_question.n_variants,
        evaluation.repeats,
        evaluation.recorded
)

select
    counted.evaluation_id,
    counted.question_id,
    counted.expected,
    counted.stored,
    original.correct as original_correct,
    case when original.variant is not null then original.chosen_option is not null end as original_answered,
    counted.variants,
    counted.valid,
    counted.correct,
    counted.tied,
    first_own.chosen_option as first_option,
    (
        select count(*)
        from prediction as own
        where
            own.evaluation_id = counted.evaluation_id
            and own.question_id = counted.question_id
            and own.question_shown
            and own.own_options
            and own.variant % counted.times = 0
            and own.chosen_option = first_own.chosen_option
    ) as agreeing,
    (
        select cast(coalesce(sum(same_answer.times * (same_answer.times - 1) / 2), 0) as integer)
        from (
            select count(*) as times
            from prediction as own
            where
                own.evaluation_id = counted.evaluation_id
                and own.question_id = counted.question_id
                and own.question_shown
                and own.own_options
                and own.variant % counted.times = 0
                and own.chosen_option is not null
            group by own.chosen_option
        ) as same_answer
    ) as equal_pairs,
    case when original.variant is not null then counted.variants - 1 end as others,
    case when original.variant is not null then counted.correct - case when original.correct then 1 else 0 end end
        as others_correct,
    counted.shown,
    counted.shown_correct,
    counted.probability_variants,
    counted.answer_probability_sum,
    counted.brier_score_sum,
    counted.entropy_sum,
    original.accuracy_normalized,
    choice.npsq_correct,
    choice.npsq_accuracy,
    choice.choice_only_accuracy,
    choice.choice_sensitivity,
    choice.choice_sensitivity_normalized,
    counted.distinct_prompts,
    counted.own_prompts,
    counted.answers,
    {{ repeats }}
from counted
left join prediction as original
    on original.evaluation_id = counted.evaluation_id
    and original.question_id = counted.question_id
    and original.variant = counted.original
left join prediction as first_own
    on first_own.evaluation_id = counted.evaluation_id
    and first_own.question_id = counted.question_id
    and first_own.variant = counted.first_own
left join prediction as choice
    on choice.evaluation_id = counted.evaluation_id
    and choice.question_id = counted.question_id
    and choice.variant = coalesce(
        counted.original, case when counted.stored >= counted.expected then counted.first_own end
    )
