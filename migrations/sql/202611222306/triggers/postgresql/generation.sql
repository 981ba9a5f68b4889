CREATE TRIGGER sealed_generation_insert AFTER INSERT ON generation
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('restoring')

CREATE TRIGGER sealed_generation_delete AFTER DELETE ON generation
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('archiving')

CREATE TRIGGER sealed_generation_update AFTER UPDATE ON generation
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_generation_move AFTER UPDATE ON generation
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_generation_truncate BEFORE TRUNCATE ON generation
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
