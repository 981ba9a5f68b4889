-- scope_metrics: one row per evaluation and scope: "all", "unflagged" (without questions whose options refer to each
-- other or are sorted numbers), "subject:…".
-- Each metric is the mean over its non-NULL questions, and <metric>_n their number. NULL: no such question.
-- This view computes; sealed values are stored and served by evaluation_metrics.
with scoped as (
    select 'all' as scope, question_metrics.* from question_metrics
    union all
    select 'unflagged' as scope, question_metrics.* from question_metrics where not question_metrics.flagged
    union all
    select 'subject:' || question_metrics.subject as scope, question_metrics.*
    from question_metrics
    where question_metrics.subject is not null
)
select
    scoped.evaluation_id,
    scoped.scope,
    count(*) as questions,
    sum(case when scoped.scored then 1 else 0 end) as scored,
    avg(scoped.accuracy) as accuracy,
    count(scoped.accuracy) as accuracy_n,
    avg(scoped.average_accuracy) as average_accuracy,
    count(scoped.average_accuracy) as average_accuracy_n,
    avg(scoped.worst_accuracy) as worst_accuracy,
    count(scoped.worst_accuracy) as worst_accuracy_n,
    avg(scoped.fluctuation_rate) as fluctuation_rate,
    count(scoped.fluctuation_rate) as fluctuation_rate_n
from scoped
group by scoped.evaluation_id, scoped.scope
