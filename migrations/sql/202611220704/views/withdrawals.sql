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
