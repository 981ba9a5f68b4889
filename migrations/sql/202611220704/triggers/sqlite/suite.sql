CREATE TRIGGER sealed_suite_update BEFORE UPDATE ON suite
BEGIN
    SELECT RAISE(ABORT, 'a suite never changes: import another version');
END

CREATE TRIGGER sealed_suite_delete BEFORE DELETE ON suite
BEGIN
    SELECT RAISE(ABORT, 'a suite never changes: import another version');
END
