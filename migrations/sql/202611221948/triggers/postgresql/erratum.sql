CREATE TRIGGER sealed_erratum_update BEFORE UPDATE ON erratum
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_erratum_delete BEFORE DELETE ON erratum
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_erratum_truncate BEFORE TRUNCATE ON erratum
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_always()
