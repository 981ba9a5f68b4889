CREATE TRIGGER sealed_evaluation_update BEFORE UPDATE ON evaluation
WHEN OLD.seal IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_delete BEFORE DELETE ON evaluation
WHEN OLD.seal IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a sealed evaluation cannot be changed');
END
