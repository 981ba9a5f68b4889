CREATE TRIGGER sealed_archive_insert BEFORE INSERT ON archive
WHEN EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL)
AND (
    NEW.state <> 'archiving'
    OR NEW.predictions <> (SELECT count(*) FROM prediction WHERE prediction.evaluation_id = NEW.evaluation_id)
    OR NEW.texts <> (SELECT count(*) FROM generation WHERE generation.evaluation_id = NEW.evaluation_id)
)
BEGIN
    SELECT RAISE(ABORT, 'archive must begin with all predictions of its evaluation');
END

CREATE TRIGGER sealed_archive_update BEFORE UPDATE ON archive
WHEN NOT (
    (NEW.evaluation_id, NEW.location, NEW.digest, NEW.size, NEW.predictions, NEW.texts, NEW.archived_at)
    IS (OLD.evaluation_id, OLD.location, OLD.digest, OLD.size, OLD.predictions, OLD.texts, OLD.archived_at)
    AND (
        (
            OLD.state = 'archiving' AND NEW.state = 'archived'
            AND NOT EXISTS (SELECT 1 FROM prediction WHERE prediction.evaluation_id = OLD.evaluation_id)
            AND NOT EXISTS (SELECT 1 FROM generation WHERE generation.evaluation_id = OLD.evaluation_id)
        )
        OR (OLD.state = 'archived' AND NEW.state = 'restoring')
    )
)
BEGIN
    SELECT RAISE(ABORT, 'archive of a sealed evaluation cannot be changed');
END

CREATE TRIGGER sealed_archive_delete BEFORE DELETE ON archive
WHEN OLD.state <> 'restoring'
OR OLD.predictions <> (SELECT count(*) FROM prediction WHERE prediction.evaluation_id = OLD.evaluation_id)
OR OLD.texts <> (SELECT count(*) FROM generation WHERE generation.evaluation_id = OLD.evaluation_id)
BEGIN
    SELECT RAISE(ABORT, 'archive of a sealed evaluation cannot be removed before all of it is restored');
END
