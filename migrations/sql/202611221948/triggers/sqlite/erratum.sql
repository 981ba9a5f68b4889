CREATE TRIGGER sealed_erratum_update BEFORE UPDATE ON erratum
BEGIN
    SELECT RAISE(ABORT, 'erratum is added to, never changed');
END

CREATE TRIGGER sealed_erratum_delete BEFORE DELETE ON erratum
BEGIN
    SELECT RAISE(ABORT, 'erratum is added to, never changed');
END
