CREATE TRIGGER sealed_board_standing_update BEFORE UPDATE ON board_standing
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END

CREATE TRIGGER sealed_board_standing_delete BEFORE DELETE ON board_standing
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END
