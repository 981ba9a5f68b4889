CREATE TRIGGER sealed_question_pride_update BEFORE UPDATE ON question_pride
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_pride_delete BEFORE DELETE ON question_pride
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_pride_truncate BEFORE TRUNCATE ON question_pride
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
