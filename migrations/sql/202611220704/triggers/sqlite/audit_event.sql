CREATE TRIGGER sealed_audit_event_update BEFORE UPDATE ON audit_event
BEGIN
    SELECT RAISE(ABORT, 'audit_event is added to, never changed');
END

CREATE TRIGGER sealed_audit_event_delete BEFORE DELETE ON audit_event
BEGIN
    SELECT RAISE(ABORT, 'audit_event is added to, never changed');
END
