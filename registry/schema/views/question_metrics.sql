-- question_metrics: one row per question of an evaluation, with every per-question metric.
-- A metric over the variants is NULL until every expected variant is stored; those of the original need only it.
-- Metrics of how answers hold up are NULL below two distinct prompts: untested is not robust. Probability metrics are NULL
-- when any variant has no probabilities. scored: every expected variant is stored.
-- pride_accuracy: from question_pride, which is written when the evaluation is sealed; NULL until then.
-- flagged: the options refer to each other, or are sorted numbers.
-- Reference: registry/metrics/. Spec: tests/spec/.
select
    evaluation_question.evaluation_id,
    evaluation_question.question_id,
    question.external_id,
    question.subject,
    question.refers_to_options,
    question.sorted_numeric,
    (question.refers_to_options or question.sorted_numeric) as flagged,
    evaluation_question.n_variants as expected,
    coalesce(question_score.stored, 0) as stored,
    (coalesce(question_score.stored, 0) >= evaluation_question.n_variants) as scored,
    question_score.distinct_prompts,
    {{ metrics }}
from evaluation_question
inner join evaluation on evaluation.id = evaluation_question.evaluation_id
inner join question on question.id = evaluation_question.question_id
left join question_score
    on question_score.evaluation_id = evaluation_question.evaluation_id
    and question_score.question_id = evaluation_question.question_id
left join question_pride
    on question_pride.evaluation_id = evaluation_question.evaluation_id
    and question_pride.question_id = evaluation_question.question_id
