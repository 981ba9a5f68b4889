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
