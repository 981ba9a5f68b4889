CREATE TRIGGER sealed_evaluation_metric_update BEFORE UPDATE ON evaluation_metric
FOR EACH ROW WHEN (
    OLD.interval_method IS NOT NULL
    OR (NEW.evaluation_id, NEW.scope, NEW.metric, NEW.definition_version, NEW.value, NEW.n, NEW.computed_at,
        NEW.code_version)
    IS DISTINCT FROM (OLD.evaluation_id, OLD.scope, OLD.metric, OLD.definition_version, OLD.value, OLD.n, OLD.computed_at,
        OLD.code_version)
) EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_metric_delete BEFORE DELETE ON evaluation_metric
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_metric_truncate BEFORE TRUNCATE ON evaluation_metric
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
