CREATE TRIGGER sealed_notice_update BEFORE UPDATE ON notice
BEGIN
    SELECT RAISE(ABORT, 'notice is added to, never changed');
END

CREATE TRIGGER sealed_notice_delete BEFORE DELETE ON notice
BEGIN
    SELECT RAISE(ABORT, 'notice is added to, never changed');
END
