-- board_standings: one row per snapshot of a board, model revision and column.
-- current: the newest snapshot of the newest version of the board. For a board as of a date, take the newest snapshot
-- with as_of at or before it. complete: every evaluation that the board asks for is sealed; only such rows are ranked.
-- value NULL: a part of it is missing or undefined. value: the unweighted mean over the board's tasks.
-- rank_low … rank_high: 95 % percentile interval of the rank; tier: models of one tier are not told apart. Both are of
-- each model for itself; all_rank_low … all_rank_high and all_tier hold for all models of the column at once.
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
    board_standing.tier,
    board_standing.all_rank_low,
    board_standing.all_rank_high,
    board_standing.all_tier
from board_standing
inner join board_snapshot on board_snapshot.id = board_standing.board_snapshot_id
inner join board on board.id = board_snapshot.board_id
inner join model_revision on model_revision.id = board_standing.model_revision_id
inner join model on model.id = model_revision.model_id
inner join variant_set on variant_set.id = board_standing.variant_set_id
inner join protocol on protocol.id = board_standing.protocol_id
