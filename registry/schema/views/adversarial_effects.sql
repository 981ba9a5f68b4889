-- adversarial_effects: one row per evaluation under `adversarial` variants and inserted distractor.
-- Over the questions whose original and altered prompts are both stored; choosing per byte is NULL if one of these lacks
-- log-probabilities, and NPSQ is over npsq_questions, NULL where there are none.
-- flipped, npsq_flipped: share whose choice, by the protocol's reading or by NPSQ, is the inserted option. Variant k
-- shows the k-th inserted option; variant 0 is the original.
-- Of repeated prompts the first answers count.
-- Dialect trap: PostgreSQL sorts NULL first under DESC; questions without an NPSQ of every option do not come so far.
-- Reference: registry/metrics/adversarial.py.
select
    altered.evaluation_id,
    altered.variant / coalesce(evaluation.repeats, 1) as variant,
    replace(variant.name, ', answer 1', '') as distractor,
    count(*) as questions,
    avg(cast(case when altered.chosen_option < 0 then 1.0 else 0.0 end as double precision)) as flipped,
    avg(cast(case when original.correct then 1.0 else 0.0 end as double precision)) as accuracy_original,
    avg(cast(case when altered.correct then 1.0 else 0.0 end as double precision)) as accuracy,
    cast(
        sum(case when altered.correct then 1 else 0 end) - sum(case when original.correct then 1 else 0 end)
        as double precision
    ) / count(*) as accuracy_change,
    case when count(case when original.accuracy_normalized is not null then altered.accuracy_normalized end) = count(*)
        then avg(cast(case when original.accuracy_normalized then 1.0 else 0.0 end as double precision))
    end as accuracy_normalized_original,
    case when count(case when original.accuracy_normalized is not null then altered.accuracy_normalized end) = count(*)
        then avg(cast(case when altered.accuracy_normalized then 1.0 else 0.0 end as double precision))
    end as accuracy_normalized,
    count(case when original.npsq_accuracy is not null then altered.npsq_accuracy end) as npsq_questions,
    avg(cast(case
        when original.npsq_accuracy is null or altered.npsq_accuracy is null then null
        when (
            select option_probability.option
            from option_probability
            where
                option_probability.evaluation_id = altered.evaluation_id
                and option_probability.question_id = altered.question_id
                and option_probability.variant = altered.variant
            order by
                (option_probability.logprob_nats - option_probability.logprob_without_question_nats)
                / (-option_probability.logprob_without_question_nats) desc,
                option_probability.position
            limit 1
        ) < 0 then 1.0
        else 0.0
    end as double precision)) as npsq_flipped,
    avg(cast(case
        when altered.npsq_accuracy is null then null
        when original.npsq_accuracy then 1.0
        when not original.npsq_accuracy then 0.0
    end as double precision)) as npsq_accuracy_original,
    avg(cast(case
        when original.npsq_accuracy is null then null
        when altered.npsq_accuracy then 1.0
        when not altered.npsq_accuracy then 0.0
    end as double precision)) as npsq_accuracy
from prediction as altered
inner join prediction as original
    on original.evaluation_id = altered.evaluation_id
    and original.question_id = altered.question_id
    and original.variant = 0
inner join evaluation on evaluation.id = altered.evaluation_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
inner join question on question.id = altered.question_id
inner join variant
    on variant.variant_set_id = evaluation.variant_set_id
    and variant.n_options = question.n_options
    and variant.ordinal = altered.variant
where
    variant_set.kind = 'adversarial'
    and altered.question_shown
    and altered.variant > 0
    and altered.variant % coalesce(evaluation.repeats, 1) = 0
group by altered.evaluation_id, altered.variant, evaluation.repeats, variant.name
