CREATE TRIGGER sealed_audit_event_update BEFORE UPDATE ON audit_event
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_audit_event_delete BEFORE DELETE ON audit_event
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_audit_event_truncate BEFORE TRUNCATE ON audit_event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_always()
