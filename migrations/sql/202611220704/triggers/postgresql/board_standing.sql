CREATE TRIGGER sealed_board_standing_update BEFORE UPDATE ON board_standing
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_standing_delete BEFORE DELETE ON board_standing
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_standing_truncate BEFORE TRUNCATE ON board_standing
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
