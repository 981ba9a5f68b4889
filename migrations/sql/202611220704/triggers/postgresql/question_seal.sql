CREATE TRIGGER sealed_question_seal_update BEFORE UPDATE ON question_seal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_seal_delete BEFORE DELETE ON question_seal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_seal_truncate BEFORE TRUNCATE ON question_seal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
