-- question_outcome: one row per question of an evaluation, sealed or not.
-- Sealed evaluations are read from question_score, the others from their predictions.
select
    question_score.evaluation_id,
    question_score.question_id,
    question_score.expected,
    question_score.stored,
    question_score.original_correct,
    question_score.variants,
    question_score.valid,
    question_score.correct,
    question_score.first_option,
    question_score.agreeing
from question_score
union all
select
    question_statistics.evaluation_id,
    question_statistics.question_id,
    question_statistics.expected,
    question_statistics.stored,
    question_statistics.original_correct,
    question_statistics.variants,
    question_statistics.valid,
    question_statistics.correct,
    question_statistics.first_option,
    question_statistics.agreeing
from question_statistics
inner join evaluation on evaluation.id = question_statistics.evaluation_id
where evaluation.seal is null
