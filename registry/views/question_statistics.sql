-- question_statistics: one row per question of an evaluation, computed from its predictions.
-- Sufficient statistics only; metrics are made of them in question_metrics. The table question_score is a copy of these
-- rows, written when an evaluation is sealed.
-- "own" variants show the question with exactly its own options.
-- original_correct is NULL where no original was stored; first_option where the first own variant had no valid answer.
-- Reference: registry/metrics/statistics.py. Spec: tests/spec/.
with first_variant as (
    select
        evaluation_id,
        question_id,
        count(*) as stored,
        min(case when question_shown and own_options then variant end) as first_own,
        min(case when unchanged then variant end) as original
    from prediction
    group by evaluation_id, question_id
)
select
    evaluation_question.evaluation_id,
    evaluation_question.question_id,
    evaluation_question.n_variants as expected,
    coalesce(first_variant.stored, 0) as stored,
    original.correct as original_correct,
    count(own.variant) as variants,
    count(own.chosen_option) as valid,
    sum(case when own.correct then 1 else 0 end) as correct,
    first_own.chosen_option as first_option,
    sum(case when own.chosen_option = first_own.chosen_option then 1 else 0 end) as agreeing
from evaluation_question
left join first_variant
    on first_variant.evaluation_id = evaluation_question.evaluation_id
    and first_variant.question_id = evaluation_question.question_id
left join prediction as original
    on original.evaluation_id = evaluation_question.evaluation_id
    and original.question_id = evaluation_question.question_id
    and original.variant = first_variant.original
left join prediction as first_own
    on first_own.evaluation_id = evaluation_question.evaluation_id
    and first_own.question_id = evaluation_question.question_id
    and first_own.variant = first_variant.first_own
left join prediction as own
    on own.evaluation_id = evaluation_question.evaluation_id
    and own.question_id = evaluation_question.question_id
    and own.question_shown
    and own.own_options
group by
    evaluation_question.evaluation_id,
    evaluation_question.question_id,
    evaluation_question.n_variants,
    first_variant.stored,
    original.correct,
    first_own.chosen_option
