-- question_outcome: one row per question of an evaluation, sealed or not.
-- Sealed evaluations are read from question_score, the others from their predictions. Columns: question_statistics.
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
    question_score.agreeing,
    question_score.equal_pairs,
    question_score.others,
    question_score.others_correct,
    question_score.shown,
    question_score.shown_correct,
    question_score.probability_variants,
    question_score.answer_probability_sum,
    question_score.brier_score_sum,
    question_score.entropy_sum,
    question_score.accuracy_normalized,
    question_score.npsq_correct,
    question_score.npsq_accuracy,
    question_score.choice_only_accuracy,
    question_score.choice_sensitivity,
    question_score.choice_sensitivity_normalized
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
    question_statistics.agreeing,
    question_statistics.equal_pairs,
    question_statistics.others,
    question_statistics.others_correct,
    question_statistics.shown,
    question_statistics.shown_correct,
    question_statistics.probability_variants,
    question_statistics.answer_probability_sum,
    question_statistics.brier_score_sum,
    question_statistics.entropy_sum,
    question_statistics.accuracy_normalized,
    question_statistics.npsq_correct,
    question_statistics.npsq_accuracy,
    question_statistics.choice_only_accuracy,
    question_statistics.choice_sensitivity,
    question_statistics.choice_sensitivity_normalized
from question_statistics
inner join evaluation on evaluation.id = question_statistics.evaluation_id
where evaluation.seal is null
