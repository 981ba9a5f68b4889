CREATE TRIGGER sealed_evaluation_metric_update BEFORE UPDATE ON evaluation_metric
WHEN OLD.interval_method IS NOT NULL
    OR NEW.evaluation_id IS NOT OLD.evaluation_id OR NEW.scope IS NOT OLD.scope OR NEW.metric IS NOT OLD.metric
    OR NEW.definition_version IS NOT OLD.definition_version OR NEW.value IS NOT OLD.value OR NEW.n IS NOT OLD.n
    OR NEW.computed_at IS NOT OLD.computed_at OR NEW.code_version IS NOT OLD.code_version
BEGIN
    SELECT RAISE(ABORT, 'metrics are added, never changed');
END

CREATE TRIGGER sealed_evaluation_metric_delete BEFORE DELETE ON evaluation_metric
BEGIN
    SELECT RAISE(ABORT, 'metrics are added, never changed');
END
