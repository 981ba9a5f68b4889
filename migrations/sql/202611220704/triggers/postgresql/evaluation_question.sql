CREATE TRIGGER sealed_evaluation_question_insert AFTER INSERT ON evaluation_question
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_delete AFTER DELETE ON evaluation_question
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_update AFTER UPDATE ON evaluation_question
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_move AFTER UPDATE ON evaluation_question
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_truncate BEFORE TRUNCATE ON evaluation_question
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
