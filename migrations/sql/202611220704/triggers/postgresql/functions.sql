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
