-- question_metrics: one row per question of an evaluation, with every per-question metric.
-- A metric over the variants is NULL until every expected variant is stored; accuracy needs only the original.
-- fluctuation_rate is NULL for a single variant: untested is not stable.
-- Reference: registry/metrics/. Spec: tests/spec/.
select
    question_outcome.evaluation_id,
    question_outcome.question_id,
    question.external_id,
    question.subject,
    (question.refers_to_options or question.sorted_numeric) as flagged,
    question_outcome.expected,
    question_outcome.stored,
    (question_outcome.stored >= question_outcome.expected) as scored,
    case when question_outcome.original_correct then 1.0 when not question_outcome.original_correct then 0.0 end
        as accuracy,
    case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then question_outcome.correct * 1.0 / question_outcome.variants
    end as average_accuracy,
    case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then case when question_outcome.correct = question_outcome.variants then 1.0 else 0.0 end
    end as worst_accuracy,
    case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 1
            then case when question_outcome.agreeing = question_outcome.variants then 0.0 else 1.0 end
    end as fluctuation_rate
from question_outcome
inner join question on question.id = question_outcome.question_id
