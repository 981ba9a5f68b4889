CREATE TRIGGER sealed_analysis_update BEFORE UPDATE ON analysis
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_analysis_delete BEFORE DELETE ON analysis
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_analysis_truncate BEFORE TRUNCATE ON analysis
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
