CREATE TRIGGER sealed_question_update BEFORE UPDATE ON question
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END

CREATE TRIGGER sealed_question_delete BEFORE DELETE ON question
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END
