CREATE TRIGGER sealed_board_snapshot_update BEFORE UPDATE ON board_snapshot
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_snapshot_delete BEFORE DELETE ON board_snapshot
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_snapshot_truncate BEFORE TRUNCATE ON board_snapshot
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
