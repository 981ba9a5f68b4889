CREATE TRIGGER sealed_question_update BEFORE UPDATE ON question
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_delete BEFORE DELETE ON question
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_truncate BEFORE TRUNCATE ON question
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
