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
