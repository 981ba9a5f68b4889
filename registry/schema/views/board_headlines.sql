-- board_headlines: one row per model revision of a board's current snapshot, with the headline metrics side by side,
-- although they come from different variant sets. NULL: a part is missing, or the board has no such column.
-- A board with several columns of one metric (several protocols, say) shows its first by name here; board_standings has
-- all of them. tier is that of right in two orders.
select
    board_standings.board,
    board_standings.as_of,
    board_standings.model,
    board_standings.revision,
    board_standings.complete,
    max(case when board_standings.metric = 'right_twice_across_orders' and first_column.column_name is not null then board_standings.value end) as right_twice_across_orders,
    max(case when board_standings.metric = 'right_twice_across_orders' and first_column.column_name is not null then board_standings.rank end) as right_twice_across_orders_rank,
    max(case when board_standings.metric = 'right_twice_across_orders' and first_column.column_name is not null then board_standings.rank_low end) as right_twice_across_orders_rank_low,
    max(case when board_standings.metric = 'right_twice_across_orders' and first_column.column_name is not null then board_standings.rank_high end) as right_twice_across_orders_rank_high,
    max(case when board_standings.metric = 'right_twice_across_orders' and first_column.column_name is not null then board_standings.tier end) as tier,
    max(case when board_standings.metric = 'accuracy' and first_column.column_name is not null then board_standings.value end) as accuracy,
    max(case when board_standings.metric = 'order_loss' and first_column.column_name is not null then board_standings.value end) as order_loss,
    max(case when board_standings.metric = 'worst_accuracy' and first_column.column_name is not null then board_standings.value end) as worst_accuracy,
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
