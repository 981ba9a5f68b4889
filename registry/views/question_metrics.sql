-- question_metrics: one row per question of an evaluation, with every per-question metric.
-- A metric over the variants is NULL until every expected variant is stored; those of the original need only it.
-- fluctuation_rate and score are NULL for a single variant: untested is not stable. Probability metrics are NULL when
-- any variant has no probabilities. scored: every expected variant is stored.
-- flagged: the options refer to each other, or are sorted numbers.
-- Reference: registry/metrics/. Spec: tests/spec/.
select
    question_outcome.evaluation_id,
    question_outcome.question_id,
    question.external_id,
    question.subject,
    question.refers_to_options,
    question.sorted_numeric,
    (question.refers_to_options or question.sorted_numeric) as flagged,
    question_outcome.expected,
    question_outcome.stored,
    (question_outcome.stored >= question_outcome.expected) as scored,
    cast(case when question_outcome.original_correct then 1.0 when not question_outcome.original_correct then 0.0 end as double precision) as accuracy,
    cast(case when question_outcome.accuracy_normalized then 1.0 when not question_outcome.accuracy_normalized then 0.0 end as double precision) as accuracy_normalized,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then question_outcome.correct * 1.0 / question_outcome.variants
    end as double precision) as average_accuracy,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then case when question_outcome.correct = question_outcome.variants then 1.0 else 0.0 end
    end as double precision) as worst_accuracy,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then case when question_outcome.correct > 0 then 1.0 else 0.0 end
    end as double precision) as best_accuracy,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then case when question_outcome.first_option = question.answer then question_outcome.agreeing * 1.0 / question_outcome.variants else 0.0 end
    end as double precision) as strong_accuracy,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.others > 0
            then case when question_outcome.original_correct then question_outcome.others_correct * 1.0 / question_outcome.others else 0.0 end
    end as double precision) as retest_accuracy,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0
            then case when question_outcome.correct > 0 and question_outcome.correct < question_outcome.variants then 1.0 else 0.0 end
    end as double precision) as sensitivity_gap,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 1
            then case when question_outcome.agreeing = question_outcome.variants then 0.0 else 1.0 end
    end as double precision) as fluctuation_rate,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0 and question_outcome.probability_variants = question_outcome.variants
            then question_outcome.answer_probability_sum / question_outcome.variants
    end as double precision) as prob_mass,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0 and question_outcome.probability_variants = question_outcome.variants
            then question_outcome.brier_score_sum / question_outcome.variants
    end as double precision) as brier_score,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 0 and question_outcome.probability_variants = question_outcome.variants
            then question_outcome.entropy_sum / question_outcome.variants
    end as double precision) as entropy,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then question_outcome.shown_correct * 1.0 / question_outcome.shown
    end as double precision) as mcqa_plus,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 2 * question_outcome.shown_correct > question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as majority_vote,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 100 * question_outcome.shown_correct >= 50 * question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as bmca_50,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 100 * question_outcome.shown_correct >= 60 * question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as bmca_60,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 100 * question_outcome.shown_correct >= 70 * question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as bmca_70,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 100 * question_outcome.shown_correct >= 80 * question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as bmca_80,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 100 * question_outcome.shown_correct >= 90 * question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as bmca_90,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.shown > 0
            then case when 100 * question_outcome.shown_correct >= 100 * question_outcome.shown then 1.0 else 0.0 end
    end as double precision) as bmca_100,
    cast(case
        when question_outcome.stored >= question_outcome.expected and question_outcome.variants > 1
            then question_outcome.equal_pairs * 1.0 / (question_outcome.variants * (question_outcome.variants - 1) / 2)
    end as double precision) as score,
    question_outcome.npsq_correct as npsq_correct,
    cast(case when question_outcome.npsq_accuracy then 1.0 when not question_outcome.npsq_accuracy then 0.0 end as double precision) as npsq_accuracy,
    cast(case when question_outcome.choice_only_accuracy then 1.0 when not question_outcome.choice_only_accuracy then 0.0 end as double precision) as choice_only_accuracy,
    cast(case when question_outcome.choice_sensitivity then 1.0 when not question_outcome.choice_sensitivity then 0.0 end as double precision) as choice_sensitivity,
    cast(case when question_outcome.choice_sensitivity_normalized then 1.0 when not question_outcome.choice_sensitivity_normalized then 0.0 end as double precision) as choice_sensitivity_normalized
from question_outcome
inner join question on question.id = question_outcome.question_id
