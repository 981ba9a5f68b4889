-- Triggers that keep what is sealed as it was, on SQLite. Statements are separated by blank lines.
-- Rows of a sealed evaluation can be neither added, changed nor removed; metrics can be added, not changed, except that
-- an interval may be stated once where none was looked for; what is derived from sealed rows, suites and boards are added
-- to only; questions and options never change, since their version is named by their digest. recursive_triggers must be
-- ON: without it, INSERT OR REPLACE removes a row past its DELETE trigger.
-- Predictions and texts of a sealed evaluation may leave their tables for a file that `archive` describes, all of them
-- while its row is `archiving`, and come back while it is `restoring`; a row changes its state only when that is whole.

CREATE TRIGGER sealed_prediction_insert BEFORE INSERT ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM archive WHERE archive.evaluation_id = NEW.evaluation_id AND archive.state = 'restoring'
)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_prediction_update BEFORE UPDATE ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_prediction_delete BEFORE DELETE ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM archive WHERE archive.evaluation_id = OLD.evaluation_id AND archive.state = 'archiving'
)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_prediction_move BEFORE UPDATE OF evaluation_id ON prediction
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'prediction of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_generation_insert BEFORE INSERT ON generation
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM archive WHERE archive.evaluation_id = NEW.evaluation_id AND archive.state = 'restoring'
)
BEGIN
    SELECT RAISE(ABORT, 'generation of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_generation_update BEFORE UPDATE ON generation
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'generation of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_generation_delete BEFORE DELETE ON generation
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
AND NOT EXISTS (
    SELECT 1 FROM archive WHERE archive.evaluation_id = OLD.evaluation_id AND archive.state = 'archiving'
)
BEGIN
    SELECT RAISE(ABORT, 'generation of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_generation_move BEFORE UPDATE OF evaluation_id ON generation
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'generation of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_insert BEFORE INSERT ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_update BEFORE UPDATE ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_delete BEFORE DELETE ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_question_score_move BEFORE UPDATE OF evaluation_id ON question_score
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'question_score of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_insert BEFORE INSERT ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_update BEFORE UPDATE ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_delete BEFORE DELETE ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_question_move BEFORE UPDATE OF evaluation_id ON evaluation_question
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'evaluation_question of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_shard_insert BEFORE INSERT ON shard
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'shard of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_shard_update BEFORE UPDATE ON shard
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'shard of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_shard_delete BEFORE DELETE ON shard
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = OLD.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'shard of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_shard_move BEFORE UPDATE OF evaluation_id ON shard
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'shard of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_update BEFORE UPDATE ON evaluation
WHEN OLD.seal IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_metric_update BEFORE UPDATE ON evaluation_metric
BEGIN
    SELECT RAISE(ABORT, 'metrics are added, never changed');
END

CREATE TRIGGER sealed_question_update BEFORE UPDATE ON question
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END

CREATE TRIGGER sealed_question_option_update BEFORE UPDATE ON question_option
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END

CREATE TRIGGER sealed_evaluation_delete BEFORE DELETE ON evaluation
WHEN OLD.seal IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_evaluation_metric_delete BEFORE DELETE ON evaluation_metric
BEGIN
    SELECT RAISE(ABORT, 'metrics are added, never changed');
END

CREATE TRIGGER sealed_question_delete BEFORE DELETE ON question
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END

CREATE TRIGGER sealed_question_option_delete BEFORE DELETE ON question_option
BEGIN
    SELECT RAISE(ABORT, 'a benchmark version never changes: import another version');
END

CREATE TRIGGER sealed_question_pride_update BEFORE UPDATE ON question_pride
BEGIN
    SELECT RAISE(ABORT, 'PriDe''s answers are added, never changed');
END

CREATE TRIGGER sealed_question_pride_delete BEFORE DELETE ON question_pride
BEGIN
    SELECT RAISE(ABORT, 'PriDe''s answers are added, never changed');
END

CREATE TRIGGER sealed_analysis_update BEFORE UPDATE ON analysis
BEGIN
    SELECT RAISE(ABORT, 'analyses are added, never changed');
END

CREATE TRIGGER sealed_analysis_delete BEFORE DELETE ON analysis
BEGIN
    SELECT RAISE(ABORT, 'analyses are added, never changed');
END

CREATE TRIGGER sealed_suite_update BEFORE UPDATE ON suite
BEGIN
    SELECT RAISE(ABORT, 'a suite never changes: import another version');
END

CREATE TRIGGER sealed_suite_delete BEFORE DELETE ON suite
BEGIN
    SELECT RAISE(ABORT, 'a suite never changes: import another version');
END

CREATE TRIGGER sealed_board_update BEFORE UPDATE ON board
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END

CREATE TRIGGER sealed_board_delete BEFORE DELETE ON board
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END

CREATE TRIGGER sealed_board_entry_update BEFORE UPDATE ON board_entry
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END

CREATE TRIGGER sealed_board_entry_delete BEFORE DELETE ON board_entry
BEGIN
    SELECT RAISE(ABORT, 'a board never changes: import another version');
END

CREATE TRIGGER sealed_board_snapshot_update BEFORE UPDATE ON board_snapshot
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END

CREATE TRIGGER sealed_board_snapshot_delete BEFORE DELETE ON board_snapshot
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END

CREATE TRIGGER sealed_board_standing_update BEFORE UPDATE ON board_standing
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END

CREATE TRIGGER sealed_board_standing_delete BEFORE DELETE ON board_standing
BEGIN
    SELECT RAISE(ABORT, 'a snapshot never changes');
END

CREATE TRIGGER sealed_audit_event_update BEFORE UPDATE ON audit_event
BEGIN
    SELECT RAISE(ABORT, 'audit_event is added to, never changed');
END

CREATE TRIGGER sealed_audit_event_delete BEFORE DELETE ON audit_event
BEGIN
    SELECT RAISE(ABORT, 'audit_event is added to, never changed');
END

CREATE TRIGGER sealed_question_seal_update BEFORE UPDATE ON question_seal
BEGIN
    SELECT RAISE(ABORT, 'question_seal is added to, never changed');
END

CREATE TRIGGER sealed_question_seal_delete BEFORE DELETE ON question_seal
BEGIN
    SELECT RAISE(ABORT, 'question_seal is added to, never changed');
END

CREATE TRIGGER sealed_evaluation_source_update BEFORE UPDATE ON evaluation_source
BEGIN
    SELECT RAISE(ABORT, 'evaluation_source is added to, never changed');
END

CREATE TRIGGER sealed_evaluation_source_delete BEFORE DELETE ON evaluation_source
BEGIN
    SELECT RAISE(ABORT, 'evaluation_source is added to, never changed');
END

CREATE TRIGGER sealed_withdrawal_update BEFORE UPDATE ON withdrawal
BEGIN
    SELECT RAISE(ABORT, 'withdrawal is added to, never changed');
END

CREATE TRIGGER sealed_withdrawal_delete BEFORE DELETE ON withdrawal
BEGIN
    SELECT RAISE(ABORT, 'withdrawal is added to, never changed');
END

CREATE TRIGGER sealed_chain_link_update BEFORE UPDATE ON chain_link
BEGIN
    SELECT RAISE(ABORT, 'chain_link is added to, never changed');
END

CREATE TRIGGER sealed_chain_link_delete BEFORE DELETE ON chain_link
BEGIN
    SELECT RAISE(ABORT, 'chain_link is added to, never changed');
END

CREATE TRIGGER sealed_archive_insert BEFORE INSERT ON archive
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
AND (
    NEW.state <> 'written'
    OR NEW.predictions <> (SELECT count(*) FROM prediction WHERE prediction.evaluation_id = NEW.evaluation_id)
    OR NEW.texts <> (SELECT count(*) FROM generation WHERE generation.evaluation_id = NEW.evaluation_id)
)
BEGIN
    SELECT RAISE(ABORT, 'archive must begin with all predictions of its evaluation');
END

CREATE TRIGGER sealed_archive_update BEFORE UPDATE ON archive
WHEN NOT (
    (NEW.evaluation_id, NEW.location, NEW.digest, NEW.size, NEW.predictions, NEW.texts, NEW.written_at)
    IS (OLD.evaluation_id, OLD.location, OLD.digest, OLD.size, OLD.predictions, OLD.texts, OLD.written_at)
    AND (
        (
            OLD.state = 'archiving' AND NEW.state = 'archived'
            AND NOT EXISTS (SELECT 1 FROM prediction WHERE prediction.evaluation_id = OLD.evaluation_id)
            AND NOT EXISTS (SELECT 1 FROM generation WHERE generation.evaluation_id = OLD.evaluation_id)
        )
        OR (OLD.state = 'written' AND NEW.state = 'archiving')
        OR (OLD.state = 'archived' AND NEW.state = 'restoring')
        OR (
            OLD.state = 'restoring' AND NEW.state = 'written'
            AND OLD.predictions = (SELECT count(*) FROM prediction WHERE prediction.evaluation_id = OLD.evaluation_id)
            AND OLD.texts = (SELECT count(*) FROM generation WHERE generation.evaluation_id = OLD.evaluation_id)
        )
    )
)
BEGIN
    SELECT RAISE(ABORT, 'archive of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_archive_delete BEFORE DELETE ON archive
WHEN OLD.state <> 'written'
BEGIN
    SELECT RAISE(ABORT, 'archive of a sealed evaluation cannot be removed before all of it is restored');
END
