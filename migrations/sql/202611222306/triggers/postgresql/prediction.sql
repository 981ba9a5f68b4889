CREATE TRIGGER sealed_prediction_insert AFTER INSERT ON prediction
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('restoring')

CREATE TRIGGER sealed_prediction_delete AFTER DELETE ON prediction
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('archiving')

CREATE TRIGGER sealed_prediction_update AFTER UPDATE ON prediction
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_prediction_move AFTER UPDATE ON prediction
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_prediction_truncate BEFORE TRUNCATE ON prediction
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
