CREATE TRIGGER sealed_question_seal_update BEFORE UPDATE ON question_seal
BEGIN
    SELECT RAISE(ABORT, 'question_seal is added to, never changed');
END

CREATE TRIGGER sealed_question_seal_delete BEFORE DELETE ON question_seal
BEGIN
    SELECT RAISE(ABORT, 'question_seal is added to, never changed');
END
