-- The login by which KEDA counts what waits: it reads nine columns, and nothing else. Run it as a superuser or as the
-- owner, after `shuffleboard db roles`; it may be run again. The password is set apart: \password shuffleboard_scaler

DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'shuffleboard_scaler') THEN
        CREATE ROLE shuffleboard_scaler LOGIN NOCREATEDB NOCREATEROLE CONNECTION LIMIT 4;
    END IF;
END $$;
ALTER ROLE shuffleboard_scaler SET default_transaction_read_only = on;
ALTER ROLE shuffleboard_scaler SET statement_timeout = '10s';
GRANT USAGE ON SCHEMA public TO shuffleboard_scaler;
GRANT SELECT (evaluation_id, queue, state, not_before, prompts, elapsed_s) ON public.shard TO shuffleboard_scaler;
GRANT SELECT (id, state) ON public.evaluation TO shuffleboard_scaler;
GRANT SELECT (state) ON public.model_revision TO shuffleboard_scaler;
