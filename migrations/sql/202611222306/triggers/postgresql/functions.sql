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
        is_allowed = (NEW.state = 'archiving' AND NEW.predictions = stored AND NEW.texts = written)
            OR NOT EXISTS (SELECT 1 FROM evaluation WHERE evaluation.id = NEW.evaluation_id AND evaluation.seal IS NOT NULL);
    ELSIF TG_OP = 'UPDATE' THEN
        is_allowed = (NEW.evaluation_id, NEW.location, NEW.digest, NEW.size, NEW.predictions, NEW.texts, NEW.archived_at)
            IS NOT DISTINCT FROM
            (OLD.evaluation_id, OLD.location, OLD.digest, OLD.size, OLD.predictions, OLD.texts, OLD.archived_at)
            AND (
                (OLD.state = 'archiving' AND NEW.state = 'archived' AND stored = 0 AND written = 0)
                OR (OLD.state = 'archived' AND NEW.state = 'restoring')
            );
    ELSE
        is_allowed = OLD.state = 'restoring' AND OLD.predictions = stored AND OLD.texts = written;
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
