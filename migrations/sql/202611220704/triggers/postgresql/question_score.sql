CREATE TRIGGER sealed_question_score_insert AFTER INSERT ON question_score
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_delete AFTER DELETE ON question_score
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_update AFTER UPDATE ON question_score
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_move AFTER UPDATE ON question_score
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_truncate BEFORE TRUNCATE ON question_score
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
