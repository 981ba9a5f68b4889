CREATE TRIGGER sealed_evaluation_update BEFORE UPDATE ON evaluation
FOR EACH ROW WHEN (OLD.seal IS NOT NULL) EXECUTE FUNCTION refuse_sealed_evaluation()

CREATE TRIGGER sealed_evaluation_delete BEFORE DELETE ON evaluation
FOR EACH ROW WHEN (OLD.seal IS NOT NULL) EXECUTE FUNCTION refuse_sealed_evaluation()

CREATE TRIGGER sealed_evaluation_truncate BEFORE TRUNCATE ON evaluation
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
