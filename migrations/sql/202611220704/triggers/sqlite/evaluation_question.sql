CREATE TRIGGER sealed_evaluation_question_insert BEFORE INSERT ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_update BEFORE UPDATE ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_delete BEFORE DELETE ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_move BEFORE UPDATE OF evaluation_id ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END
