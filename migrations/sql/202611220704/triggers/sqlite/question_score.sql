CREATE TRIGGER sealed_question_score_insert BEFORE INSERT ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_update BEFORE UPDATE ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_delete BEFORE DELETE ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_move BEFORE UPDATE OF evaluation_id ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END
