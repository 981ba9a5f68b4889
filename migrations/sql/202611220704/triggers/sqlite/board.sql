CREATE TRIGGER sealed_board_update BEFORE UPDATE ON board
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END

CREATE TRIGGER sealed_board_delete BEFORE DELETE ON board
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END
