CREATE TRIGGER sealed_evaluation_source_update BEFORE UPDATE ON evaluation_source
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_source_delete BEFORE DELETE ON evaluation_source
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_source_truncate BEFORE TRUNCATE ON evaluation_source
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
