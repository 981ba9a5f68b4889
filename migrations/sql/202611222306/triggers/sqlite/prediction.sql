CREATE TRIGGER sealed_prediction_insert BEFORE INSERT ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM archive WHERE archive.evaluation_id = NEW.evaluation_id AND archive.state = 'restoring'
)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_prediction_update BEFORE UPDATE ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_prediction_delete BEFORE DELETE ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM archive WHERE archive.evaluation_id = OLD.evaluation_id AND archive.state = 'archiving'
)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_prediction_move BEFORE UPDATE OF evaluation_id ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END
