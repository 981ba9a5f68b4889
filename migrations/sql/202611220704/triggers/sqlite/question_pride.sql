CREATE TRIGGER sealed_question_pride_update BEFORE UPDATE ON question_pride
BEGIN
    SELECT RAISE(ABORT, 'PriDe''s answers are added, never changed');
END

CREATE TRIGGER sealed_question_pride_delete BEFORE DELETE ON question_pride
BEGIN
    SELECT RAISE(ABORT, 'PriDe''s answers are added, never changed');
END
