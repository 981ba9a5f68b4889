CREATE TRIGGER sealed_board_entry_update BEFORE UPDATE ON board_entry
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_entry_delete BEFORE DELETE ON board_entry
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_entry_truncate BEFORE TRUNCATE ON board_entry
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
