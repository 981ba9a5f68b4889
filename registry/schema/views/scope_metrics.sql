-- scope_metrics: one row per evaluation and scope.
-- Scopes: see evaluation_question_scope.
-- Each metric is the mean over its non-NULL questions, and <metric>_n their number. NULL: no such question.
-- accuracy_normalized is also NULL if a question with an accuracy lacks it, since readers compare the two.
-- pct_drop, consistency_index and cora combine two means over the questions that have both.
-- This view computes; sealed values are stored and served by evaluation_metrics.
with averaged as (
    select
        question_metrics.evaluation_id,
        evaluation_question_scope.scope,
        count(*) as questions,
        sum(case when question_metrics.scored then 1 else 0 end) as scored,
        {{ means }}
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
    {{ metrics }}
from averaged
