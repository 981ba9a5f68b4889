CREATE TRIGGER sealed_archive_insert BEFORE INSERT ON archive
FOR EACH ROW EXECUTE FUNCTION refuse_archive()

CREATE TRIGGER sealed_archive_update BEFORE UPDATE ON archive
FOR EACH ROW EXECUTE FUNCTION refuse_archive()

CREATE TRIGGER sealed_archive_delete BEFORE DELETE ON archive
FOR EACH ROW EXECUTE FUNCTION refuse_archive()

CREATE TRIGGER sealed_archive_truncate BEFORE TRUNCATE ON archive
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
