CREATE TRIGGER sealed_analysis_update BEFORE UPDATE ON analysis
BEGIN
    SELECT RAISE(ABORT, 'analyses are added, never changed');
END

CREATE TRIGGER sealed_analysis_delete BEFORE DELETE ON analysis
BEGIN
    SELECT RAISE(ABORT, 'analyses are added, never changed');
END
