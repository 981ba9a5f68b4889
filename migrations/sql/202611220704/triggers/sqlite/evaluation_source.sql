CREATE TRIGGER sealed_evaluation_source_update BEFORE UPDATE ON evaluation_source
BEGIN
    SELECT RAISE(ABORT, 'evaluation_source is added to, never changed');
END

CREATE TRIGGER sealed_evaluation_source_delete BEFORE DELETE ON evaluation_source
BEGIN
    SELECT RAISE(ABORT, 'evaluation_source is added to, never changed');
END
