-- question_metrics: one row per question of an evaluation, with every per-question metric.
-- A metric over the variants is NULL until every expected variant is stored; those of the original need only it.
-- Metrics of how answers hold up are NULL below two distinct prompts: untested is not robust. Probability metrics are NULL
-- when any variant has no probabilities. scored: every expected variant is stored, or the question is decided.
-- Of an evaluation that asks each question only until one metric is decided (evaluation.stopped_for), only what is
-- decided then is not NULL: what counts answers over all variants would be that of the questions hardest to decide.
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
    (
        coalesce(question_score.stored, 0) >= evaluation_question.n_variants
        or coalesce((evaluation.stopped_for = 'worst_accuracy' and question_score.correct < question_score.variants) or
        (evaluation.stopped_for = 'fluctuation_rate' and question_score.agreeing < question_score.variants), false)
    ) as scored,
    question_score.distinct_prompts,
    case when evaluation.stopped_for is null then cast(case when question_score.original_correct then 1.0 when not question_score.original_correct then 0.0 end as double precision) end as accuracy,
    case when evaluation.stopped_for is null then cast(case when question_score.accuracy_normalized then 1.0 when not question_score.accuracy_normalized then 0.0 end as double precision) end as accuracy_normalized,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then question_score.correct * 1.0 / question_score.variants
    end as double precision) as average_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.distinct_prompts > 1
            and (evaluation.stopped_for is null or evaluation.stopped_for in ('worst_accuracy', 'fluctuation_rate'))
            then case when question_score.correct = question_score.variants then 1.0 else 0.0 end
        when question_score.stored < evaluation_question.n_variants
            and evaluation.stopped_for in ('worst_accuracy', 'fluctuation_rate') and question_score.correct < question_score.variants
            then 0.0
    end as double precision) as worst_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when question_score.correct > 0 then 1.0 else 0.0 end
    end as double precision) as best_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when question_score.first_option = question.answer then question_score.agreeing * 1.0 / question_score.variants else 0.0 end
    end as double precision) as strong_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.others > 0 and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when question_score.original_correct then question_score.others_correct * 1.0 / question_score.others else 0.0 end
    end as double precision) as retest_accuracy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when question_score.correct > 0 and question_score.correct < question_score.variants then 1.0 else 0.0 end
    end as double precision) as sensitivity_gap,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 1 and question_score.distinct_prompts > 1
            and (evaluation.stopped_for is null or evaluation.stopped_for in ('fluctuation_rate'))
            then case when question_score.agreeing = question_score.variants then 0.0 else 1.0 end
        when question_score.stored < evaluation_question.n_variants
            and evaluation.stopped_for in ('fluctuation_rate') and question_score.agreeing < question_score.variants
            then 1.0
    end as double precision) as fluctuation_rate,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.probability_variants = question_score.variants
            and evaluation.stopped_for is null
            then question_score.answer_probability_sum / question_score.variants
    end as double precision) as prob_mass,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.probability_variants = question_score.variants
            and evaluation.stopped_for is null
            then question_score.brier_score_sum / question_score.variants
    end as double precision) as brier_score,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 0 and question_score.probability_variants = question_score.variants
            and evaluation.stopped_for is null
            then question_score.entropy_sum / question_score.variants
    end as double precision) as entropy,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then question_score.shown_correct * 1.0 / question_score.shown
    end as double precision) as mcqa_plus,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when 2 * question_score.shown_correct > question_score.shown then 1.0 else 0.0 end
    end as double precision) as majority_vote,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when 100 * question_score.shown_correct >= 50 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_50,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when 100 * question_score.shown_correct >= 60 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_60,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when 100 * question_score.shown_correct >= 70 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_70,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when 100 * question_score.shown_correct >= 80 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_80,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then case when 100 * question_score.shown_correct >= 90 * question_score.shown then 1.0 else 0.0 end
    end as double precision) as bmca_90,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.distinct_prompts > 1
            and (evaluation.stopped_for is null or evaluation.stopped_for in ('worst_accuracy', 'fluctuation_rate'))
            then case when 100 * question_score.shown_correct >= 100 * question_score.shown then 1.0 else 0.0 end
        when question_score.stored < evaluation_question.n_variants
            and evaluation.stopped_for in ('worst_accuracy', 'fluctuation_rate') and question_score.shown_correct < question_score.shown
            then 0.0
    end as double precision) as bmca_100,
    cast(case
        when question_score.stored >= evaluation_question.n_variants and question_score.variants > 1 and question_score.distinct_prompts > 1
            and evaluation.stopped_for is null
            then question_score.equal_pairs * 1.0 / (question_score.variants * (question_score.variants - 1) / 2)
    end as double precision) as score,
    case when evaluation.stopped_for is null then question_score.npsq_correct end as npsq_correct,
    case when evaluation.stopped_for is null then cast(case when question_score.npsq_accuracy then 1.0 when not question_score.npsq_accuracy then 0.0 end as double precision) end as npsq_accuracy,
    case when evaluation.stopped_for is null then cast(case when question_score.choice_only_accuracy then 1.0 when not question_score.choice_only_accuracy then 0.0 end as double precision) end as choice_only_accuracy,
    case when evaluation.stopped_for is null then cast(case when question_score.choice_sensitivity then 1.0 when not question_score.choice_sensitivity then 0.0 end as double precision) end as choice_sensitivity,
    case when evaluation.stopped_for is null then cast(case when question_score.choice_sensitivity_normalized then 1.0 when not question_score.choice_sensitivity_normalized then 0.0 end as double precision) end as choice_sensitivity_normalized,
    cast(case when question_pride.correct then 1.0 when not question_pride.correct then 0.0 end as double precision) as pride_accuracy
from evaluation_question
inner join evaluation on evaluation.id = evaluation_question.evaluation_id
inner join question on question.id = evaluation_question.question_id
left join question_score
    on question_score.evaluation_id = evaluation_question.evaluation_id
    and question_score.question_id = evaluation_question.question_id
left join question_pride
    on question_pride.evaluation_id = evaluation_question.evaluation_id
    and question_pride.question_id = evaluation_question.question_id
