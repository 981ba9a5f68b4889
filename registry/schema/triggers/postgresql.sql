-- Triggers that keep what is sealed as it was, on PostgreSQL. Statements are separated by blank lines.
-- Rows of a sealed evaluation can be neither added, changed, removed nor truncated; metrics can be added, not changed,
-- except that an interval may be stated once where none was looked for; what is derived from sealed rows, suites and
-- boards are added to only; questions and options never change, since their version is named by their digest.
-- Statement triggers with transition tables: one look at `evaluation` per statement, not one per row, so that COPY of
-- a hundred thousand predictions costs one check.
-- Predictions and texts of a sealed evaluation may leave their tables for a file that `archive` describes, all of them
-- while its row is `archiving`, and come back while it is `restoring`; a row changes its state only when that is whole.

CREATE FUNCTION refuse_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM evaluation
        WHERE evaluation.seal IS NOT NULL AND evaluation.id IN (SELECT touched.evaluation_id FROM touched)
    ) THEN
        RAISE EXCEPTION '% of a sealed evaluation cannot be changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$

CREATE FUNCTION refuse_sealed_unless() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM evaluation
        WHERE evaluation.seal IS NOT NULL AND evaluation.id IN (SELECT touched.evaluation_id FROM touched)
            AND NOT EXISTS (
                SELECT 1 FROM archive WHERE archive.evaluation_id = evaluation.id AND archive.state = TG_ARGV[0]
            )
    ) THEN
        RAISE EXCEPTION '% of a sealed evaluation cannot be changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$

CREATE FUNCTION refuse_archive() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
    written bigint;
    is_allowed boolean;
BEGIN
    SELECT count(*) INTO stored FROM prediction
    WHERE prediction.evaluation_id = CASE TG_OP WHEN 'INSERT' THEN NEW.evaluation_id ELSE OLD.evaluation_id END;
    SELECT count(*) INTO written FROM generation
    WHERE generation.evaluation_id = CASE TG_OP WHEN 'INSERT' THEN NEW.evaluation_id ELSE OLD.evaluation_id END;
    IF TG_OP = 'INSERT' THEN
        is_allowed = (NEW.state = 'written' AND NEW.predictions = stored AND NEW.texts = written)
            OR NOT EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL);
    ELSIF TG_OP = 'UPDATE' THEN
        is_allowed = (NEW.evaluation_id, NEW.location, NEW.digest, NEW.size, NEW.predictions, NEW.texts, NEW.written_at)
            IS NOT DISTINCT FROM
            (OLD.evaluation_id, OLD.location, OLD.digest, OLD.size, OLD.predictions, OLD.texts, OLD.written_at)
            AND (
                (OLD.state = 'written' AND NEW.state = 'archiving')
                OR (OLD.state = 'archiving' AND NEW.state = 'archived' AND stored = 0 AND written = 0)
                OR (OLD.state = 'archived' AND NEW.state = 'restoring')
                OR (
                    OLD.state = 'restoring' AND NEW.state = 'written'
                    AND NEW.predictions = stored AND NEW.texts = written
                )
            );
    ELSE
        is_allowed = OLD.state = 'written';
    END IF;
    IF NOT is_allowed THEN
        RAISE EXCEPTION 'archive of a sealed evaluation holds all of its predictions, and cannot be changed'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$

CREATE FUNCTION refuse_sealed_evaluation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a sealed evaluation cannot be changed' USING ERRCODE = 'restrict_violation';
END
$$

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is added to, never changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$

CREATE FUNCTION refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM evaluation WHERE evaluation.seal IS NOT NULL) THEN
        RAISE EXCEPTION '% holds sealed rows and cannot be truncated', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$

CREATE FUNCTION refuse_truncate_always() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is added to, never emptied', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$

CREATE TRIGGER sealed_prediction_insert AFTER INSERT ON prediction
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('restoring')

CREATE TRIGGER sealed_prediction_delete AFTER DELETE ON prediction
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('archiving')

CREATE TRIGGER sealed_prediction_update AFTER UPDATE ON prediction
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_prediction_move AFTER UPDATE ON prediction
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_generation_insert AFTER INSERT ON generation
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('restoring')

CREATE TRIGGER sealed_generation_delete AFTER DELETE ON generation
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed_unless('archiving')

CREATE TRIGGER sealed_generation_update AFTER UPDATE ON generation
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_generation_move AFTER UPDATE ON generation
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_insert AFTER INSERT ON question_score
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_delete AFTER DELETE ON question_score
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_update AFTER UPDATE ON question_score
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_question_score_move AFTER UPDATE ON question_score
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_insert AFTER INSERT ON evaluation_question
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_delete AFTER DELETE ON evaluation_question
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_update AFTER UPDATE ON evaluation_question
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_question_move AFTER UPDATE ON evaluation_question
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_shard_insert AFTER INSERT ON shard
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_shard_delete AFTER DELETE ON shard
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_shard_update AFTER UPDATE ON shard
REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_shard_move AFTER UPDATE ON shard
REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()

CREATE TRIGGER sealed_evaluation_update BEFORE UPDATE ON evaluation
FOR EACH ROW WHEN (OLD.seal IS NOT NULL) EXECUTE FUNCTION refuse_sealed_evaluation()

CREATE TRIGGER sealed_evaluation_metric_update BEFORE UPDATE ON evaluation_metric
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_update BEFORE UPDATE ON question
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_option_update BEFORE UPDATE ON question_option
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_delete BEFORE DELETE ON evaluation
FOR EACH ROW WHEN (OLD.seal IS NOT NULL) EXECUTE FUNCTION refuse_sealed_evaluation()

CREATE TRIGGER sealed_evaluation_metric_delete BEFORE DELETE ON evaluation_metric
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_delete BEFORE DELETE ON question
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_option_delete BEFORE DELETE ON question_option
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_prediction_truncate BEFORE TRUNCATE ON prediction
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_generation_truncate BEFORE TRUNCATE ON generation
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_question_score_truncate BEFORE TRUNCATE ON question_score
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_evaluation_question_truncate BEFORE TRUNCATE ON evaluation_question
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_shard_truncate BEFORE TRUNCATE ON shard
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_evaluation_truncate BEFORE TRUNCATE ON evaluation
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_evaluation_metric_truncate BEFORE TRUNCATE ON evaluation_metric
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_question_truncate BEFORE TRUNCATE ON question
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_question_option_truncate BEFORE TRUNCATE ON question_option
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_question_pride_update BEFORE UPDATE ON question_pride
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_pride_delete BEFORE DELETE ON question_pride
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_pride_truncate BEFORE TRUNCATE ON question_pride
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_analysis_update BEFORE UPDATE ON analysis
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_analysis_delete BEFORE DELETE ON analysis
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_analysis_truncate BEFORE TRUNCATE ON analysis
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_suite_update BEFORE UPDATE ON suite
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_suite_delete BEFORE DELETE ON suite
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_suite_truncate BEFORE TRUNCATE ON suite
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_board_update BEFORE UPDATE ON board
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_delete BEFORE DELETE ON board
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_truncate BEFORE TRUNCATE ON board
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_board_entry_update BEFORE UPDATE ON board_entry
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_entry_delete BEFORE DELETE ON board_entry
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_entry_truncate BEFORE TRUNCATE ON board_entry
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_board_snapshot_update BEFORE UPDATE ON board_snapshot
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_snapshot_delete BEFORE DELETE ON board_snapshot
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_snapshot_truncate BEFORE TRUNCATE ON board_snapshot
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_board_standing_update BEFORE UPDATE ON board_standing
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_standing_delete BEFORE DELETE ON board_standing
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_board_standing_truncate BEFORE TRUNCATE ON board_standing
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_audit_event_update BEFORE UPDATE ON audit_event
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_audit_event_delete BEFORE DELETE ON audit_event
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_audit_event_truncate BEFORE TRUNCATE ON audit_event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_always()

CREATE TRIGGER sealed_question_seal_update BEFORE UPDATE ON question_seal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_seal_delete BEFORE DELETE ON question_seal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_question_seal_truncate BEFORE TRUNCATE ON question_seal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_evaluation_source_update BEFORE UPDATE ON evaluation_source
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_source_delete BEFORE DELETE ON evaluation_source
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_evaluation_source_truncate BEFORE TRUNCATE ON evaluation_source
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_withdrawal_update BEFORE UPDATE ON withdrawal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_withdrawal_delete BEFORE DELETE ON withdrawal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_withdrawal_truncate BEFORE TRUNCATE ON withdrawal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()

CREATE TRIGGER sealed_chain_link_update BEFORE UPDATE ON chain_link
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_chain_link_delete BEFORE DELETE ON chain_link
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_chain_link_truncate BEFORE TRUNCATE ON chain_link
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_always()

CREATE TRIGGER sealed_archive_insert BEFORE INSERT ON archive
FOR EACH ROW EXECUTE FUNCTION refuse_archive()

CREATE TRIGGER sealed_archive_update BEFORE UPDATE ON archive
FOR EACH ROW EXECUTE FUNCTION refuse_archive()

CREATE TRIGGER sealed_archive_delete BEFORE DELETE ON archive
FOR EACH ROW EXECUTE FUNCTION refuse_archive()

CREATE TRIGGER sealed_archive_truncate BEFORE TRUNCATE ON archive
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
