CREATE TRIGGER sealed_question_option_update BEFORE UPDATE ON question_option
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END

CREATE TRIGGER sealed_question_option_delete BEFORE DELETE ON question_option
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END
