CREATE TRIGGER sealed_question_option_update BEFORE UPDATE ON question_option
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_option_delete BEFORE DELETE ON question_option
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_option_truncate BEFORE TRUNCATE ON question_option
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
