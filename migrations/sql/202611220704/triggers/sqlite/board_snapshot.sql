CREATE TRIGGER sealed_board_snapshot_update BEFORE UPDATE ON board_snapshot
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END

CREATE TRIGGER sealed_board_snapshot_delete BEFORE DELETE ON board_snapshot
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END
