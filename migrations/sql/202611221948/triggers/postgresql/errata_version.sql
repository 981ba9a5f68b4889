CREATE TRIGGER sealed_errata_version_update BEFORE UPDATE ON errata_version
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_errata_version_delete BEFORE DELETE ON errata_version
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_errata_version_truncate BEFORE TRUNCATE ON errata_version
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_always()
