CREATE TRIGGER sealed_board_entry_update BEFORE UPDATE ON board_entry
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END

CREATE TRIGGER sealed_board_entry_delete BEFORE DELETE ON board_entry
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END
