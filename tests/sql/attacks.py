"""Attacks by anonymous visitors. Each is refused by the guard on both engines, whatever engine it is meant for.

engines: where it is also asked past the guard, and must then be refused, or ended, by what stands behind it. Empty: the
engine would answer it, or burn a processor that nothing can stop, and the guard alone is what refuses it.
"""

from dataclasses import dataclass

BOTH = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Attack:
    sql: str
    engines: tuple[str, ...] = BOTH


ATTACKS = {
    # Writing
    "delete": Attack("DELETE FROM prediction"),
    "delete from a view": Attack("DELETE FROM leaderboard", ("sqlite",)),
    "insert": Attack("INSERT INTO model (name) VALUES ('mine')", ("sqlite",)),
    "update": Attack("UPDATE evaluation SET seal = NULL", ("sqlite",)),
    "drop": Attack("DROP VIEW leaderboard", ("sqlite",)),
    "create": Attack("CREATE TABLE mine (a integer)", ("sqlite",)),
    "temporary table": Attack("CREATE TEMP TABLE leaderboard (model text)"),
    "temporary view": Attack("CREATE TEMP VIEW mine AS SELECT 1", ("sqlite",)),
    "create as": Attack("CREATE TABLE mine AS SELECT * FROM leaderboard", ("sqlite",)),
    "deleting with": Attack("WITH gone AS (DELETE FROM prediction RETURNING 1) SELECT * FROM gone"),
    "deleting behind with": Attack("WITH x AS (SELECT 1) DELETE FROM prediction", ("sqlite",)),
    "into": Attack("SELECT * INTO mine FROM leaderboard", ("postgresql",)),
    "truncate": Attack("TRUNCATE prediction", ("postgresql",)),
    "alter": Attack("ALTER TABLE prediction DISABLE TRIGGER ALL", ("postgresql",)),
    "copy out": Attack("COPY (SELECT 1) TO '/tmp/shuffleboard'", ("postgresql",)),
    "copy program": Attack("COPY leaderboard FROM PROGRAM 'id'", ("postgresql",)),
    "sequence": Attack("SELECT nextval('public.model_id_seq')", ("postgresql",)),
    "set sequence": Attack("SELECT setval('public.model_id_seq', 1)", ("postgresql",)),
    "large object": Attack("SELECT lo_create(4711)", ("postgresql",)),
    "large object of bytes": Attack("SELECT lo_from_bytea(0, 'x')", ("postgresql",)),
    "write-ahead log": Attack("SELECT pg_logical_emit_message(false, 'a', 'b')", ("postgresql",)),
    "call": Attack("CALL mine()", ("postgresql",)),
    "do": Attack("DO $$ BEGIN PERFORM 1; END $$", ("postgresql",)),
    "vacuum into": Attack("VACUUM INTO '/tmp/shuffleboard.db'", ("sqlite",)),
    # More than one statement, and statements that are none
    "stacked": Attack("SELECT 1; DELETE FROM prediction"),
    "stacked behind a comment": Attack("SELECT 1 /* ; */ ; -- \nDROP VIEW leaderboard", ("sqlite",)),
    "set": Attack("SET statement_timeout = 0", ("postgresql",)),
    "set role": Attack("SET ROLE postgres", ("postgresql",)),
    "reset": Attack("RESET ALL", ("postgresql",)),
    "begin": Attack("BEGIN", ("sqlite",)),
    "commit": Attack("COMMIT; SELECT 1"),
    "attach": Attack("ATTACH DATABASE '/tmp/other.db' AS other", ("sqlite",)),
    "detach": Attack("DETACH DATABASE temp", ("sqlite",)),
    "pragma": Attack("PRAGMA query_only = OFF", ("sqlite",)),
    "lifting the heap": Attack("PRAGMA hard_heap_limit = 0", ("sqlite",)),
    "writable schema": Attack("PRAGMA writable_schema = ON", ("sqlite",)),
    "explain": Attack("EXPLAIN ANALYZE DELETE FROM prediction", ("sqlite",)),
    "prepare": Attack("PREPARE mine AS SELECT 1", ("postgresql",)),
    "listen": Attack("LISTEN mine", ("postgresql",)),
    "table": Attack("TABLE account", ("postgresql",)),
    # Reading what is nobody's
    "accounts": Attack("SELECT name, password_hash FROM account"),
    "counting accounts": Attack("SELECT count(*) FROM account", ("sqlite",)),
    "tokens in a subquery": Attack("SELECT (SELECT count(*) FROM api_token) FROM leaderboard", ("sqlite",)),
    "tokens in a with": Attack("WITH prediction AS (SELECT * FROM api_token) SELECT * FROM prediction"),
    "the unfiltered table": Attack("SELECT * FROM main.prediction", ("sqlite",)),
    "the unfiltered table of PostgreSQL": Attack("SELECT * FROM public.prediction", ("postgresql",)),
    "the unfiltered view": Attack("SELECT * FROM public.leaderboard", ("postgresql",)),
    "the members' view": Attack("SELECT * FROM shuffleboard_members.leaderboard", ("postgresql",)),
    "the filtered tables": Attack("SELECT * FROM shuffleboard_public_tables.prediction", ("postgresql",)),
    # SQLite's authorizer is told the name of a WITH as it is told that of a view.
    "dressed as a view": Attack(
        "WITH leaderboard AS (SELECT * FROM main.evaluation) SELECT * FROM leaderboard", ("sqlite",)
    ),
    "dressed as a table": Attack(
        "WITH prediction AS (SELECT * FROM main.prediction) SELECT * FROM prediction", ("sqlite",)
    ),
    "hidden in quotes": Attack('SELECT * FROM "public"."account"', ("sqlite",)),
    "hidden in brackets": Attack("SELECT * FROM [account]", ("sqlite",)),
    "hidden in a text": Attack("SELECT * FROM 'account'", ("sqlite",)),
    "hidden in a comment": Attack("SELECT * FROM /*! leaderboard */ account", ("sqlite",)),
    "hidden behind a nested comment": Attack(
        "SELECT 1 /* /* */ FROM leaderboard -- */ , account\n FROM account", ("sqlite",)
    ),
    "hidden by escapes": Attack('SELECT * FROM U&"\\0061ccount"', ("postgresql",)),
    "hidden in dollars": Attack("SELECT query_to_xml($a$SELECT * FROM account$a$, true, true, '')", ("postgresql",)),
    "hidden in a sort": Attack("SELECT 1 FROM leaderboard ORDER BY (SELECT count(*) FROM account)", ("sqlite",)),
    "hidden in a join": Attack("SELECT 1 FROM leaderboard JOIN account ON true", ("sqlite",)),
    "hidden in exists": Attack("SELECT 1 WHERE EXISTS (SELECT 1 FROM account)", ("sqlite",)),
    "hidden in a union": Attack("SELECT model FROM leaderboard UNION ALL SELECT name FROM account", ("sqlite",)),
    "hidden in a lateral": Attack("SELECT 1 FROM leaderboard, LATERAL (SELECT * FROM account) AS x", ("sqlite",)),
    "hidden in a window": Attack("SELECT sum((SELECT count(*) FROM account)) OVER () FROM leaderboard", ("sqlite",)),
    # The engine's own
    "sqlite_master": Attack("SELECT sql FROM sqlite_master", ("sqlite",)),
    "sqlite_temp_master": Attack("SELECT sql FROM sqlite_temp_master", ("sqlite",)),
    "names of databases": Attack("SELECT name FROM pragma_database_list", ("sqlite",)),
    "columns by a function": Attack("SELECT name FROM pragma_table_info('account')", ("sqlite",)),
    "pages": Attack("SELECT * FROM dbstat", ("sqlite",)),
    "statements": Attack("SELECT sql FROM sqlite_stmt", ("sqlite",)),
    "catalogue": Attack("SELECT relname FROM pg_catalog.pg_class", ("sqlite",)),
    "bare catalogue": Attack("SELECT relname FROM pg_class", ("sqlite",)),
    "information schema": Attack("SELECT table_name FROM information_schema.tables", ("sqlite",)),
    "passwords": Attack("SELECT rolpassword FROM pg_authid", ("postgresql",)),
    "shadow": Attack("SELECT passwd FROM pg_shadow", ("postgresql",)),
    "files": Attack("SELECT pg_read_file('/etc/passwd')", ("postgresql",)),
    "folders": Attack("SELECT pg_ls_dir('.')", ("postgresql",)),
    "imported file": Attack("SELECT lo_import('/etc/passwd')", ("postgresql",)),
    "setting": Attack("SELECT current_setting('data_directory')", ("postgresql",)),
    "current user": Attack("SELECT current_user", ("sqlite",)),
    "version": Attack("SELECT version()", ("sqlite",)),
    "class by a cast": Attack("SELECT 'public.account'::regclass", ("postgresql",)),
    "class by a typed text": Attack("SELECT regclass 'public.account'", ("postgresql",)),
    "class by a function": Attack("SELECT to_regclass('pg_class')::text", ("sqlite",)),
    "system column": Attack("SELECT ctid, xmin FROM leaderboard", ("postgresql",)),
    "rowid": Attack("SELECT rowid FROM prediction", ("postgresql",)),
    "whole row": Attack("SELECT leaderboard FROM leaderboard", ("sqlite",)),
    "function as a column": Attack("SELECT leaderboard.row_to_json FROM leaderboard", ("sqlite",)),
    "field of a row": Attack("SELECT (leaderboard).model FROM leaderboard", ("sqlite",)),
    # SQL within a text, other hosts, libraries
    "query to xml": Attack("SELECT query_to_xml('SELECT * FROM account', true, true, '')", ("postgresql",)),
    "qualified query to xml": Attack("SELECT pg_catalog.query_to_xml('SELECT 1', true, true, '')", ("postgresql",)),
    "quoted query to xml": Attack("SELECT \"query_to_xml\"('SELECT 1', true, true, '')", ("postgresql",)),
    "named as an alias": Attack(
        "SELECT query_to_xml('SELECT 1', true, true, '') FROM (SELECT 1) AS query_to_xml (a)", ("postgresql",)
    ),
    "table to xml": Attack("SELECT table_to_xml('leaderboard', true, true, '')", ("postgresql",)),
    "text search": Attack("SELECT * FROM ts_stat('SELECT 1')", ("postgresql",)),
    "dblink": Attack("SELECT * FROM dblink('host=127.0.0.1', 'SELECT 1') AS x (a integer)", ("postgresql",)),
    "extension": Attack("SELECT load_extension('/tmp/mine')", ("sqlite",)),
    "extension of PostgreSQL": Attack("CREATE EXTENSION dblink", ("postgresql",)),
    "operator": Attack("SELECT 1 OPERATOR(pg_catalog.+) 1", ("sqlite",)),
    # Settings, locks, others' sessions
    "set_config": Attack("SELECT set_config('statement_timeout', '0', false)", ("postgresql",)),
    "lock": Attack("SELECT pg_advisory_lock(1)", ("postgresql",)),
    "lock rows": Attack("SELECT * FROM leaderboard FOR UPDATE", ("postgresql",)),
    "terminate": Attack("SELECT pg_terminate_backend(1)", ("postgresql",)),
    "notify": Attack("SELECT pg_notify('a', 'b')", ("postgresql",)),
    "parameter": Attack("SELECT ?", ("postgresql",)),
    "numbered parameter": Attack("SELECT $1", ("postgresql",)),
    "named parameter": Attack("SELECT :name", ("postgresql",)),
    # Time and memory
    "sleep": Attack("SELECT pg_sleep(3600)", ("postgresql",)),
    "sleep in a filter": Attack("SELECT 1 FROM leaderboard WHERE pg_sleep(3600) IS NULL", ("postgresql",)),
    "random blob": Attack("SELECT length(randomblob(1000000000))", ("sqlite",)),
    "zero blob": Attack("SELECT zeroblob(1000000000)", ("sqlite",)),
    "wide number": Attack("SELECT printf('%1000000000d', 1)", ("sqlite",)),
    "wide text": Attack("SELECT format('%1000000000s', 1)", ("sqlite",)),
    "repeat": Attack("SELECT repeat('x', 1000000000)", ("postgresql",)),
    "padding": Attack("SELECT rpad('x', 1000000000)", ("postgresql",)),
    "padding left": Attack("SELECT lpad('x', 1000000000)", ("postgresql",)),
    "padding by a type": Attack("SELECT 'x'::char(10000000)", ("sqlite",)),
    "recursion": Attack("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"),
    "recursion without the word": Attack(
        "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", ("sqlite",)
    ),
    "series": Attack("SELECT count(*) FROM generate_series(1, 1000000000000)", ("postgresql",)),
    "sorted series": Attack(
        "SELECT i FROM generate_series(1, 100000000) AS series (i) ORDER BY i DESC", ("postgresql",)
    ),
    "collected": Attack("SELECT string_agg(model, '') FROM leaderboard", ("sqlite",)),
    "collected in a list": Attack("SELECT array_agg(model) FROM leaderboard", ("sqlite",)),
    "collected by a subquery": Attack("SELECT ARRAY(SELECT model FROM leaderboard)", ("sqlite",)),
    "row as a text": Attack("SELECT (model, model)::text FROM leaderboard", ("sqlite",)),
    "doubled": Attack(
        "WITH a AS (SELECT 'xxxxxxxx' AS x), b AS (SELECT x||x||x||x||x||x||x||x AS x FROM a), "
        "c AS (SELECT x||x||x||x||x||x||x||x AS x FROM b), d AS (SELECT x||x||x||x||x||x||x||x AS x FROM c) "
        "SELECT x FROM d",
        (),
    ),
    "replaced by more": Attack(
        "SELECT replace(replace(model, 'a', '" + "b" * 100 + "'), 'b', 'cc') FROM leaderboard", ()
    ),
    # PostgreSQL compares to the end, whatever its time-outs and whoever ends the session.
    "looked for": Attack("SELECT model LIKE model FROM leaderboard", ()),
    "position of a column": Attack("SELECT position(model IN model) FROM leaderboard", ()),
    "place of a column": Attack("SELECT strpos(model, model) FROM leaderboard", ("sqlite",)),
    "split by a column": Attack("SELECT split_part(model, model, 1) FROM leaderboard", ("sqlite",)),
    "trimmed by a column": Attack("SELECT trim(BOTH model FROM model) FROM leaderboard", ("sqlite",)),
    "trimmed on the left": Attack("SELECT ltrim(model, model) FROM leaderboard", ()),
    "replaced column": Attack("SELECT replace(model, model, 'a') FROM leaderboard", ()),
    "translated": Attack("SELECT translate(model, model, 'a') FROM leaderboard", ("sqlite",)),
    # Numerics of any length, which PostgreSQL computes to the end
    "numeric literals": Attack(
        "WITH a AS MATERIALIZED (SELECT 1e65000-1 AS x, 1e60000-3 AS y) SELECT "
        + "+".join(["mod(x*x,y)"] * 160)
        + " > 0 AS z FROM a",
        (),
    ),
    "numeric literals with spaces": Attack("SELECT (1e65000 - 1) * (1e60000 - 3) > 0", ()),
    "numeric written out": Attack("SELECT " + "9" * 3000 + " * " + "9" * 3000, ()),
    "small numeric": Attack("SELECT 1 / 1e-16000", ()),
    "numeric in quotes": Attack("SELECT 1.0 * '1e65000'", ()),
    "numeric of a text": Attack("SELECT cast('1e' || '65000' AS numeric) * 2", ()),
    "numeric of a stored text": Attack("SELECT cast(external_id AS numeric) * 2 FROM prediction_detail", ()),
    "numeric by a short cast": Attack("SELECT (external_id::text)::decimal * 2 FROM prediction_detail", ()),
    "numerics in a list": Attack("SELECT (cast('{1e65000}' AS numeric[]))[1] * 2", ()),
    "numeric among others": Attack("SELECT coalesce(1.5, '1e65000') * 2", ()),
    "numeric in a union": Attack("SELECT x * x FROM (SELECT 1.5 AS x UNION ALL SELECT '1e65000') AS q", ()),
    "numeric in a list of values": Attack("SELECT x * x FROM (VALUES (1.5), ('1e65000')) AS q (x)", ()),
    "numeric in JSON": Attack("SELECT cast('[1e131000]' AS jsonb)", ()),
    "numeric power": Attack("SELECT power(9.9, 100000)", ()),
    "numeric power of columns": Attack("SELECT power(variant * 1.0, revision) FROM leaderboard", ()),
    "numeric exponential": Attack("SELECT exp(5999.9) * exp(5999.9)", ()),
    "exponential of a sum": Attack("SELECT exp(sum(variant)) FROM prediction_detail", ()),
    "numeric with many places": Attack("SELECT 1 / round(3.0, 2000)", ()),
    "numeric with many places left": Attack("SELECT trunc(3.0, variant * 2000) FROM prediction_detail", ()),
    "numeric grown by products": Attack(
        "WITH a AS (SELECT 1234567890.123456789 AS x), b AS (SELECT " + "*".join("x" * 20) + " AS x FROM a), "
        "c AS (SELECT " + "*".join("x" * 20) + " AS x FROM b) SELECT x * x FROM c",
        (),
    ),
    "many numerics": Attack(
        "WITH a AS (SELECT " + "*".join(["1234567890.123456789"] * 90) + " AS x) SELECT " + "+".join(["ln(x)"] * 900),
        (),
    ),
    # Values that grow, and what one row holds and takes
    "text of a numeric": Attack("SELECT length(cast(1e131000 AS text))", ()),
    "text of numerics, in columns": Attack(
        "WITH a AS MATERIALIZED (SELECT cast(1e131000 AS text) AS x), "
        "b AS MATERIALIZED (SELECT x||x||x||x||x||x||x||x AS x FROM a) SELECT "
        + ", ".join(f"length(x||x||x||x||'{i}')" for i in range(100))
        + " FROM b",
        (),
    ),
    "long columns": Attack(
        f"WITH a AS MATERIALIZED (SELECT '{'a' * 2000}' AS x), b AS MATERIALIZED (SELECT "
        + "||".join(["x"] * 60)
        + " AS x FROM a) SELECT "
        + ", ".join(["upper(x)"] * 700)
        + " FROM b",
        (),
    ),
    "columns within columns": Attack(
        "SELECT x FROM (SELECT "
        + "+".join("x" * 10)
        + " AS x FROM (SELECT "
        + "+".join("x" * 10)
        + " AS x FROM (SELECT "
        + "+".join("x" * 10)
        + " AS x FROM (SELECT "
        + "+".join("x" * 10)
        + " AS x FROM (SELECT "
        + "+".join("x" * 10)
        + " AS x FROM (SELECT cast(variant AS bigint) AS x FROM prediction_detail) AS a) AS b) AS c) AS d) AS e) AS f",
        (),
    ),
    "columns within WITH": Attack(
        "WITH t0 AS (SELECT scope AS x FROM run_accuracy), "
        + ", ".join(f"t{n + 1} AS (SELECT coalesce({', '.join('x' * 8)}) AS x FROM t{n})" for n in range(6))
        + " SELECT x FROM t6",
        (),
    ),
    "quotes within quotes": Attack("SELECT " + "cast(ARRAY[" * 12 + "'\"\"'" + "] AS text)" * 12, ()),
    "lists within lists": Attack("SELECT " + "ARRAY[" * 30 + "1" + "]" * 30, ()),
    "types within types": Attack("SELECT " + "numeric(" * 30 + "1" + ")" * 30, ()),
    "long format": Attack("SELECT to_char(now(), '" + "J" * 5000 + "')", ("sqlite",)),
    "format of a column": Attack("SELECT to_char(now(), scope) FROM run_accuracy", ("sqlite",)),
    "many searches": Attack(
        f"WITH a AS MATERIALIZED (SELECT '{'a' * 3000}' AS x), b AS MATERIALIZED (SELECT "
        + "||".join(["x"] * 20)
        + " AS x FROM a) SELECT "
        + ", ".join([f"x LIKE '%{'a' * 100}_b%'"] * 40)
        + " FROM b",
        (),
    ),
    "regular expression": Attack(f"SELECT substring('{'a' * 3000}', '(a+)+(a+)+\\1b')", ()),
    "regular expression by FROM": Attack("SELECT substring(scope FROM scope) FROM run_accuracy", ("sqlite",)),
    # Texts that readers cut up differently
    "nul": Attack("SELECT 1\x00, 2", ("sqlite",)),
    "carriage return in a comment": Attack("SELECT 1 -- \rFROM account", ("postgresql",)),
    "no-break space": Attack("SELECT\u00a0name FROM account", ("sqlite",)),
    "letters that look alike": Attack("SELECT * FROM \u0430ccount", ("sqlite",)),
    "escaped string": Attack("SELECT E'\\' , (SELECT count(*) FROM account) --'", ("sqlite",)),
    "bytes": Attack("SELECT X'00' FROM account", ("sqlite",)),
    "unclosed string": Attack("SELECT 'a", ("sqlite",)),
    "unclosed comment": Attack("SELECT 1 /*", ("postgresql",)),
    "empty": Attack("", ()),
    "only a comment": Attack("-- SELECT 1", ()),
    "too long": Attack("SELECT 1" + " " * 10_000 + "-- end", ()),
    "too deep": Attack("SELECT " + "(" * 500 + "1" + ")" * 500, ()),
    "many casts": Attack("SELECT 1" + "::int" * 1_800, ()),
    "many signs": Attack("SELECT " + "- " * 4_000 + "1", ()),
    "many cases": Attack("SELECT " + "CASE WHEN true THEN " * 300 + "1" + " END" * 300, ()),
    "exponent and sign": Attack("SELECT 1e5-1 AS x", ()),
    "many negations": Attack("SELECT " + "NOT " * 2_000 + "true", ()),
    "many relations": Attack("SELECT 1 FROM leaderboard" + ", leaderboard" * 40, ()),
    "sampled": Attack("SELECT * FROM leaderboard TABLESAMPLE SYSTEM (1)", ("postgresql",)),
    "hides a view": Attack("WITH leaderboard AS (SELECT 1 AS model) SELECT model FROM leaderboard", ()),
}
