CREATE SCHEMA IF NOT EXISTS shuffleboard_public_tables
;
CREATE SCHEMA IF NOT EXISTS shuffleboard_public
;
SET LOCAL search_path = shuffleboard_public_tables,public
;
CREATE VIEW shuffleboard_public_tables.benchmark AS
SELECT * FROM public.benchmark AS benchmark WHERE EXISTS (SELECT 1 FROM public.benchmark_version AS version WHERE version.benchmark_id = benchmark.id AND version.visibility IN ('public'))
;
CREATE VIEW shuffleboard_public_tables.benchmark_version AS
SELECT * FROM public.benchmark_version AS benchmark_version WHERE visibility IN ('public')
;
CREATE VIEW shuffleboard_public_tables.question AS
SELECT * FROM public.question AS question WHERE benchmark_version_id <> ALL (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))
;
CREATE VIEW shuffleboard_public_tables.question_option AS
SELECT * FROM public.question_option AS question_option WHERE NOT EXISTS (SELECT 1 FROM public.question AS hidden WHERE hidden.id = question_option.question_id AND hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public')))))
;
CREATE VIEW shuffleboard_public_tables.evaluation AS
SELECT * FROM public.evaluation AS evaluation WHERE benchmark_version_id <> ALL (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))
;
CREATE VIEW shuffleboard_public_tables.shard AS
SELECT * FROM public.shard AS shard WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.evaluation_question AS
SELECT * FROM public.evaluation_question AS evaluation_question WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.prediction AS
SELECT * FROM public.prediction AS prediction WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.generation AS
SELECT * FROM public.generation AS generation WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.question_score AS
SELECT * FROM public.question_score AS question_score WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.question_pride AS
SELECT * FROM public.question_pride AS question_pride WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.evaluation_metric AS
SELECT * FROM public.evaluation_metric AS evaluation_metric WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.analysis AS
SELECT * FROM public.analysis AS analysis WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.question_seal AS
SELECT * FROM public.question_seal AS question_seal WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.evaluation_source AS
SELECT * FROM public.evaluation_source AS evaluation_source WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.withdrawal AS
SELECT * FROM public.withdrawal AS withdrawal WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.board AS
SELECT * FROM public.board AS board WHERE id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.board_entry AS
SELECT * FROM public.board_entry AS board_entry WHERE board_id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.board_snapshot AS
SELECT * FROM public.board_snapshot AS board_snapshot WHERE board_id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))
;
CREATE VIEW shuffleboard_public_tables.board_standing AS
SELECT * FROM public.board_standing AS board_standing WHERE board_snapshot_id <> ALL (ARRAY(SELECT snapshot.id FROM public.board_snapshot AS snapshot WHERE snapshot.board_id = ANY (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public'))))))))
;
CREATE VIEW shuffleboard_public_tables.suite AS
SELECT * FROM public.suite AS suite WHERE NOT EXISTS (SELECT 1 FROM public.board AS board WHERE board.suite_id = suite.id) OR EXISTS (SELECT 1 FROM public.board AS board WHERE board.suite_id = suite.id AND board.id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public')))))))
;
CREATE VIEW shuffleboard_public_tables.question_statistics AS
-- question_statistics: one row per question of an evaluation, computed from its predictions.
-- Sufficient statistics only; metrics are made of them in question_metrics. The table question_score is a copy of these
-- rows, written in the transaction that stores the predictions.
-- "own" variants show the question with exactly its own options; the CoRA family counts all that show the question.
-- original_correct, others: NULL where no original was stored. first_option: NULL where the first own variant had no
-- valid answer. accuracy_normalized is that of the original; the columns after it are those of the original, else of
-- the first own variant once all expected ones are stored: until then the first may be among those that lack.
-- probability_variants: own variants with probabilities; sums over them are NULL where there are none.
-- Dialect trap: SQLite pushes a condition on evaluation_id into the first subquery of FROM only, never into one behind
-- LEFT JOIN; hence the aggregate comes first and all else is looked up by primary key.
-- Reference: registry/metrics/. Spec: tests/spec/.
with counted as (
    select
        evaluation_question.evaluation_id,
        evaluation_question.question_id,
        evaluation_question.n_variants as expected,
        count(prediction.variant) as stored,
        min(case when prediction.question_shown and prediction.own_options then prediction.variant end) as first_own,
        min(case when prediction.unchanged then prediction.variant end) as original,
        sum(case when prediction.question_shown and prediction.own_options then 1 else 0 end) as variants,
        count(case when prediction.question_shown and prediction.own_options then prediction.chosen_option end)
            as valid,
        sum(case when prediction.question_shown and prediction.own_options and prediction.correct then 1 else 0 end)
            as correct,
        sum(case when prediction.question_shown then 1 else 0 end) as shown,
        sum(case when prediction.question_shown and prediction.correct then 1 else 0 end) as shown_correct,
        count(case when prediction.question_shown and prediction.own_options then prediction.answer_probability end)
            as probability_variants,
        sum(case when prediction.question_shown and prediction.own_options then prediction.answer_probability end)
            as answer_probability_sum,
        sum(case when prediction.question_shown and prediction.own_options then prediction.brier_score end)
            as brier_score_sum,
        sum(case when prediction.question_shown and prediction.own_options then prediction.entropy end) as entropy_sum
    from evaluation_question
    left join prediction
        on prediction.evaluation_id = evaluation_question.evaluation_id
        and prediction.question_id = evaluation_question.question_id
    group by
        evaluation_question.evaluation_id, evaluation_question.question_id, evaluation_question.n_variants
)

select
    counted.evaluation_id,
    counted.question_id,
    counted.expected,
    counted.stored,
    original.correct as original_correct,
    counted.variants,
    counted.valid,
    counted.correct,
    first_own.chosen_option as first_option,
    (
        select count(*)
        from prediction as own
        where
            own.evaluation_id = counted.evaluation_id
            and own.question_id = counted.question_id
            and own.question_shown
            and own.own_options
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
    choice.choice_sensitivity_normalized
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
;
CREATE VIEW shuffleboard_public_tables.question_metrics AS
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
;
CREATE VIEW shuffleboard_public_tables.evaluation_question_scope AS
-- evaluation_question_scope: one row per question of an evaluation and scope that it counts in.
-- Scopes: "all"; "unflagged", without questions whose options refer to each other ("without-references") or are sorted
-- numbers ("without-sorted-numbers"); "subject:…"; "category:…" (subject_category).
select
    evaluation_question.evaluation_id,
    evaluation_question.question_id,
    case kinds.kind
        when 'subject' then 'subject:' || question.subject
        when 'category' then 'category:' || subject_category.category
        else kinds.kind
    end as scope
from evaluation_question
inner join question on question.id = evaluation_question.question_id
cross join (
    select 'all' as kind
    union all
    select 'unflagged' as kind
    union all
    select 'without-references' as kind
    union all
    select 'without-sorted-numbers' as kind
    union all
    select 'subject' as kind
    union all
    select 'category' as kind
) as kinds
left join subject_category
    on kinds.kind = 'category'
    and subject_category.subject = question.subject
where
    case kinds.kind
        when 'all' then true
        when 'unflagged' then not question.refers_to_options and not question.sorted_numeric
        when 'without-references' then not question.refers_to_options
        when 'without-sorted-numbers' then not question.sorted_numeric
        when 'subject' then question.subject is not null
        else subject_category.category is not null
    end
;
CREATE VIEW shuffleboard_public_tables.scope_metrics AS
-- scope_metrics: one row per evaluation and scope.
-- Scopes: see evaluation_question_scope.
-- Each metric is the mean over its non-NULL questions, and <metric>_n their number. NULL: no such question.
-- pct_drop, consistency_index and cora combine two means over the questions that have both.
-- This view computes; sealed values are stored and served by evaluation_metrics.
with averaged as (
    select
        question_metrics.evaluation_id,
        evaluation_question_scope.scope,
        count(*) as questions,
        sum(case when question_metrics.scored then 1 else 0 end) as scored,
        avg(question_metrics.accuracy) as accuracy,
        count(question_metrics.accuracy) as accuracy_n,
        avg(question_metrics.accuracy_normalized) as accuracy_normalized,
        count(question_metrics.accuracy_normalized) as accuracy_normalized_n,
        avg(question_metrics.average_accuracy) as average_accuracy,
        count(question_metrics.average_accuracy) as average_accuracy_n,
        avg(question_metrics.worst_accuracy) as worst_accuracy,
        count(question_metrics.worst_accuracy) as worst_accuracy_n,
        avg(question_metrics.best_accuracy) as best_accuracy,
        count(question_metrics.best_accuracy) as best_accuracy_n,
        avg(question_metrics.strong_accuracy) as strong_accuracy,
        count(question_metrics.strong_accuracy) as strong_accuracy_n,
        avg(question_metrics.retest_accuracy) as retest_accuracy,
        count(question_metrics.retest_accuracy) as retest_accuracy_n,
        avg(question_metrics.sensitivity_gap) as sensitivity_gap,
        count(question_metrics.sensitivity_gap) as sensitivity_gap_n,
        avg(question_metrics.fluctuation_rate) as fluctuation_rate,
        count(question_metrics.fluctuation_rate) as fluctuation_rate_n,
        avg(question_metrics.prob_mass) as prob_mass,
        count(question_metrics.prob_mass) as prob_mass_n,
        avg(question_metrics.brier_score) as brier_score,
        count(question_metrics.brier_score) as brier_score_n,
        avg(question_metrics.entropy) as entropy,
        count(question_metrics.entropy) as entropy_n,
        avg(question_metrics.mcqa_plus) as mcqa_plus,
        count(question_metrics.mcqa_plus) as mcqa_plus_n,
        avg(question_metrics.majority_vote) as majority_vote,
        count(question_metrics.majority_vote) as majority_vote_n,
        avg(question_metrics.bmca_50) as bmca_50,
        count(question_metrics.bmca_50) as bmca_50_n,
        avg(question_metrics.bmca_60) as bmca_60,
        count(question_metrics.bmca_60) as bmca_60_n,
        avg(question_metrics.bmca_70) as bmca_70,
        count(question_metrics.bmca_70) as bmca_70_n,
        avg(question_metrics.bmca_80) as bmca_80,
        count(question_metrics.bmca_80) as bmca_80_n,
        avg(question_metrics.bmca_90) as bmca_90,
        count(question_metrics.bmca_90) as bmca_90_n,
        avg(question_metrics.bmca_100) as bmca_100,
        count(question_metrics.bmca_100) as bmca_100_n,
        avg(question_metrics.score) as score,
        count(question_metrics.score) as score_n,
        avg(question_metrics.npsq_correct) as npsq_correct,
        count(question_metrics.npsq_correct) as npsq_correct_n,
        avg(question_metrics.npsq_accuracy) as npsq_accuracy,
        count(question_metrics.npsq_accuracy) as npsq_accuracy_n,
        avg(question_metrics.choice_only_accuracy) as choice_only_accuracy,
        count(question_metrics.choice_only_accuracy) as choice_only_accuracy_n,
        avg(question_metrics.choice_sensitivity) as choice_sensitivity,
        count(question_metrics.choice_sensitivity) as choice_sensitivity_n,
        avg(question_metrics.choice_sensitivity_normalized) as choice_sensitivity_normalized,
        count(question_metrics.choice_sensitivity_normalized) as choice_sensitivity_normalized_n,
        avg(question_metrics.pride_accuracy) as pride_accuracy,
        count(question_metrics.pride_accuracy) as pride_accuracy_n,
        avg(case when question_metrics.accuracy is not null and question_metrics.retest_accuracy is not null then question_metrics.accuracy end) as retest_original,
        avg(case when question_metrics.accuracy is not null and question_metrics.retest_accuracy is not null then question_metrics.retest_accuracy end) as retest_both,
        count(case when question_metrics.accuracy is not null and question_metrics.retest_accuracy is not null then question_metrics.retest_accuracy end) as pct_drop_n,
        avg(case when question_metrics.accuracy is not null and question_metrics.bmca_100 is not null then question_metrics.accuracy end) as mcqa,
        avg(case when question_metrics.accuracy is not null and question_metrics.bmca_100 is not null then question_metrics.bmca_100 end) as consistent,
        count(case when question_metrics.accuracy is not null and question_metrics.bmca_100 is not null then question_metrics.bmca_100 end) as cora_n
    from question_metrics
    inner join evaluation_question_scope
        on evaluation_question_scope.evaluation_id = question_metrics.evaluation_id
        and evaluation_question_scope.question_id = question_metrics.question_id
    group by question_metrics.evaluation_id, evaluation_question_scope.scope
)

select
    averaged.evaluation_id,
    averaged.scope,
    averaged.questions,
    averaged.scored,
    averaged.accuracy,
    averaged.accuracy_n,
    averaged.accuracy_normalized,
    averaged.accuracy_normalized_n,
    averaged.average_accuracy,
    averaged.average_accuracy_n,
    averaged.worst_accuracy,
    averaged.worst_accuracy_n,
    averaged.best_accuracy,
    averaged.best_accuracy_n,
    averaged.strong_accuracy,
    averaged.strong_accuracy_n,
    averaged.retest_accuracy,
    averaged.retest_accuracy_n,
    averaged.sensitivity_gap,
    averaged.sensitivity_gap_n,
    averaged.fluctuation_rate,
    averaged.fluctuation_rate_n,
    averaged.prob_mass,
    averaged.prob_mass_n,
    averaged.brier_score,
    averaged.brier_score_n,
    averaged.entropy,
    averaged.entropy_n,
    averaged.mcqa_plus,
    averaged.mcqa_plus_n,
    averaged.majority_vote,
    averaged.majority_vote_n,
    averaged.bmca_50,
    averaged.bmca_50_n,
    averaged.bmca_60,
    averaged.bmca_60_n,
    averaged.bmca_70,
    averaged.bmca_70_n,
    averaged.bmca_80,
    averaged.bmca_80_n,
    averaged.bmca_90,
    averaged.bmca_90_n,
    averaged.bmca_100,
    averaged.bmca_100_n,
    averaged.score,
    averaged.score_n,
    averaged.npsq_correct,
    averaged.npsq_correct_n,
    averaged.npsq_accuracy,
    averaged.npsq_accuracy_n,
    averaged.choice_only_accuracy,
    averaged.choice_only_accuracy_n,
    averaged.choice_sensitivity,
    averaged.choice_sensitivity_n,
    averaged.choice_sensitivity_normalized,
    averaged.choice_sensitivity_normalized_n,
    case
        when averaged.retest_original > 0
            then 100.0 * (averaged.retest_original - averaged.retest_both) / averaged.retest_original
    end as pct_drop,
    averaged.pct_drop_n,
    1 - (averaged.mcqa - averaged.consistent) as consistency_index,
    averaged.cora_n as consistency_index_n,
    averaged.mcqa * (1 - (averaged.mcqa - averaged.consistent)) as cora,
    averaged.cora_n,
    averaged.pride_accuracy,
    averaged.pride_accuracy_n
from averaged
;
CREATE VIEW shuffleboard_public_tables.run_accuracy AS
-- run_accuracy: one row per evaluation, scope and run. A run is one variant ordinal over all questions that have it.
-- Only complete questions count, and only variants with exactly the question's own options.
-- unchanged: every question of the run is shown as the benchmark has it. Scopes: see evaluation_question_scope.
-- Reference: registry/metrics/runs.py. Spec: tests/spec/.
select
    question_score.evaluation_id,
    evaluation_question_scope.scope,
    prediction.variant,
    count(*) as questions,
    sum(case when prediction.correct then 1 else 0 end) as correct,
    cast(sum(case when prediction.correct then 1 else 0 end) as double precision) / count(*) as accuracy,
    (sum(case when prediction.unchanged then 1 else 0 end) = count(*)) as unchanged
from question_score
inner join evaluation_question_scope
    on evaluation_question_scope.evaluation_id = question_score.evaluation_id
    and evaluation_question_scope.question_id = question_score.question_id
inner join prediction
    on prediction.evaluation_id = question_score.evaluation_id
    and prediction.question_id = question_score.question_id
where
    question_score.stored >= question_score.expected
    and prediction.question_shown
    and prediction.own_options
group by question_score.evaluation_id, evaluation_question_scope.scope, prediction.variant
;
CREATE VIEW shuffleboard_public_tables.run_metrics AS
-- run_metrics: one row per evaluation and scope: how accuracy spreads over the runs.
-- The original's run is the lowest ordinal that is unchanged on all of its questions; without one, the columns that
-- compare with it are NULL. Variance and range are NULL for a single run: untested is not stable.
-- accuracy_variance: population variance, squared percentage points. n: runs. Reference: registry/metrics/runs.py.
with runs as (
    select
        run_accuracy.evaluation_id,
        run_accuracy.scope,
        run_accuracy.variant,
        run_accuracy.accuracy,
        run_accuracy.questions,
        min(case when run_accuracy.unchanged then run_accuracy.variant end)
            over (partition by run_accuracy.evaluation_id, run_accuracy.scope) as original,
        avg(run_accuracy.accuracy) over (partition by run_accuracy.evaluation_id, run_accuracy.scope) as mean_all
    from run_accuracy
),

ranked as (
    select
        runs.*,
        (runs.variant <> runs.original) as moved,
        row_number() over (
            partition by runs.evaluation_id, runs.scope, (runs.variant <> runs.original) order by runs.accuracy
        ) as place,
        count(*) over (partition by runs.evaluation_id, runs.scope, (runs.variant <> runs.original)) as places
    from runs
),

spread as (
    select
        ranked.evaluation_id,
        ranked.scope,
        count(*) as runs,
        avg(ranked.accuracy) as mean_all,
        avg(case when ranked.moved then ranked.accuracy end) as mean_moved,
        avg(
            case
                when ranked.moved and ranked.place * 2 between ranked.places and ranked.places + 2
                    then ranked.accuracy
            end
        ) as median_moved,
        max(case when not ranked.moved then ranked.accuracy end) as original,
        10000.0 * avg((ranked.accuracy - ranked.mean_all) * (ranked.accuracy - ranked.mean_all)) as variance,
        min(ranked.accuracy) as lowest,
        max(ranked.accuracy) as highest
    from ranked
    group by ranked.evaluation_id, ranked.scope
)

select
    spread.evaluation_id,
    spread.scope,
    spread.runs,
    spread.mean_all as accuracy_mean_all,
    spread.mean_moved as accuracy_mean_moved,
    spread.median_moved as accuracy_median_moved,
    abs(spread.original - spread.mean_moved) as accuracy_abs_diff,
    case when spread.runs > 1 then spread.variance end as accuracy_variance,
    spread.lowest as accuracy_min,
    spread.highest as accuracy_max,
    case when spread.runs > 1 then spread.highest - spread.lowest end as accuracy_range
from spread
;
CREATE VIEW shuffleboard_public_tables.evaluation_progress AS
-- evaluation_progress: one row per evaluation: prompts and shards done, counts of each shard state, tokens and seconds.
-- rates: prompts_done / elapsed_s is the rate of one worker; NULL elapsed_s: nothing has been scored yet.
select
    evaluation.id as evaluation_id,
    evaluation.state,
    evaluation.questions,
    evaluation.prompts,
    coalesce(sum(case when shard.state = 'done' then shard.prompts end), 0) as prompts_done,
    count(shard.id) as shards,
    sum(case when shard.state = 'done' then 1 else 0 end) as shards_done,
    sum(case when shard.state = 'queued' then 1 else 0 end) as shards_queued,
    sum(case when shard.state = 'leased' then 1 else 0 end) as shards_leased,
    sum(case when shard.state = 'failed' then 1 else 0 end) as shards_failed,
    sum(shard.failures) as failures,
    sum(shard.crashes) as crashes,
    sum(shard.tokens_naive) as tokens_naive,
    sum(shard.tokens_computed) as tokens_computed,
    sum(shard.elapsed_s) as elapsed_s,
    min(shard.claimed_at) as first_claimed_at,
    max(shard.finished_at) as last_finished_at,
    count(distinct shard.engine_fingerprint_id) as engine_fingerprints
from evaluation
left join shard on shard.evaluation_id = evaluation.id
group by evaluation.id, evaluation.state, evaluation.questions, evaluation.prompts
;
CREATE VIEW shuffleboard_public_tables.evaluation_metrics AS
-- evaluation_metrics: one row per sealed evaluation, scope and metric, in the newest definition of the metric.
-- value NULL: undefined; n: over how many questions it is a mean; interval NULL: none is stated.
-- interval_method: "bias-corrected percentile bootstrap over questions" with so many resamples and that seed; "none"
-- where it would not cover; NULL where none was looked for.
select
    evaluation_metric.evaluation_id,
    evaluation_metric.scope,
    evaluation_metric.metric,
    evaluation_metric.definition_version,
    evaluation_metric.value,
    evaluation_metric.n,
    evaluation_metric.interval_low,
    evaluation_metric.interval_high,
    evaluation_metric.computed_at,
    evaluation_metric.interval_method,
    evaluation_metric.interval_resamples,
    evaluation_metric.interval_seed
from evaluation_metric
where not exists (
    select 1
    from evaluation_metric as newer
    where
        newer.evaluation_id = evaluation_metric.evaluation_id
        and newer.scope = evaluation_metric.scope
        and newer.metric = evaluation_metric.metric
        and newer.definition_version > evaluation_metric.definition_version
)
;
CREATE VIEW shuffleboard_public_tables.withdrawals AS
-- withdrawals: one row each time that a sealed evaluation was withdrawn, or superseded by another.
-- superseded_by: the other's seal; NULL where it was withdrawn. superseding_evaluation_id is also NULL where this registry
-- does not hold the other. current: the newest row of its evaluation, which holds.
select
    withdrawal.id as withdrawal,
    withdrawal.evaluation_id,
    withdrawal.kind,
    withdrawal.reason,
    withdrawal.actor,
    withdrawal.at,
    withdrawal.superseded_by,
    superseding.id as superseding_evaluation_id,
    (withdrawal.id = (
        select max(newest.id) from withdrawal as newest where newest.evaluation_id = withdrawal.evaluation_id
    )) as current
from withdrawal
left join evaluation as superseding on superseding.seal = withdrawal.superseded_by
;
CREATE VIEW shuffleboard_public_tables.evaluation_sources AS
-- evaluation_sources: one row per sealed evaluation and other sealed evaluation that results of it were copied from.
-- source_seal names the source in every registry; source_evaluation_id is NULL where this one does not hold it.
-- withdrawn: the source no longer counts, so the copies are open to the same doubt.
select
    evaluation_source.evaluation_id,
    evaluation_source.seal as source_seal,
    source.id as source_evaluation_id,
    evaluation_source.predictions,
    exists (select 1 from withdrawal where withdrawal.evaluation_id = source.id) as withdrawn
from evaluation_source
left join evaluation as source on source.seal = evaluation_source.seal
;
CREATE VIEW shuffleboard_public_tables.leaderboard AS
-- leaderboard: one row per evaluation specification, with the metrics of its whole benchmark (scope "all").
-- Of several replicates the newest sealed one stands for the specification; the newest, where none is sealed. Withdrawn
-- and superseded evaluations are left out: see the view withdrawals.
-- mixed_engines: its shards were scored by different code, packages, devices or settings. copies_withdrawn: some of its
-- results were copied from an evaluation that was withdrawn since.
-- Metrics are NULL until the evaluation is sealed: incomplete is never ranked. scored/questions says how far it is.
with metrics as (
    select
        evaluation_metrics.evaluation_id,
        max(case when evaluation_metrics.metric = 'accuracy' then evaluation_metrics.value end) as accuracy,
        max(case when evaluation_metrics.metric = 'accuracy_normalized' then evaluation_metrics.value end) as accuracy_normalized,
        max(case when evaluation_metrics.metric = 'average_accuracy' then evaluation_metrics.value end) as average_accuracy,
        max(case when evaluation_metrics.metric = 'worst_accuracy' then evaluation_metrics.value end) as worst_accuracy,
        max(case when evaluation_metrics.metric = 'best_accuracy' then evaluation_metrics.value end) as best_accuracy,
        max(case when evaluation_metrics.metric = 'strong_accuracy' then evaluation_metrics.value end) as strong_accuracy,
        max(case when evaluation_metrics.metric = 'retest_accuracy' then evaluation_metrics.value end) as retest_accuracy,
        max(case when evaluation_metrics.metric = 'pct_drop' then evaluation_metrics.value end) as pct_drop,
        max(case when evaluation_metrics.metric = 'sensitivity_gap' then evaluation_metrics.value end) as sensitivity_gap,
        max(case when evaluation_metrics.metric = 'fluctuation_rate' then evaluation_metrics.value end) as fluctuation_rate,
        max(case when evaluation_metrics.metric = 'prob_mass' then evaluation_metrics.value end) as prob_mass,
        max(case when evaluation_metrics.metric = 'brier_score' then evaluation_metrics.value end) as brier_score,
        max(case when evaluation_metrics.metric = 'entropy' then evaluation_metrics.value end) as entropy,
        max(case when evaluation_metrics.metric = 'mcqa_plus' then evaluation_metrics.value end) as mcqa_plus,
        max(case when evaluation_metrics.metric = 'majority_vote' then evaluation_metrics.value end) as majority_vote,
        max(case when evaluation_metrics.metric = 'bmca_50' then evaluation_metrics.value end) as bmca_50,
        max(case when evaluation_metrics.metric = 'bmca_60' then evaluation_metrics.value end) as bmca_60,
        max(case when evaluation_metrics.metric = 'bmca_70' then evaluation_metrics.value end) as bmca_70,
        max(case when evaluation_metrics.metric = 'bmca_80' then evaluation_metrics.value end) as bmca_80,
        max(case when evaluation_metrics.metric = 'bmca_90' then evaluation_metrics.value end) as bmca_90,
        max(case when evaluation_metrics.metric = 'bmca_100' then evaluation_metrics.value end) as bmca_100,
        max(case when evaluation_metrics.metric = 'consistency_index' then evaluation_metrics.value end) as consistency_index,
        max(case when evaluation_metrics.metric = 'cora' then evaluation_metrics.value end) as cora,
        max(case when evaluation_metrics.metric = 'score' then evaluation_metrics.value end) as score,
        max(case when evaluation_metrics.metric = 'accuracy_mean_all' then evaluation_metrics.value end) as accuracy_mean_all,
        max(case when evaluation_metrics.metric = 'accuracy_mean_moved' then evaluation_metrics.value end) as accuracy_mean_moved,
        max(case when evaluation_metrics.metric = 'accuracy_median_moved' then evaluation_metrics.value end) as accuracy_median_moved,
        max(case when evaluation_metrics.metric = 'accuracy_abs_diff' then evaluation_metrics.value end) as accuracy_abs_diff,
        max(case when evaluation_metrics.metric = 'accuracy_variance' then evaluation_metrics.value end) as accuracy_variance,
        max(case when evaluation_metrics.metric = 'accuracy_min' then evaluation_metrics.value end) as accuracy_min,
        max(case when evaluation_metrics.metric = 'accuracy_max' then evaluation_metrics.value end) as accuracy_max,
        max(case when evaluation_metrics.metric = 'accuracy_range' then evaluation_metrics.value end) as accuracy_range,
        max(case when evaluation_metrics.metric = 'npsq_correct' then evaluation_metrics.value end) as npsq_correct,
        max(case when evaluation_metrics.metric = 'npsq_accuracy' then evaluation_metrics.value end) as npsq_accuracy,
        max(case when evaluation_metrics.metric = 'choice_only_accuracy' then evaluation_metrics.value end) as choice_only_accuracy,
        max(case when evaluation_metrics.metric = 'choice_sensitivity' then evaluation_metrics.value end) as choice_sensitivity,
        max(case when evaluation_metrics.metric = 'choice_sensitivity_normalized' then evaluation_metrics.value end) as choice_sensitivity_normalized,
        max(case when evaluation_metrics.metric = 'pride_accuracy' then evaluation_metrics.value end) as pride_accuracy
    from evaluation_metrics
    where evaluation_metrics.scope = 'all'
    group by evaluation_metrics.evaluation_id
),

scored as (
    select evaluation_question.evaluation_id, count(*) as questions
    from evaluation_question
    inner join shard on shard.id = evaluation_question.shard_id
    where shard.state = 'done'
    group by evaluation_question.evaluation_id
)
select
    evaluation.id as evaluation_id,
    model.name as model,
    model_revision.number as revision,
    model.family,
    model.parameters,
    model_revision.kind,
    model_revision.dtype,
    model_revision.quantisation,
    benchmark.name as benchmark,
    benchmark_version.version as benchmark_version,
    protocol.name as protocol,
    protocol.shots,
    variant_set.name as variants,
    evaluation.replicate,
    evaluation.state,
    (evaluation.seal is not null) as complete,
    evaluation.questions,
    coalesce(scored.questions, 0) as scored,
    evaluation.sealed_at,
    metrics.accuracy,
    metrics.accuracy_normalized,
    metrics.average_accuracy,
    metrics.worst_accuracy,
    metrics.best_accuracy,
    metrics.strong_accuracy,
    metrics.retest_accuracy,
    metrics.pct_drop,
    metrics.sensitivity_gap,
    metrics.fluctuation_rate,
    metrics.prob_mass,
    metrics.brier_score,
    metrics.entropy,
    metrics.mcqa_plus,
    metrics.majority_vote,
    metrics.bmca_50,
    metrics.bmca_60,
    metrics.bmca_70,
    metrics.bmca_80,
    metrics.bmca_90,
    metrics.bmca_100,
    metrics.consistency_index,
    metrics.cora,
    metrics.score,
    metrics.accuracy_mean_all,
    metrics.accuracy_mean_moved,
    metrics.accuracy_median_moved,
    metrics.accuracy_abs_diff,
    metrics.accuracy_variance,
    metrics.accuracy_min,
    metrics.accuracy_max,
    metrics.accuracy_range,
    metrics.npsq_correct,
    metrics.npsq_accuracy,
    metrics.choice_only_accuracy,
    metrics.choice_sensitivity,
    metrics.choice_sensitivity_normalized,
    metrics.pride_accuracy,
    (
        select count(distinct shard.engine_fingerprint_id) from shard where shard.evaluation_id = evaluation.id
    ) > 1 as mixed_engines,
    exists (
        select 1
        from evaluation_sources
        where evaluation_sources.evaluation_id = evaluation.id and evaluation_sources.withdrawn
    ) as copies_withdrawn
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
left join metrics on metrics.evaluation_id = evaluation.id
left join scored on scored.evaluation_id = evaluation.id
where
    evaluation.id = (
        select replicate.id
        from evaluation as replicate
        where
            replicate.specification_digest = evaluation.specification_digest
            and replicate.state <> 'cancelled'
            and replicate.id not in (select withdrawal.evaluation_id from withdrawal)
        order by case when replicate.seal is not null then 0 else 1 end, replicate.replicate desc
        limit 1
    )
;
CREATE VIEW shuffleboard_public_tables.metrics_over_benchmarks AS
-- metrics_over_benchmarks: one row per model revision, protocol, variant set and metric, over the benchmarks that the
-- revision has a sealed evaluation of, withdrawn ones left out. Of several evaluations of a benchmark the newest counts.
-- macro: unweighted mean over benchmarks; NULL if it is undefined on any. micro: mean over all questions; NULL for
-- metrics that are not means over questions (pct_drop, consistency_index, cora and those that compare runs).
-- The macro of pct_drop comes from the macro means of accuracy and retest accuracy.
-- Compare rows only where `benchmarks` means the same benchmarks: boards fix them.
with newest as (
    select max(evaluation.id) as evaluation_id
    from evaluation
    inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
    where evaluation.seal is not null and evaluation.id not in (select withdrawal.evaluation_id from withdrawal)
    group by
        evaluation.model_revision_id,
        benchmark_version.benchmark_id,
        evaluation.protocol_id,
        evaluation.variant_set_id
),

averaged as (
    select
        evaluation.model_revision_id,
        evaluation.protocol_id,
        evaluation.variant_set_id,
        evaluation_metrics.metric,
        count(*) as benchmarks,
        case when count(*) = count(evaluation_metrics.value) then avg(evaluation_metrics.value) end as macro,
        sum(evaluation_metrics.value * evaluation_metrics.n)
        / nullif(sum(case when evaluation_metrics.value is not null then evaluation_metrics.n end), 0) as weighted,
        sum(evaluation_metrics.n) as n
    from newest
    inner join evaluation on evaluation.id = newest.evaluation_id
    inner join evaluation_metrics on evaluation_metrics.evaluation_id = newest.evaluation_id
    where evaluation_metrics.scope = 'all'
    group by
        evaluation.model_revision_id, evaluation.protocol_id, evaluation.variant_set_id, evaluation_metrics.metric
)

select
    model.name as model,
    model_revision.number as revision,
    protocol.name as protocol,
    protocol.shots,
    variant_set.name as variants,
    averaged.metric,
    averaged.benchmarks,
    case
        when averaged.metric <> 'pct_drop' then averaged.macro
        when accuracy.macro > 0 then 100.0 * (accuracy.macro - retest.macro) / accuracy.macro
    end as macro,
    case
        when
            averaged.metric in ('pct_drop', 'consistency_index', 'cora')
            or (averaged.metric like 'accuracy\_%' escape '\' and averaged.metric <> 'accuracy_normalized')
            then null
        else averaged.weighted
    end as micro,
    averaged.n
from averaged
inner join model_revision on model_revision.id = averaged.model_revision_id
inner join model on model.id = model_revision.model_id
inner join protocol on protocol.id = averaged.protocol_id
inner join variant_set on variant_set.id = averaged.variant_set_id
left join averaged as accuracy
    on accuracy.model_revision_id = averaged.model_revision_id
    and accuracy.protocol_id = averaged.protocol_id
    and accuracy.variant_set_id = averaged.variant_set_id
    and accuracy.metric = 'accuracy'
left join averaged as retest
    on retest.model_revision_id = averaged.model_revision_id
    and retest.protocol_id = averaged.protocol_id
    and retest.variant_set_id = averaged.variant_set_id
    and retest.metric = 'retest_accuracy'
;
CREATE VIEW shuffleboard_public_tables.prediction_detail AS
-- prediction_detail: one row per stored prompt, with the names that make it readable.
-- chosen_option_text is NULL where there is no valid answer or an inserted option was chosen.
select
    prediction.evaluation_id,
    prediction.question_id,
    question.external_id,
    question.subject,
    prediction.variant,
    variant.name as variant_name,
    prediction.shown,
    prediction.question_shown,
    prediction.own_options,
    prediction.unchanged,
    question.answer,
    prediction.chosen_position,
    prediction.chosen_option,
    question_option.text as chosen_option_text,
    prediction.correct,
    prediction.tied,
    prediction.extraction_rule,
    prediction.label_logprobs,
    prediction.label_probabilities,
    prediction.label_mass,
    prediction.answer_probability,
    prediction.brier_score,
    prediction.entropy,
    prediction.prompt_digest,
    prediction.logprobs_without_question,
    prediction.accuracy_normalized,
    prediction.npsq_correct,
    prediction.npsq_accuracy,
    prediction.choice_only_accuracy,
    prediction.choice_sensitivity,
    prediction.choice_sensitivity_normalized,
    generation.text as generation,
    generation.extracted,
    generation.tokens as generation_tokens,
    generation.finished as generation_finished
from prediction
inner join evaluation on evaluation.id = prediction.evaluation_id
inner join question on question.id = prediction.question_id
left join generation
    on generation.evaluation_id = prediction.evaluation_id
    and generation.question_id = prediction.question_id
    and generation.variant = prediction.variant
left join variant
    on variant.variant_set_id = evaluation.variant_set_id
    and variant.n_options = question.n_options
    and variant.ordinal = prediction.variant
left join question_option
    on question_option.question_id = prediction.question_id
    and question_option.ordinal = prediction.chosen_option
;
CREATE VIEW shuffleboard_public_tables.option_probability AS
-- option_probability: one row per stored prompt and position shown.
-- option: the benchmark's ordinal of what stood there (inserted options are negative).
-- probability is NULL where none was recorded; it is renormalised over the labels shown.
select
    prediction.evaluation_id,
    prediction.question_id,
    prediction.variant,
    (place.ordinality - 1)::integer as position,
    place.option::integer as option,
    prediction.label_logprobs[place.ordinality] as logprob_nats,
    prediction.label_probabilities[place.ordinality] as probability,
    prediction.logprobs_without_question[place.ordinality] as logprob_without_question_nats
from prediction
cross join lateral unnest(prediction.shown) with ordinality as place (option, ordinality)
;
CREATE VIEW shuffleboard_public_tables.adversarial_effects AS
-- adversarial_effects: one row per evaluation under `adversarial` variants and inserted distractor.
-- Over the questions whose original and altered prompts are both stored; what asks for log-probabilities counts those
-- where both are defined, and is NULL where there are none. flipped, npsq_flipped: share whose choice, by the protocol's
-- reading or by NPSQ, is the inserted option. Variant k shows the k-th inserted option; variant 0 is the original.
-- Dialect trap: PostgreSQL sorts NULL first under DESC; questions without an NPSQ of every option do not come so far.
-- Reference: registry/metrics/adversarial.py.
select
    altered.evaluation_id,
    altered.variant,
    variant.name as distractor,
    count(*) as questions,
    avg(cast(case when altered.chosen_option < 0 then 1.0 else 0.0 end as double precision)) as flipped,
    avg(cast(case when original.correct then 1.0 else 0.0 end as double precision)) as accuracy_original,
    avg(cast(case when altered.correct then 1.0 else 0.0 end as double precision)) as accuracy,
    cast(
        sum(case when altered.correct then 1 else 0 end) - sum(case when original.correct then 1 else 0 end)
        as double precision
    ) / count(*) as accuracy_change,
    avg(cast(case
        when altered.accuracy_normalized is null then null
        when original.accuracy_normalized then 1.0
        when not original.accuracy_normalized then 0.0
    end as double precision)) as accuracy_normalized_original,
    avg(cast(case
        when original.accuracy_normalized is null then null
        when altered.accuracy_normalized then 1.0
        when not altered.accuracy_normalized then 0.0
    end as double precision)) as accuracy_normalized,
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
group by altered.evaluation_id, altered.variant, variant.name
;
CREATE VIEW shuffleboard_public_tables.prediction_drift AS
-- prediction_drift: one row per prompt and pair of sealed evaluations that put it to the same model, in both orders of the
-- pair: replicates, or revisions of the model such as two precisions, on one benchmark version, protocol and variant set.
-- Name both evaluations in a condition: without one, every pair of the registry is compared.
-- flipped: the answers differ; no valid answer equals no valid answer here. Probabilities are NULL where there are none.
select
    prediction.evaluation_id,
    other.evaluation_id as other_evaluation_id,
    prediction.question_id,
    question.external_id,
    prediction.variant,
    prediction.chosen_option,
    other.chosen_option as other_chosen_option,
    (prediction.chosen_option is distinct from other.chosen_option) as flipped,
    prediction.correct,
    other.correct as other_correct,
    prediction.answer_probability,
    other.answer_probability as other_answer_probability,
    other.answer_probability - prediction.answer_probability as answer_probability_change
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model_revision as other_revision on other_revision.model_id = model_revision.model_id
inner join evaluation as other_evaluation
    on other_evaluation.model_revision_id = other_revision.id
    and other_evaluation.benchmark_version_id = evaluation.benchmark_version_id
    and other_evaluation.protocol_id = evaluation.protocol_id
    and other_evaluation.variant_set_id = evaluation.variant_set_id
    and other_evaluation.id <> evaluation.id
inner join prediction on prediction.evaluation_id = evaluation.id
inner join prediction as other
    on other.evaluation_id = other_evaluation.id
    and other.question_id = prediction.question_id
    and other.variant = prediction.variant
    and other.shown = prediction.shown
inner join question on question.id = prediction.question_id
where evaluation.seal is not null and other_evaluation.seal is not null
;
CREATE VIEW shuffleboard_public_tables.evaluation_provenance AS
-- evaluation_provenance: one row per shard of an evaluation: who scored it, when, on what, with which attempts.
-- NULL worker, times and fingerprint: not scored yet.
select
    shard.evaluation_id,
    shard.ordinal as shard,
    shard.state,
    shard.prompts,
    shard.failures,
    shard.crashes,
    shard.fence as claims,
    shard.error,
    worker.host,
    worker.device,
    shard.claimed_at,
    shard.finished_at,
    shard.elapsed_s,
    shard.tokens_naive,
    shard.tokens_computed,
    engine_fingerprint.digest as engine_fingerprint_digest,
    engine_fingerprint.document as engine_fingerprint,
    shard.matching_s
from shard
left join worker on worker.id = shard.worker_id
left join engine_fingerprint on engine_fingerprint.id = shard.engine_fingerprint_id
;
CREATE VIEW shuffleboard_public_tables.chain_links AS
-- chain_links: one row per seal, withdrawal or snapshot of a board, in the order in which this registry made them.
-- subject: the digest of what the link is about; labels: NULL but for seals. digest covers the row and, through previous,
-- every row before it: the last digest stands for the whole list.
select
    chain_link.position,
    chain_link.kind,
    chain_link.subject,
    chain_link.labels,
    chain_link.at,
    chain_link.previous,
    chain_link.digest
from chain_link
;
CREATE VIEW shuffleboard_public_tables.evaluation_seconds AS
-- evaluation_seconds: one row per evaluation with scored shards: what scoring it took, over all workers.
-- asking_s: seconds in which the model was asked; matching_s: in which answers were matched with options, NULL where
-- none are. prompts: those of the shards that are done.
select
    evaluation_id,
    sum(prompts) as prompts,
    sum(elapsed_s) - coalesce(sum(matching_s), 0) as asking_s,
    sum(matching_s) as matching_s,
    sum(tokens_naive) as tokens_naive,
    sum(tokens_computed) as tokens_computed
from shard
where state = 'done' and elapsed_s is not null
group by evaluation_id
;
CREATE VIEW shuffleboard_public_tables.extraction_counts AS
-- extraction_counts: one row per evaluation whose model wrote text and rule that found answers in it.
-- extraction_rule 'stated': imported texts whose answer was imported too; 'none': no answer was found.
select
    generation.evaluation_id,
    coalesce(
        prediction.extraction_rule, case when prediction.chosen_position is null then 'none' else 'stated' end
    ) as extraction_rule,
    count(*) as prompts,
    sum(case when prediction.correct then 1 else 0 end) as correct
from generation
inner join prediction
    on prediction.evaluation_id = generation.evaluation_id
    and prediction.question_id = generation.question_id
    and prediction.variant = generation.variant
group by
    generation.evaluation_id,
    coalesce(prediction.extraction_rule, case when prediction.chosen_position is null then 'none' else 'stated' end)
;
CREATE VIEW shuffleboard_public_tables.board_standings AS
-- board_standings: one row per snapshot of a board, model revision and column.
-- current: the newest snapshot of the newest version of the board. For a board as of a date, take the newest snapshot
-- with as_of at or before it. complete: every evaluation that the board asks for is sealed; only such rows are ranked.
-- value NULL: a part of it is missing or undefined. value: the unweighted mean over the board's tasks.
-- rank_low … rank_high: 95 % percentile interval of the rank; tier: models of one tier are not told apart.
select
    board.name as board,
    board.version as board_version,
    board_snapshot.id as snapshot,
    board_snapshot.as_of,
    (
        not exists (
            select 1
            from board as newer
            where newer.name = board.name and newer.version > board.version
        )
        and not exists (
            select 1
            from board_snapshot as later
            where later.board_id = board_snapshot.board_id and later.id > board_snapshot.id
        )
    ) as current,
    model.name as model,
    model_revision.number as revision,
    board_standing.column_name,
    board_standing.metric,
    variant_set.name as variants,
    protocol.name as protocol,
    protocol.shots,
    board_standing.complete,
    board_standing.value,
    board_standing.n,
    board_standing.interval_low,
    board_standing.interval_high,
    board_standing.rank,
    board_standing.rank_low,
    board_standing.rank_high,
    board_standing.tier
from board_standing
inner join board_snapshot on board_snapshot.id = board_standing.board_snapshot_id
inner join board on board.id = board_snapshot.board_id
inner join model_revision on model_revision.id = board_standing.model_revision_id
inner join model on model.id = model_revision.model_id
inner join variant_set on variant_set.id = board_standing.variant_set_id
inner join protocol on protocol.id = board_standing.protocol_id
;
CREATE VIEW shuffleboard_public_tables.board_headlines AS
-- board_headlines: one row per model revision of a board's current snapshot, with the five headline metrics side by side,
-- although they come from different variant sets. NULL: a part is missing, or the board has no such column.
-- A board with several columns of one metric (several protocols, say) shows its first by name here; board_standings has
-- all of them. tier is that of worst accuracy.
select
    board_standings.board,
    board_standings.as_of,
    board_standings.model,
    board_standings.revision,
    board_standings.complete,
    max(case when board_standings.metric = 'accuracy' and first_column.column_name is not null then board_standings.value end) as accuracy,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.value end) as worst_accuracy,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.rank end) as worst_accuracy_rank,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.rank_low end) as worst_accuracy_rank_low,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.rank_high end) as worst_accuracy_rank_high,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.tier end) as tier,
    max(case when board_standings.metric = 'cora' and first_column.column_name is not null then board_standings.value end) as cora,
    max(case when board_standings.metric = 'fluctuation_rate' and first_column.column_name is not null then board_standings.value end) as fluctuation_rate,
    max(case when board_standings.metric = 'npsq_accuracy' and first_column.column_name is not null then board_standings.value end) as npsq_accuracy
from board_standings
left join (
    select board_standing.board_snapshot_id, board_standing.metric, min(board_standing.column_name) as column_name
    from board_standing
    group by board_standing.board_snapshot_id, board_standing.metric
) as first_column
    on first_column.board_snapshot_id = board_standings.snapshot
    and first_column.column_name = board_standings.column_name
where board_standings.current
group by
    board_standings.board,
    board_standings.as_of,
    board_standings.model,
    board_standings.revision,
    board_standings.complete
;
CREATE VIEW shuffleboard_public_tables.published_results AS
-- published_results: one row per number that a paper prints, as printed. Never measured here.
-- printed keeps the digits; value is the number in the paper's unit. registry_metric and registry_value: the same in this
-- registry's name and unit, NULL where there is no such metric. Transcription: registry/studies/published/README.md.
select
    published_result.paper,
    published_result.paper_table,
    published_result.section,
    published_result.model,
    published_result.benchmark,
    published_result.protocol,
    published_result.target,
    published_result.metric,
    published_result.printed,
    published_result.value,
    published_result.unit,
    published_result.rank,
    published_result.standard_deviation,
    published_result.registry_metric,
    published_result.registry_value
from published_result
;
CREATE VIEW shuffleboard_public_tables.measured_and_published AS
-- measured_and_published: numbers of this registry, less what was withdrawn, and numbers that papers print, told apart by
-- `origin`: "measured", or "printed in …". Names of models and benchmarks are those of their origin: a paper's "MMLU" is
-- not said to be yours. Units are this registry's; evaluation_id is NULL for printed numbers.
select
    'measured' as origin,
    evaluation_metrics.evaluation_id,
    model.name as model,
    benchmark.name as benchmark,
    protocol.name as protocol,
    variant_set.name as variants,
    evaluation_metrics.metric,
    evaluation_metrics.value,
    evaluation_metrics.interval_low,
    evaluation_metrics.interval_high,
    evaluation_metrics.n
from evaluation_metrics
inner join evaluation on evaluation.id = evaluation_metrics.evaluation_id
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
where
    evaluation_metrics.scope = 'all'
    and evaluation_metrics.evaluation_id not in (select withdrawal.evaluation_id from withdrawal)
union all
select
    'printed in ' || published_result.paper || ', Table ' || published_result.paper_table as origin,
    null as evaluation_id,
    published_result.model,
    published_result.benchmark,
    published_result.protocol,
    null as variants,
    published_result.registry_metric as metric,
    published_result.registry_value as value,
    null as interval_low,
    null as interval_high,
    null as n
from published_result
where published_result.registry_metric is not null
;
CREATE VIEW shuffleboard_public.question_statistics WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.question_statistics
;
CREATE VIEW shuffleboard_public.question_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.question_metrics
;
CREATE VIEW shuffleboard_public.evaluation_question_scope WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.evaluation_question_scope
;
CREATE VIEW shuffleboard_public.scope_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.scope_metrics
;
CREATE VIEW shuffleboard_public.run_accuracy WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.run_accuracy
;
CREATE VIEW shuffleboard_public.run_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.run_metrics
;
CREATE VIEW shuffleboard_public.evaluation_progress WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.evaluation_progress
;
CREATE VIEW shuffleboard_public.evaluation_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.evaluation_metrics
;
CREATE VIEW shuffleboard_public.withdrawals WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.withdrawals
;
CREATE VIEW shuffleboard_public.evaluation_sources WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.evaluation_sources
;
CREATE VIEW shuffleboard_public.leaderboard WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.leaderboard
;
CREATE VIEW shuffleboard_public.metrics_over_benchmarks WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.metrics_over_benchmarks
;
CREATE VIEW shuffleboard_public.prediction_detail WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.prediction_detail
;
CREATE VIEW shuffleboard_public.option_probability WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.option_probability
;
CREATE VIEW shuffleboard_public.adversarial_effects WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.adversarial_effects
;
CREATE VIEW shuffleboard_public.prediction_drift WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.prediction_drift
;
CREATE VIEW shuffleboard_public.evaluation_provenance WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.evaluation_provenance
;
CREATE VIEW shuffleboard_public.chain_links WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.chain_links
;
CREATE VIEW shuffleboard_public.evaluation_seconds WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.evaluation_seconds
;
CREATE VIEW shuffleboard_public.extraction_counts WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.extraction_counts
;
CREATE VIEW shuffleboard_public.board_standings WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.board_standings
;
CREATE VIEW shuffleboard_public.board_headlines WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.board_headlines
;
CREATE VIEW shuffleboard_public.published_results WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.published_results
;
CREATE VIEW shuffleboard_public.measured_and_published WITH (security_barrier) AS
SELECT * FROM shuffleboard_public_tables.measured_and_published
;
CREATE SCHEMA IF NOT EXISTS shuffleboard_members_tables
;
CREATE SCHEMA IF NOT EXISTS shuffleboard_members
;
SET LOCAL search_path = shuffleboard_members_tables,public
;
CREATE VIEW shuffleboard_members_tables.benchmark AS
SELECT * FROM public.benchmark AS benchmark WHERE EXISTS (SELECT 1 FROM public.benchmark_version AS version WHERE version.benchmark_id = benchmark.id AND version.visibility IN ('public', 'members'))
;
CREATE VIEW shuffleboard_members_tables.benchmark_version AS
SELECT * FROM public.benchmark_version AS benchmark_version WHERE visibility IN ('public', 'members')
;
CREATE VIEW shuffleboard_members_tables.question AS
SELECT * FROM public.question AS question WHERE benchmark_version_id <> ALL (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))
;
CREATE VIEW shuffleboard_members_tables.question_option AS
SELECT * FROM public.question_option AS question_option WHERE NOT EXISTS (SELECT 1 FROM public.question AS hidden WHERE hidden.id = question_option.question_id AND hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members')))))
;
CREATE VIEW shuffleboard_members_tables.evaluation AS
SELECT * FROM public.evaluation AS evaluation WHERE benchmark_version_id <> ALL (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))
;
CREATE VIEW shuffleboard_members_tables.shard AS
SELECT * FROM public.shard AS shard WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.evaluation_question AS
SELECT * FROM public.evaluation_question AS evaluation_question WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.prediction AS
SELECT * FROM public.prediction AS prediction WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.generation AS
SELECT * FROM public.generation AS generation WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.question_score AS
SELECT * FROM public.question_score AS question_score WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.question_pride AS
SELECT * FROM public.question_pride AS question_pride WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.evaluation_metric AS
SELECT * FROM public.evaluation_metric AS evaluation_metric WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.analysis AS
SELECT * FROM public.analysis AS analysis WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.question_seal AS
SELECT * FROM public.question_seal AS question_seal WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.evaluation_source AS
SELECT * FROM public.evaluation_source AS evaluation_source WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.withdrawal AS
SELECT * FROM public.withdrawal AS withdrawal WHERE evaluation_id <> ALL (ARRAY(SELECT hidden.id FROM public.evaluation AS hidden WHERE hidden.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.board AS
SELECT * FROM public.board AS board WHERE id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.board_entry AS
SELECT * FROM public.board_entry AS board_entry WHERE board_id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.board_snapshot AS
SELECT * FROM public.board_snapshot AS board_snapshot WHERE board_id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))
;
CREATE VIEW shuffleboard_members_tables.board_standing AS
SELECT * FROM public.board_standing AS board_standing WHERE board_snapshot_id <> ALL (ARRAY(SELECT snapshot.id FROM public.board_snapshot AS snapshot WHERE snapshot.board_id = ANY (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members'))))))))
;
CREATE VIEW shuffleboard_members_tables.suite AS
SELECT * FROM public.suite AS suite WHERE NOT EXISTS (SELECT 1 FROM public.board AS board WHERE board.suite_id = suite.id) OR EXISTS (SELECT 1 FROM public.board AS board WHERE board.suite_id = suite.id AND board.id <> ALL (ARRAY(SELECT entry.board_id FROM public.board_entry AS entry WHERE entry.benchmark_version_id = ANY (ARRAY(SELECT version.id FROM public.benchmark_version AS version WHERE NOT (version.visibility IN ('public', 'members')))))))
;
CREATE VIEW shuffleboard_members_tables.question_statistics AS
-- question_statistics: one row per question of an evaluation, computed from its predictions.
-- Sufficient statistics only; metrics are made of them in question_metrics. The table question_score is a copy of these
-- rows, written in the transaction that stores the predictions.
-- "own" variants show the question with exactly its own options; the CoRA family counts all that show the question.
-- original_correct, others: NULL where no original was stored. first_option: NULL where the first own variant had no
-- valid answer. accuracy_normalized is that of the original; the columns after it are those of the original, else of
-- the first own variant once all expected ones are stored: until then the first may be among those that lack.
-- probability_variants: own variants with probabilities; sums over them are NULL where there are none.
-- Dialect trap: SQLite pushes a condition on evaluation_id into the first subquery of FROM only, never into one behind
-- LEFT JOIN; hence the aggregate comes first and all else is looked up by primary key.
-- Reference: registry/metrics/. Spec: tests/spec/.
with counted as (
    select
        evaluation_question.evaluation_id,
        evaluation_question.question_id,
        evaluation_question.n_variants as expected,
        count(prediction.variant) as stored,
        min(case when prediction.question_shown and prediction.own_options then prediction.variant end) as first_own,
        min(case when prediction.unchanged then prediction.variant end) as original,
        sum(case when prediction.question_shown and prediction.own_options then 1 else 0 end) as variants,
        count(case when prediction.question_shown and prediction.own_options then prediction.chosen_option end)
            as valid,
        sum(case when prediction.question_shown and prediction.own_options and prediction.correct then 1 else 0 end)
            as correct,
        sum(case when prediction.question_shown then 1 else 0 end) as shown,
        sum(case when prediction.question_shown and prediction.correct then 1 else 0 end) as shown_correct,
        count(case when prediction.question_shown and prediction.own_options then prediction.answer_probability end)
            as probability_variants,
        sum(case when prediction.question_shown and prediction.own_options then prediction.answer_probability end)
            as answer_probability_sum,
        sum(case when prediction.question_shown and prediction.own_options then prediction.brier_score end)
            as brier_score_sum,
        sum(case when prediction.question_shown and prediction.own_options then prediction.entropy end) as entropy_sum
    from evaluation_question
    left join prediction
        on prediction.evaluation_id = evaluation_question.evaluation_id
        and prediction.question_id = evaluation_question.question_id
    group by
        evaluation_question.evaluation_id, evaluation_question.question_id, evaluation_question.n_variants
)

select
    counted.evaluation_id,
    counted.question_id,
    counted.expected,
    counted.stored,
    original.correct as original_correct,
    counted.variants,
    counted.valid,
    counted.correct,
    first_own.chosen_option as first_option,
    (
        select count(*)
        from prediction as own
        where
            own.evaluation_id = counted.evaluation_id
            and own.question_id = counted.question_id
            and own.question_shown
            and own.own_options
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
    choice.choice_sensitivity_normalized
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
;
CREATE VIEW shuffleboard_members_tables.question_metrics AS
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
;
CREATE VIEW shuffleboard_members_tables.evaluation_question_scope AS
-- evaluation_question_scope: one row per question of an evaluation and scope that it counts in.
-- Scopes: "all"; "unflagged", without questions whose options refer to each other ("without-references") or are sorted
-- numbers ("without-sorted-numbers"); "subject:…"; "category:…" (subject_category).
select
    evaluation_question.evaluation_id,
    evaluation_question.question_id,
    case kinds.kind
        when 'subject' then 'subject:' || question.subject
        when 'category' then 'category:' || subject_category.category
        else kinds.kind
    end as scope
from evaluation_question
inner join question on question.id = evaluation_question.question_id
cross join (
    select 'all' as kind
    union all
    select 'unflagged' as kind
    union all
    select 'without-references' as kind
    union all
    select 'without-sorted-numbers' as kind
    union all
    select 'subject' as kind
    union all
    select 'category' as kind
) as kinds
left join subject_category
    on kinds.kind = 'category'
    and subject_category.subject = question.subject
where
    case kinds.kind
        when 'all' then true
        when 'unflagged' then not question.refers_to_options and not question.sorted_numeric
        when 'without-references' then not question.refers_to_options
        when 'without-sorted-numbers' then not question.sorted_numeric
        when 'subject' then question.subject is not null
        else subject_category.category is not null
    end
;
CREATE VIEW shuffleboard_members_tables.scope_metrics AS
-- scope_metrics: one row per evaluation and scope.
-- Scopes: see evaluation_question_scope.
-- Each metric is the mean over its non-NULL questions, and <metric>_n their number. NULL: no such question.
-- pct_drop, consistency_index and cora combine two means over the questions that have both.
-- This view computes; sealed values are stored and served by evaluation_metrics.
with averaged as (
    select
        question_metrics.evaluation_id,
        evaluation_question_scope.scope,
        count(*) as questions,
        sum(case when question_metrics.scored then 1 else 0 end) as scored,
        avg(question_metrics.accuracy) as accuracy,
        count(question_metrics.accuracy) as accuracy_n,
        avg(question_metrics.accuracy_normalized) as accuracy_normalized,
        count(question_metrics.accuracy_normalized) as accuracy_normalized_n,
        avg(question_metrics.average_accuracy) as average_accuracy,
        count(question_metrics.average_accuracy) as average_accuracy_n,
        avg(question_metrics.worst_accuracy) as worst_accuracy,
        count(question_metrics.worst_accuracy) as worst_accuracy_n,
        avg(question_metrics.best_accuracy) as best_accuracy,
        count(question_metrics.best_accuracy) as best_accuracy_n,
        avg(question_metrics.strong_accuracy) as strong_accuracy,
        count(question_metrics.strong_accuracy) as strong_accuracy_n,
        avg(question_metrics.retest_accuracy) as retest_accuracy,
        count(question_metrics.retest_accuracy) as retest_accuracy_n,
        avg(question_metrics.sensitivity_gap) as sensitivity_gap,
        count(question_metrics.sensitivity_gap) as sensitivity_gap_n,
        avg(question_metrics.fluctuation_rate) as fluctuation_rate,
        count(question_metrics.fluctuation_rate) as fluctuation_rate_n,
        avg(question_metrics.prob_mass) as prob_mass,
        count(question_metrics.prob_mass) as prob_mass_n,
        avg(question_metrics.brier_score) as brier_score,
        count(question_metrics.brier_score) as brier_score_n,
        avg(question_metrics.entropy) as entropy,
        count(question_metrics.entropy) as entropy_n,
        avg(question_metrics.mcqa_plus) as mcqa_plus,
        count(question_metrics.mcqa_plus) as mcqa_plus_n,
        avg(question_metrics.majority_vote) as majority_vote,
        count(question_metrics.majority_vote) as majority_vote_n,
        avg(question_metrics.bmca_50) as bmca_50,
        count(question_metrics.bmca_50) as bmca_50_n,
        avg(question_metrics.bmca_60) as bmca_60,
        count(question_metrics.bmca_60) as bmca_60_n,
        avg(question_metrics.bmca_70) as bmca_70,
        count(question_metrics.bmca_70) as bmca_70_n,
        avg(question_metrics.bmca_80) as bmca_80,
        count(question_metrics.bmca_80) as bmca_80_n,
        avg(question_metrics.bmca_90) as bmca_90,
        count(question_metrics.bmca_90) as bmca_90_n,
        avg(question_metrics.bmca_100) as bmca_100,
        count(question_metrics.bmca_100) as bmca_100_n,
        avg(question_metrics.score) as score,
        count(question_metrics.score) as score_n,
        avg(question_metrics.npsq_correct) as npsq_correct,
        count(question_metrics.npsq_correct) as npsq_correct_n,
        avg(question_metrics.npsq_accuracy) as npsq_accuracy,
        count(question_metrics.npsq_accuracy) as npsq_accuracy_n,
        avg(question_metrics.choice_only_accuracy) as choice_only_accuracy,
        count(question_metrics.choice_only_accuracy) as choice_only_accuracy_n,
        avg(question_metrics.choice_sensitivity) as choice_sensitivity,
        count(question_metrics.choice_sensitivity) as choice_sensitivity_n,
        avg(question_metrics.choice_sensitivity_normalized) as choice_sensitivity_normalized,
        count(question_metrics.choice_sensitivity_normalized) as choice_sensitivity_normalized_n,
        avg(question_metrics.pride_accuracy) as pride_accuracy,
        count(question_metrics.pride_accuracy) as pride_accuracy_n,
        avg(case when question_metrics.accuracy is not null and question_metrics.retest_accuracy is not null then question_metrics.accuracy end) as retest_original,
        avg(case when question_metrics.accuracy is not null and question_metrics.retest_accuracy is not null then question_metrics.retest_accuracy end) as retest_both,
        count(case when question_metrics.accuracy is not null and question_metrics.retest_accuracy is not null then question_metrics.retest_accuracy end) as pct_drop_n,
        avg(case when question_metrics.accuracy is not null and question_metrics.bmca_100 is not null then question_metrics.accuracy end) as mcqa,
        avg(case when question_metrics.accuracy is not null and question_metrics.bmca_100 is not null then question_metrics.bmca_100 end) as consistent,
        count(case when question_metrics.accuracy is not null and question_metrics.bmca_100 is not null then question_metrics.bmca_100 end) as cora_n
    from question_metrics
    inner join evaluation_question_scope
        on evaluation_question_scope.evaluation_id = question_metrics.evaluation_id
        and evaluation_question_scope.question_id = question_metrics.question_id
    group by question_metrics.evaluation_id, evaluation_question_scope.scope
)

select
    averaged.evaluation_id,
    averaged.scope,
    averaged.questions,
    averaged.scored,
    averaged.accuracy,
    averaged.accuracy_n,
    averaged.accuracy_normalized,
    averaged.accuracy_normalized_n,
    averaged.average_accuracy,
    averaged.average_accuracy_n,
    averaged.worst_accuracy,
    averaged.worst_accuracy_n,
    averaged.best_accuracy,
    averaged.best_accuracy_n,
    averaged.strong_accuracy,
    averaged.strong_accuracy_n,
    averaged.retest_accuracy,
    averaged.retest_accuracy_n,
    averaged.sensitivity_gap,
    averaged.sensitivity_gap_n,
    averaged.fluctuation_rate,
    averaged.fluctuation_rate_n,
    averaged.prob_mass,
    averaged.prob_mass_n,
    averaged.brier_score,
    averaged.brier_score_n,
    averaged.entropy,
    averaged.entropy_n,
    averaged.mcqa_plus,
    averaged.mcqa_plus_n,
    averaged.majority_vote,
    averaged.majority_vote_n,
    averaged.bmca_50,
    averaged.bmca_50_n,
    averaged.bmca_60,
    averaged.bmca_60_n,
    averaged.bmca_70,
    averaged.bmca_70_n,
    averaged.bmca_80,
    averaged.bmca_80_n,
    averaged.bmca_90,
    averaged.bmca_90_n,
    averaged.bmca_100,
    averaged.bmca_100_n,
    averaged.score,
    averaged.score_n,
    averaged.npsq_correct,
    averaged.npsq_correct_n,
    averaged.npsq_accuracy,
    averaged.npsq_accuracy_n,
    averaged.choice_only_accuracy,
    averaged.choice_only_accuracy_n,
    averaged.choice_sensitivity,
    averaged.choice_sensitivity_n,
    averaged.choice_sensitivity_normalized,
    averaged.choice_sensitivity_normalized_n,
    case
        when averaged.retest_original > 0
            then 100.0 * (averaged.retest_original - averaged.retest_both) / averaged.retest_original
    end as pct_drop,
    averaged.pct_drop_n,
    1 - (averaged.mcqa - averaged.consistent) as consistency_index,
    averaged.cora_n as consistency_index_n,
    averaged.mcqa * (1 - (averaged.mcqa - averaged.consistent)) as cora,
    averaged.cora_n,
    averaged.pride_accuracy,
    averaged.pride_accuracy_n
from averaged
;
CREATE VIEW shuffleboard_members_tables.run_accuracy AS
-- run_accuracy: one row per evaluation, scope and run. A run is one variant ordinal over all questions that have it.
-- Only complete questions count, and only variants with exactly the question's own options.
-- unchanged: every question of the run is shown as the benchmark has it. Scopes: see evaluation_question_scope.
-- Reference: registry/metrics/runs.py. Spec: tests/spec/.
select
    question_score.evaluation_id,
    evaluation_question_scope.scope,
    prediction.variant,
    count(*) as questions,
    sum(case when prediction.correct then 1 else 0 end) as correct,
    cast(sum(case when prediction.correct then 1 else 0 end) as double precision) / count(*) as accuracy,
    (sum(case when prediction.unchanged then 1 else 0 end) = count(*)) as unchanged
from question_score
inner join evaluation_question_scope
    on evaluation_question_scope.evaluation_id = question_score.evaluation_id
    and evaluation_question_scope.question_id = question_score.question_id
inner join prediction
    on prediction.evaluation_id = question_score.evaluation_id
    and prediction.question_id = question_score.question_id
where
    question_score.stored >= question_score.expected
    and prediction.question_shown
    and prediction.own_options
group by question_score.evaluation_id, evaluation_question_scope.scope, prediction.variant
;
CREATE VIEW shuffleboard_members_tables.run_metrics AS
-- run_metrics: one row per evaluation and scope: how accuracy spreads over the runs.
-- The original's run is the lowest ordinal that is unchanged on all of its questions; without one, the columns that
-- compare with it are NULL. Variance and range are NULL for a single run: untested is not stable.
-- accuracy_variance: population variance, squared percentage points. n: runs. Reference: registry/metrics/runs.py.
with runs as (
    select
        run_accuracy.evaluation_id,
        run_accuracy.scope,
        run_accuracy.variant,
        run_accuracy.accuracy,
        run_accuracy.questions,
        min(case when run_accuracy.unchanged then run_accuracy.variant end)
            over (partition by run_accuracy.evaluation_id, run_accuracy.scope) as original,
        avg(run_accuracy.accuracy) over (partition by run_accuracy.evaluation_id, run_accuracy.scope) as mean_all
    from run_accuracy
),

ranked as (
    select
        runs.*,
        (runs.variant <> runs.original) as moved,
        row_number() over (
            partition by runs.evaluation_id, runs.scope, (runs.variant <> runs.original) order by runs.accuracy
        ) as place,
        count(*) over (partition by runs.evaluation_id, runs.scope, (runs.variant <> runs.original)) as places
    from runs
),

spread as (
    select
        ranked.evaluation_id,
        ranked.scope,
        count(*) as runs,
        avg(ranked.accuracy) as mean_all,
        avg(case when ranked.moved then ranked.accuracy end) as mean_moved,
        avg(
            case
                when ranked.moved and ranked.place * 2 between ranked.places and ranked.places + 2
                    then ranked.accuracy
            end
        ) as median_moved,
        max(case when not ranked.moved then ranked.accuracy end) as original,
        10000.0 * avg((ranked.accuracy - ranked.mean_all) * (ranked.accuracy - ranked.mean_all)) as variance,
        min(ranked.accuracy) as lowest,
        max(ranked.accuracy) as highest
    from ranked
    group by ranked.evaluation_id, ranked.scope
)

select
    spread.evaluation_id,
    spread.scope,
    spread.runs,
    spread.mean_all as accuracy_mean_all,
    spread.mean_moved as accuracy_mean_moved,
    spread.median_moved as accuracy_median_moved,
    abs(spread.original - spread.mean_moved) as accuracy_abs_diff,
    case when spread.runs > 1 then spread.variance end as accuracy_variance,
    spread.lowest as accuracy_min,
    spread.highest as accuracy_max,
    case when spread.runs > 1 then spread.highest - spread.lowest end as accuracy_range
from spread
;
CREATE VIEW shuffleboard_members_tables.evaluation_progress AS
-- evaluation_progress: one row per evaluation: prompts and shards done, counts of each shard state, tokens and seconds.
-- rates: prompts_done / elapsed_s is the rate of one worker; NULL elapsed_s: nothing has been scored yet.
select
    evaluation.id as evaluation_id,
    evaluation.state,
    evaluation.questions,
    evaluation.prompts,
    coalesce(sum(case when shard.state = 'done' then shard.prompts end), 0) as prompts_done,
    count(shard.id) as shards,
    sum(case when shard.state = 'done' then 1 else 0 end) as shards_done,
    sum(case when shard.state = 'queued' then 1 else 0 end) as shards_queued,
    sum(case when shard.state = 'leased' then 1 else 0 end) as shards_leased,
    sum(case when shard.state = 'failed' then 1 else 0 end) as shards_failed,
    sum(shard.failures) as failures,
    sum(shard.crashes) as crashes,
    sum(shard.tokens_naive) as tokens_naive,
    sum(shard.tokens_computed) as tokens_computed,
    sum(shard.elapsed_s) as elapsed_s,
    min(shard.claimed_at) as first_claimed_at,
    max(shard.finished_at) as last_finished_at,
    count(distinct shard.engine_fingerprint_id) as engine_fingerprints
from evaluation
left join shard on shard.evaluation_id = evaluation.id
group by evaluation.id, evaluation.state, evaluation.questions, evaluation.prompts
;
CREATE VIEW shuffleboard_members_tables.evaluation_metrics AS
-- evaluation_metrics: one row per sealed evaluation, scope and metric, in the newest definition of the metric.
-- value NULL: undefined; n: over how many questions it is a mean; interval NULL: none is stated.
-- interval_method: "bias-corrected percentile bootstrap over questions" with so many resamples and that seed; "none"
-- where it would not cover; NULL where none was looked for.
select
    evaluation_metric.evaluation_id,
    evaluation_metric.scope,
    evaluation_metric.metric,
    evaluation_metric.definition_version,
    evaluation_metric.value,
    evaluation_metric.n,
    evaluation_metric.interval_low,
    evaluation_metric.interval_high,
    evaluation_metric.computed_at,
    evaluation_metric.interval_method,
    evaluation_metric.interval_resamples,
    evaluation_metric.interval_seed
from evaluation_metric
where not exists (
    select 1
    from evaluation_metric as newer
    where
        newer.evaluation_id = evaluation_metric.evaluation_id
        and newer.scope = evaluation_metric.scope
        and newer.metric = evaluation_metric.metric
        and newer.definition_version > evaluation_metric.definition_version
)
;
CREATE VIEW shuffleboard_members_tables.withdrawals AS
-- withdrawals: one row each time that a sealed evaluation was withdrawn, or superseded by another.
-- superseded_by: the other's seal; NULL where it was withdrawn. superseding_evaluation_id is also NULL where this registry
-- does not hold the other. current: the newest row of its evaluation, which holds.
select
    withdrawal.id as withdrawal,
    withdrawal.evaluation_id,
    withdrawal.kind,
    withdrawal.reason,
    withdrawal.actor,
    withdrawal.at,
    withdrawal.superseded_by,
    superseding.id as superseding_evaluation_id,
    (withdrawal.id = (
        select max(newest.id) from withdrawal as newest where newest.evaluation_id = withdrawal.evaluation_id
    )) as current
from withdrawal
left join evaluation as superseding on superseding.seal = withdrawal.superseded_by
;
CREATE VIEW shuffleboard_members_tables.evaluation_sources AS
-- evaluation_sources: one row per sealed evaluation and other sealed evaluation that results of it were copied from.
-- source_seal names the source in every registry; source_evaluation_id is NULL where this one does not hold it.
-- withdrawn: the source no longer counts, so the copies are open to the same doubt.
select
    evaluation_source.evaluation_id,
    evaluation_source.seal as source_seal,
    source.id as source_evaluation_id,
    evaluation_source.predictions,
    exists (select 1 from withdrawal where withdrawal.evaluation_id = source.id) as withdrawn
from evaluation_source
left join evaluation as source on source.seal = evaluation_source.seal
;
CREATE VIEW shuffleboard_members_tables.leaderboard AS
-- leaderboard: one row per evaluation specification, with the metrics of its whole benchmark (scope "all").
-- Of several replicates the newest sealed one stands for the specification; the newest, where none is sealed. Withdrawn
-- and superseded evaluations are left out: see the view withdrawals.
-- mixed_engines: its shards were scored by different code, packages, devices or settings. copies_withdrawn: some of its
-- results were copied from an evaluation that was withdrawn since.
-- Metrics are NULL until the evaluation is sealed: incomplete is never ranked. scored/questions says how far it is.
with metrics as (
    select
        evaluation_metrics.evaluation_id,
        max(case when evaluation_metrics.metric = 'accuracy' then evaluation_metrics.value end) as accuracy,
        max(case when evaluation_metrics.metric = 'accuracy_normalized' then evaluation_metrics.value end) as accuracy_normalized,
        max(case when evaluation_metrics.metric = 'average_accuracy' then evaluation_metrics.value end) as average_accuracy,
        max(case when evaluation_metrics.metric = 'worst_accuracy' then evaluation_metrics.value end) as worst_accuracy,
        max(case when evaluation_metrics.metric = 'best_accuracy' then evaluation_metrics.value end) as best_accuracy,
        max(case when evaluation_metrics.metric = 'strong_accuracy' then evaluation_metrics.value end) as strong_accuracy,
        max(case when evaluation_metrics.metric = 'retest_accuracy' then evaluation_metrics.value end) as retest_accuracy,
        max(case when evaluation_metrics.metric = 'pct_drop' then evaluation_metrics.value end) as pct_drop,
        max(case when evaluation_metrics.metric = 'sensitivity_gap' then evaluation_metrics.value end) as sensitivity_gap,
        max(case when evaluation_metrics.metric = 'fluctuation_rate' then evaluation_metrics.value end) as fluctuation_rate,
        max(case when evaluation_metrics.metric = 'prob_mass' then evaluation_metrics.value end) as prob_mass,
        max(case when evaluation_metrics.metric = 'brier_score' then evaluation_metrics.value end) as brier_score,
        max(case when evaluation_metrics.metric = 'entropy' then evaluation_metrics.value end) as entropy,
        max(case when evaluation_metrics.metric = 'mcqa_plus' then evaluation_metrics.value end) as mcqa_plus,
        max(case when evaluation_metrics.metric = 'majority_vote' then evaluation_metrics.value end) as majority_vote,
        max(case when evaluation_metrics.metric = 'bmca_50' then evaluation_metrics.value end) as bmca_50,
        max(case when evaluation_metrics.metric = 'bmca_60' then evaluation_metrics.value end) as bmca_60,
        max(case when evaluation_metrics.metric = 'bmca_70' then evaluation_metrics.value end) as bmca_70,
        max(case when evaluation_metrics.metric = 'bmca_80' then evaluation_metrics.value end) as bmca_80,
        max(case when evaluation_metrics.metric = 'bmca_90' then evaluation_metrics.value end) as bmca_90,
        max(case when evaluation_metrics.metric = 'bmca_100' then evaluation_metrics.value end) as bmca_100,
        max(case when evaluation_metrics.metric = 'consistency_index' then evaluation_metrics.value end) as consistency_index,
        max(case when evaluation_metrics.metric = 'cora' then evaluation_metrics.value end) as cora,
        max(case when evaluation_metrics.metric = 'score' then evaluation_metrics.value end) as score,
        max(case when evaluation_metrics.metric = 'accuracy_mean_all' then evaluation_metrics.value end) as accuracy_mean_all,
        max(case when evaluation_metrics.metric = 'accuracy_mean_moved' then evaluation_metrics.value end) as accuracy_mean_moved,
        max(case when evaluation_metrics.metric = 'accuracy_median_moved' then evaluation_metrics.value end) as accuracy_median_moved,
        max(case when evaluation_metrics.metric = 'accuracy_abs_diff' then evaluation_metrics.value end) as accuracy_abs_diff,
        max(case when evaluation_metrics.metric = 'accuracy_variance' then evaluation_metrics.value end) as accuracy_variance,
        max(case when evaluation_metrics.metric = 'accuracy_min' then evaluation_metrics.value end) as accuracy_min,
        max(case when evaluation_metrics.metric = 'accuracy_max' then evaluation_metrics.value end) as accuracy_max,
        max(case when evaluation_metrics.metric = 'accuracy_range' then evaluation_metrics.value end) as accuracy_range,
        max(case when evaluation_metrics.metric = 'npsq_correct' then evaluation_metrics.value end) as npsq_correct,
        max(case when evaluation_metrics.metric = 'npsq_accuracy' then evaluation_metrics.value end) as npsq_accuracy,
        max(case when evaluation_metrics.metric = 'choice_only_accuracy' then evaluation_metrics.value end) as choice_only_accuracy,
        max(case when evaluation_metrics.metric = 'choice_sensitivity' then evaluation_metrics.value end) as choice_sensitivity,
        max(case when evaluation_metrics.metric = 'choice_sensitivity_normalized' then evaluation_metrics.value end) as choice_sensitivity_normalized,
        max(case when evaluation_metrics.metric = 'pride_accuracy' then evaluation_metrics.value end) as pride_accuracy
    from evaluation_metrics
    where evaluation_metrics.scope = 'all'
    group by evaluation_metrics.evaluation_id
),

scored as (
    select evaluation_question.evaluation_id, count(*) as questions
    from evaluation_question
    inner join shard on shard.id = evaluation_question.shard_id
    where shard.state = 'done'
    group by evaluation_question.evaluation_id
)
select
    evaluation.id as evaluation_id,
    model.name as model,
    model_revision.number as revision,
    model.family,
    model.parameters,
    model_revision.kind,
    model_revision.dtype,
    model_revision.quantisation,
    benchmark.name as benchmark,
    benchmark_version.version as benchmark_version,
    protocol.name as protocol,
    protocol.shots,
    variant_set.name as variants,
    evaluation.replicate,
    evaluation.state,
    (evaluation.seal is not null) as complete,
    evaluation.questions,
    coalesce(scored.questions, 0) as scored,
    evaluation.sealed_at,
    metrics.accuracy,
    metrics.accuracy_normalized,
    metrics.average_accuracy,
    metrics.worst_accuracy,
    metrics.best_accuracy,
    metrics.strong_accuracy,
    metrics.retest_accuracy,
    metrics.pct_drop,
    metrics.sensitivity_gap,
    metrics.fluctuation_rate,
    metrics.prob_mass,
    metrics.brier_score,
    metrics.entropy,
    metrics.mcqa_plus,
    metrics.majority_vote,
    metrics.bmca_50,
    metrics.bmca_60,
    metrics.bmca_70,
    metrics.bmca_80,
    metrics.bmca_90,
    metrics.bmca_100,
    metrics.consistency_index,
    metrics.cora,
    metrics.score,
    metrics.accuracy_mean_all,
    metrics.accuracy_mean_moved,
    metrics.accuracy_median_moved,
    metrics.accuracy_abs_diff,
    metrics.accuracy_variance,
    metrics.accuracy_min,
    metrics.accuracy_max,
    metrics.accuracy_range,
    metrics.npsq_correct,
    metrics.npsq_accuracy,
    metrics.choice_only_accuracy,
    metrics.choice_sensitivity,
    metrics.choice_sensitivity_normalized,
    metrics.pride_accuracy,
    (
        select count(distinct shard.engine_fingerprint_id) from shard where shard.evaluation_id = evaluation.id
    ) > 1 as mixed_engines,
    exists (
        select 1
        from evaluation_sources
        where evaluation_sources.evaluation_id = evaluation.id and evaluation_sources.withdrawn
    ) as copies_withdrawn
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
left join metrics on metrics.evaluation_id = evaluation.id
left join scored on scored.evaluation_id = evaluation.id
where
    evaluation.id = (
        select replicate.id
        from evaluation as replicate
        where
            replicate.specification_digest = evaluation.specification_digest
            and replicate.state <> 'cancelled'
            and replicate.id not in (select withdrawal.evaluation_id from withdrawal)
        order by case when replicate.seal is not null then 0 else 1 end, replicate.replicate desc
        limit 1
    )
;
CREATE VIEW shuffleboard_members_tables.metrics_over_benchmarks AS
-- metrics_over_benchmarks: one row per model revision, protocol, variant set and metric, over the benchmarks that the
-- revision has a sealed evaluation of, withdrawn ones left out. Of several evaluations of a benchmark the newest counts.
-- macro: unweighted mean over benchmarks; NULL if it is undefined on any. micro: mean over all questions; NULL for
-- metrics that are not means over questions (pct_drop, consistency_index, cora and those that compare runs).
-- The macro of pct_drop comes from the macro means of accuracy and retest accuracy.
-- Compare rows only where `benchmarks` means the same benchmarks: boards fix them.
with newest as (
    select max(evaluation.id) as evaluation_id
    from evaluation
    inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
    where evaluation.seal is not null and evaluation.id not in (select withdrawal.evaluation_id from withdrawal)
    group by
        evaluation.model_revision_id,
        benchmark_version.benchmark_id,
        evaluation.protocol_id,
        evaluation.variant_set_id
),

averaged as (
    select
        evaluation.model_revision_id,
        evaluation.protocol_id,
        evaluation.variant_set_id,
        evaluation_metrics.metric,
        count(*) as benchmarks,
        case when count(*) = count(evaluation_metrics.value) then avg(evaluation_metrics.value) end as macro,
        sum(evaluation_metrics.value * evaluation_metrics.n)
        / nullif(sum(case when evaluation_metrics.value is not null then evaluation_metrics.n end), 0) as weighted,
        sum(evaluation_metrics.n) as n
    from newest
    inner join evaluation on evaluation.id = newest.evaluation_id
    inner join evaluation_metrics on evaluation_metrics.evaluation_id = newest.evaluation_id
    where evaluation_metrics.scope = 'all'
    group by
        evaluation.model_revision_id, evaluation.protocol_id, evaluation.variant_set_id, evaluation_metrics.metric
)

select
    model.name as model,
    model_revision.number as revision,
    protocol.name as protocol,
    protocol.shots,
    variant_set.name as variants,
    averaged.metric,
    averaged.benchmarks,
    case
        when averaged.metric <> 'pct_drop' then averaged.macro
        when accuracy.macro > 0 then 100.0 * (accuracy.macro - retest.macro) / accuracy.macro
    end as macro,
    case
        when
            averaged.metric in ('pct_drop', 'consistency_index', 'cora')
            or (averaged.metric like 'accuracy\_%' escape '\' and averaged.metric <> 'accuracy_normalized')
            then null
        else averaged.weighted
    end as micro,
    averaged.n
from averaged
inner join model_revision on model_revision.id = averaged.model_revision_id
inner join model on model.id = model_revision.model_id
inner join protocol on protocol.id = averaged.protocol_id
inner join variant_set on variant_set.id = averaged.variant_set_id
left join averaged as accuracy
    on accuracy.model_revision_id = averaged.model_revision_id
    and accuracy.protocol_id = averaged.protocol_id
    and accuracy.variant_set_id = averaged.variant_set_id
    and accuracy.metric = 'accuracy'
left join averaged as retest
    on retest.model_revision_id = averaged.model_revision_id
    and retest.protocol_id = averaged.protocol_id
    and retest.variant_set_id = averaged.variant_set_id
    and retest.metric = 'retest_accuracy'
;
CREATE VIEW shuffleboard_members_tables.prediction_detail AS
-- prediction_detail: one row per stored prompt, with the names that make it readable.
-- chosen_option_text is NULL where there is no valid answer or an inserted option was chosen.
select
    prediction.evaluation_id,
    prediction.question_id,
    question.external_id,
    question.subject,
    prediction.variant,
    variant.name as variant_name,
    prediction.shown,
    prediction.question_shown,
    prediction.own_options,
    prediction.unchanged,
    question.answer,
    prediction.chosen_position,
    prediction.chosen_option,
    question_option.text as chosen_option_text,
    prediction.correct,
    prediction.tied,
    prediction.extraction_rule,
    prediction.label_logprobs,
    prediction.label_probabilities,
    prediction.label_mass,
    prediction.answer_probability,
    prediction.brier_score,
    prediction.entropy,
    prediction.prompt_digest,
    prediction.logprobs_without_question,
    prediction.accuracy_normalized,
    prediction.npsq_correct,
    prediction.npsq_accuracy,
    prediction.choice_only_accuracy,
    prediction.choice_sensitivity,
    prediction.choice_sensitivity_normalized,
    generation.text as generation,
    generation.extracted,
    generation.tokens as generation_tokens,
    generation.finished as generation_finished
from prediction
inner join evaluation on evaluation.id = prediction.evaluation_id
inner join question on question.id = prediction.question_id
left join generation
    on generation.evaluation_id = prediction.evaluation_id
    and generation.question_id = prediction.question_id
    and generation.variant = prediction.variant
left join variant
    on variant.variant_set_id = evaluation.variant_set_id
    and variant.n_options = question.n_options
    and variant.ordinal = prediction.variant
left join question_option
    on question_option.question_id = prediction.question_id
    and question_option.ordinal = prediction.chosen_option
;
CREATE VIEW shuffleboard_members_tables.option_probability AS
-- option_probability: one row per stored prompt and position shown.
-- option: the benchmark's ordinal of what stood there (inserted options are negative).
-- probability is NULL where none was recorded; it is renormalised over the labels shown.
select
    prediction.evaluation_id,
    prediction.question_id,
    prediction.variant,
    (place.ordinality - 1)::integer as position,
    place.option::integer as option,
    prediction.label_logprobs[place.ordinality] as logprob_nats,
    prediction.label_probabilities[place.ordinality] as probability,
    prediction.logprobs_without_question[place.ordinality] as logprob_without_question_nats
from prediction
cross join lateral unnest(prediction.shown) with ordinality as place (option, ordinality)
;
CREATE VIEW shuffleboard_members_tables.adversarial_effects AS
-- adversarial_effects: one row per evaluation under `adversarial` variants and inserted distractor.
-- Over the questions whose original and altered prompts are both stored; what asks for log-probabilities counts those
-- where both are defined, and is NULL where there are none. flipped, npsq_flipped: share whose choice, by the protocol's
-- reading or by NPSQ, is the inserted option. Variant k shows the k-th inserted option; variant 0 is the original.
-- Dialect trap: PostgreSQL sorts NULL first under DESC; questions without an NPSQ of every option do not come so far.
-- Reference: registry/metrics/adversarial.py.
select
    altered.evaluation_id,
    altered.variant,
    variant.name as distractor,
    count(*) as questions,
    avg(cast(case when altered.chosen_option < 0 then 1.0 else 0.0 end as double precision)) as flipped,
    avg(cast(case when original.correct then 1.0 else 0.0 end as double precision)) as accuracy_original,
    avg(cast(case when altered.correct then 1.0 else 0.0 end as double precision)) as accuracy,
    cast(
        sum(case when altered.correct then 1 else 0 end) - sum(case when original.correct then 1 else 0 end)
        as double precision
    ) / count(*) as accuracy_change,
    avg(cast(case
        when altered.accuracy_normalized is null then null
        when original.accuracy_normalized then 1.0
        when not original.accuracy_normalized then 0.0
    end as double precision)) as accuracy_normalized_original,
    avg(cast(case
        when original.accuracy_normalized is null then null
        when altered.accuracy_normalized then 1.0
        when not altered.accuracy_normalized then 0.0
    end as double precision)) as accuracy_normalized,
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
group by altered.evaluation_id, altered.variant, variant.name
;
CREATE VIEW shuffleboard_members_tables.prediction_drift AS
-- prediction_drift: one row per prompt and pair of sealed evaluations that put it to the same model, in both orders of the
-- pair: replicates, or revisions of the model such as two precisions, on one benchmark version, protocol and variant set.
-- Name both evaluations in a condition: without one, every pair of the registry is compared.
-- flipped: the answers differ; no valid answer equals no valid answer here. Probabilities are NULL where there are none.
select
    prediction.evaluation_id,
    other.evaluation_id as other_evaluation_id,
    prediction.question_id,
    question.external_id,
    prediction.variant,
    prediction.chosen_option,
    other.chosen_option as other_chosen_option,
    (prediction.chosen_option is distinct from other.chosen_option) as flipped,
    prediction.correct,
    other.correct as other_correct,
    prediction.answer_probability,
    other.answer_probability as other_answer_probability,
    other.answer_probability - prediction.answer_probability as answer_probability_change
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model_revision as other_revision on other_revision.model_id = model_revision.model_id
inner join evaluation as other_evaluation
    on other_evaluation.model_revision_id = other_revision.id
    and other_evaluation.benchmark_version_id = evaluation.benchmark_version_id
    and other_evaluation.protocol_id = evaluation.protocol_id
    and other_evaluation.variant_set_id = evaluation.variant_set_id
    and other_evaluation.id <> evaluation.id
inner join prediction on prediction.evaluation_id = evaluation.id
inner join prediction as other
    on other.evaluation_id = other_evaluation.id
    and other.question_id = prediction.question_id
    and other.variant = prediction.variant
    and other.shown = prediction.shown
inner join question on question.id = prediction.question_id
where evaluation.seal is not null and other_evaluation.seal is not null
;
CREATE VIEW shuffleboard_members_tables.evaluation_provenance AS
-- evaluation_provenance: one row per shard of an evaluation: who scored it, when, on what, with which attempts.
-- NULL worker, times and fingerprint: not scored yet.
select
    shard.evaluation_id,
    shard.ordinal as shard,
    shard.state,
    shard.prompts,
    shard.failures,
    shard.crashes,
    shard.fence as claims,
    shard.error,
    worker.host,
    worker.device,
    shard.claimed_at,
    shard.finished_at,
    shard.elapsed_s,
    shard.tokens_naive,
    shard.tokens_computed,
    engine_fingerprint.digest as engine_fingerprint_digest,
    engine_fingerprint.document as engine_fingerprint,
    shard.matching_s
from shard
left join worker on worker.id = shard.worker_id
left join engine_fingerprint on engine_fingerprint.id = shard.engine_fingerprint_id
;
CREATE VIEW shuffleboard_members_tables.chain_links AS
-- chain_links: one row per seal, withdrawal or snapshot of a board, in the order in which this registry made them.
-- subject: the digest of what the link is about; labels: NULL but for seals. digest covers the row and, through previous,
-- every row before it: the last digest stands for the whole list.
select
    chain_link.position,
    chain_link.kind,
    chain_link.subject,
    chain_link.labels,
    chain_link.at,
    chain_link.previous,
    chain_link.digest
from chain_link
;
CREATE VIEW shuffleboard_members_tables.evaluation_seconds AS
-- evaluation_seconds: one row per evaluation with scored shards: what scoring it took, over all workers.
-- asking_s: seconds in which the model was asked; matching_s: in which answers were matched with options, NULL where
-- none are. prompts: those of the shards that are done.
select
    evaluation_id,
    sum(prompts) as prompts,
    sum(elapsed_s) - coalesce(sum(matching_s), 0) as asking_s,
    sum(matching_s) as matching_s,
    sum(tokens_naive) as tokens_naive,
    sum(tokens_computed) as tokens_computed
from shard
where state = 'done' and elapsed_s is not null
group by evaluation_id
;
CREATE VIEW shuffleboard_members_tables.extraction_counts AS
-- extraction_counts: one row per evaluation whose model wrote text and rule that found answers in it.
-- extraction_rule 'stated': imported texts whose answer was imported too; 'none': no answer was found.
select
    generation.evaluation_id,
    coalesce(
        prediction.extraction_rule, case when prediction.chosen_position is null then 'none' else 'stated' end
    ) as extraction_rule,
    count(*) as prompts,
    sum(case when prediction.correct then 1 else 0 end) as correct
from generation
inner join prediction
    on prediction.evaluation_id = generation.evaluation_id
    and prediction.question_id = generation.question_id
    and prediction.variant = generation.variant
group by
    generation.evaluation_id,
    coalesce(prediction.extraction_rule, case when prediction.chosen_position is null then 'none' else 'stated' end)
;
CREATE VIEW shuffleboard_members_tables.board_standings AS
-- board_standings: one row per snapshot of a board, model revision and column.
-- current: the newest snapshot of the newest version of the board. For a board as of a date, take the newest snapshot
-- with as_of at or before it. complete: every evaluation that the board asks for is sealed; only such rows are ranked.
-- value NULL: a part of it is missing or undefined. value: the unweighted mean over the board's tasks.
-- rank_low … rank_high: 95 % percentile interval of the rank; tier: models of one tier are not told apart.
select
    board.name as board,
    board.version as board_version,
    board_snapshot.id as snapshot,
    board_snapshot.as_of,
    (
        not exists (
            select 1
            from board as newer
            where newer.name = board.name and newer.version > board.version
        )
        and not exists (
            select 1
            from board_snapshot as later
            where later.board_id = board_snapshot.board_id and later.id > board_snapshot.id
        )
    ) as current,
    model.name as model,
    model_revision.number as revision,
    board_standing.column_name,
    board_standing.metric,
    variant_set.name as variants,
    protocol.name as protocol,
    protocol.shots,
    board_standing.complete,
    board_standing.value,
    board_standing.n,
    board_standing.interval_low,
    board_standing.interval_high,
    board_standing.rank,
    board_standing.rank_low,
    board_standing.rank_high,
    board_standing.tier
from board_standing
inner join board_snapshot on board_snapshot.id = board_standing.board_snapshot_id
inner join board on board.id = board_snapshot.board_id
inner join model_revision on model_revision.id = board_standing.model_revision_id
inner join model on model.id = model_revision.model_id
inner join variant_set on variant_set.id = board_standing.variant_set_id
inner join protocol on protocol.id = board_standing.protocol_id
;
CREATE VIEW shuffleboard_members_tables.board_headlines AS
-- board_headlines: one row per model revision of a board's current snapshot, with the five headline metrics side by side,
-- although they come from different variant sets. NULL: a part is missing, or the board has no such column.
-- A board with several columns of one metric (several protocols, say) shows its first by name here; board_standings has
-- all of them. tier is that of worst accuracy.
select
    board_standings.board,
    board_standings.as_of,
    board_standings.model,
    board_standings.revision,
    board_standings.complete,
    max(case when board_standings.metric = 'accuracy' and first_column.column_name is not null then board_standings.value end) as accuracy,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.value end) as worst_accuracy,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.rank end) as worst_accuracy_rank,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.rank_low end) as worst_accuracy_rank_low,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.rank_high end) as worst_accuracy_rank_high,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.tier end) as tier,
    max(case when board_standings.metric = 'cora' and first_column.column_name is not null then board_standings.value end) as cora,
    max(case when board_standings.metric = 'fluctuation_rate' and first_column.column_name is not null then board_standings.value end) as fluctuation_rate,
    max(case when board_standings.metric = 'npsq_accuracy' and first_column.column_name is not null then board_standings.value end) as npsq_accuracy
from board_standings
left join (
    select board_standing.board_snapshot_id, board_standing.metric, min(board_standing.column_name) as column_name
    from board_standing
    group by board_standing.board_snapshot_id, board_standing.metric
) as first_column
    on first_column.board_snapshot_id = board_standings.snapshot
    and first_column.column_name = board_standings.column_name
where board_standings.current
group by
    board_standings.board,
    board_standings.as_of,
    board_standings.model,
    board_standings.revision,
    board_standings.complete
;
CREATE VIEW shuffleboard_members_tables.published_results AS
-- published_results: one row per number that a paper prints, as printed. Never measured here.
-- printed keeps the digits; value is the number in the paper's unit. registry_metric and registry_value: the same in this
-- registry's name and unit, NULL where there is no such metric. Transcription: registry/studies/published/README.md.
select
    published_result.paper,
    published_result.paper_table,
    published_result.section,
    published_result.model,
    published_result.benchmark,
    published_result.protocol,
    published_result.target,
    published_result.metric,
    published_result.printed,
    published_result.value,
    published_result.unit,
    published_result.rank,
    published_result.standard_deviation,
    published_result.registry_metric,
    published_result.registry_value
from published_result
;
CREATE VIEW shuffleboard_members_tables.measured_and_published AS
-- measured_and_published: numbers of this registry, less what was withdrawn, and numbers that papers print, told apart by
-- `origin`: "measured", or "printed in …". Names of models and benchmarks are those of their origin: a paper's "MMLU" is
-- not said to be yours. Units are this registry's; evaluation_id is NULL for printed numbers.
select
    'measured' as origin,
    evaluation_metrics.evaluation_id,
    model.name as model,
    benchmark.name as benchmark,
    protocol.name as protocol,
    variant_set.name as variants,
    evaluation_metrics.metric,
    evaluation_metrics.value,
    evaluation_metrics.interval_low,
    evaluation_metrics.interval_high,
    evaluation_metrics.n
from evaluation_metrics
inner join evaluation on evaluation.id = evaluation_metrics.evaluation_id
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model on model.id = model_revision.model_id
inner join benchmark_version on benchmark_version.id = evaluation.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
inner join protocol on protocol.id = evaluation.protocol_id
inner join variant_set on variant_set.id = evaluation.variant_set_id
where
    evaluation_metrics.scope = 'all'
    and evaluation_metrics.evaluation_id not in (select withdrawal.evaluation_id from withdrawal)
union all
select
    'printed in ' || published_result.paper || ', Table ' || published_result.paper_table as origin,
    null as evaluation_id,
    published_result.model,
    published_result.benchmark,
    published_result.protocol,
    null as variants,
    published_result.registry_metric as metric,
    published_result.registry_value as value,
    null as interval_low,
    null as interval_high,
    null as n
from published_result
where published_result.registry_metric is not null
;
CREATE VIEW shuffleboard_members.question_statistics WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.question_statistics
;
CREATE VIEW shuffleboard_members.question_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.question_metrics
;
CREATE VIEW shuffleboard_members.evaluation_question_scope WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.evaluation_question_scope
;
CREATE VIEW shuffleboard_members.scope_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.scope_metrics
;
CREATE VIEW shuffleboard_members.run_accuracy WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.run_accuracy
;
CREATE VIEW shuffleboard_members.run_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.run_metrics
;
CREATE VIEW shuffleboard_members.evaluation_progress WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.evaluation_progress
;
CREATE VIEW shuffleboard_members.evaluation_metrics WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.evaluation_metrics
;
CREATE VIEW shuffleboard_members.withdrawals WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.withdrawals
;
CREATE VIEW shuffleboard_members.evaluation_sources WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.evaluation_sources
;
CREATE VIEW shuffleboard_members.leaderboard WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.leaderboard
;
CREATE VIEW shuffleboard_members.metrics_over_benchmarks WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.metrics_over_benchmarks
;
CREATE VIEW shuffleboard_members.prediction_detail WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.prediction_detail
;
CREATE VIEW shuffleboard_members.option_probability WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.option_probability
;
CREATE VIEW shuffleboard_members.adversarial_effects WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.adversarial_effects
;
CREATE VIEW shuffleboard_members.prediction_drift WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.prediction_drift
;
CREATE VIEW shuffleboard_members.evaluation_provenance WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.evaluation_provenance
;
CREATE VIEW shuffleboard_members.chain_links WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.chain_links
;
CREATE VIEW shuffleboard_members.evaluation_seconds WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.evaluation_seconds
;
CREATE VIEW shuffleboard_members.extraction_counts WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.extraction_counts
;
CREATE VIEW shuffleboard_members.board_standings WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.board_standings
;
CREATE VIEW shuffleboard_members.board_headlines WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.board_headlines
;
CREATE VIEW shuffleboard_members.published_results WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.published_results
;
CREATE VIEW shuffleboard_members.measured_and_published WITH (security_barrier) AS
SELECT * FROM shuffleboard_members_tables.measured_and_published
;
SET LOCAL search_path = public
