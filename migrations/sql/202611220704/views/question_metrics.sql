-- question_metrics: one row per question of an evaluation, with every per-question metric.
-- A metric over the variants is NULL until every expected variant is stored; those of the original need only it.
-- fluctuation_rate and score are NULL for a single variant: untested is not stable. Probability metrics are NULL when
-- any variant has no probabilities. scored: every expected variant is stored.
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
    cast(case when question_score.original_correct then 1.0 when not question_score.original_correct then 0.0 end as double precision) as accuracy,
    cast(case when question_score.accuracy_normalized then 1.0 when not question_score.accuracy_normalized then 0.0 end as double precision) as accuracy_normalized,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0
            then question_score.correct * 1.0 / question_score.variants
    end as double precision) as average_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0
            then case when question_score.correct = question_score.variants then 1.0 else 0.0 end
    end as double precision) as worst_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0
            then case when question_score.correct > 0 then 1.0 else 0.0 end
    end as double precision) as best_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0
            then case when question_score.first_option = question.answer then question_score.agreeing * 1.0 / question_score.variants else 0.0 end
    end as double precision) as strong_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.others > 0
            then case when question_score.original_correct then question_score.others_correct * 1.0 / question_score.others else 0.0 end
    end as double precision) as retest_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0
            then case when question_score.correct > 0 and question_score.correct < question_score.variants then 1.0 else 0.0 end
    end as double precision) as sensitivity_gap,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 1
            then case when question_score.agreeing = question_score.variants then 0.0 else 1.0 end
    end as double precision) as fluctuation_rate,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.probability_variants = question_score.variants
            then question_score.answer_probability_sum / question_score.variants
    end as double precision) as prob_mass,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.probability_variants = question_score.variants
            then question_score.brier_score_sum / question_score.variants
    end as double precision) as brier_score,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.probability_variants = question_score.variants
            then question_score.entropy_sum / question_score.variants
    end as double precision) as entropy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then question_score.shown_correct * 1.0 / question_score.shown
    end as double precision) as mcqa_plus,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 2 * question_score.shown_correct > question_score.shown then 1.0 else 0.0 end
    end as double precision) as majority_vote,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 100 * question_score.shown_correct >= 50 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_50,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 100 * question_score.shown_correct >= 60 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_60,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 100 * question_score.shown_correct >= 70 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_70,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 100 * question_score.shown_correct >= 80 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_80,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 100 * question_score.shown_correct >= 90 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_90,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.shown > 0
            then case when 100 * question_score.shown_correct >= 100 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_100,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 1
            then question_score.equal_pairs * 1.0 / (question_score.variants * (question_score.variants - 1) / 2)
    end as double precision) as score,
    question_score.npsq_correct as npsq_correct,
    cast(case when question_score.npsq_accuracy then 1.0 when not question_score.npsq_accuracy then 0.0 end as double precision) as npsq_accuracy,
    cast(case when question_score.choice_only_accuracy then 1.0 when not question_score.choice_only_accuracy then 0.0 end as double precision) as choice_only_accuracy,
    cast(case when question_score.choice_sensitivity then 1.0 when not question_score.choice_sensitivity then 0.0 end as double precision) as choice_sensitivity,
    cast(case when question_score.choice_sensitivity_normalized then 1.0 when not question_score.choice_sensitivity_normalized then 0.0 end as double precision) as choice_sensitivity_normalized,
    cast(case when question_pride.correct then 1.0 when not question_pride.correct then 0.0 end as double precision) as pride_accuracy
from evaluation_question
inner join question on question.id = evaluation_question.question_id
left join question_score
    on question_score.evaluation_id = evaluation_question.evaluation_id
    and question_score.question_id = evaluation_question.question_id
left join question_pride
    on question_pride.evaluation_id = evaluation_question.evaluation_id
    and question_pride.question_id = evaluation_question.question_id
