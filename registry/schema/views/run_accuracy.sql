-- run_accuracy: one row per evaluation, scope and run. A run is one variant ordinal over all questions that have it.
-- Only complete questions count that were asked in at least two distinct prompts (repeats of one are not orders), and
-- only variants with exactly the question's own options; of a repeated prompt the first answer.
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
inner join evaluation on evaluation.id = question_score.evaluation_id
inner join evaluation_question_scope
    on evaluation_question_scope.evaluation_id = question_score.evaluation_id
    and evaluation_question_scope.question_id = question_score.question_id
inner join prediction
    on prediction.evaluation_id = question_score.evaluation_id
    and prediction.question_id = question_score.question_id
where
    question_score.stored >= question_score.expected
    and question_score.distinct_prompts > 1
    and prediction.question_shown
    and prediction.own_options
    and prediction.variant % coalesce(evaluation.repeats, 1) = 0
group by question_score.evaluation_id, evaluation_question_scope.scope, prediction.variant
