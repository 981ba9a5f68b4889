"""The documentation of views and columns as comments in PostgreSQL, for psql and editors."""

from collections.abc import Iterator

from psycopg import sql
from sqlalchemy import Connection, text

from registry.schema.audiences import AUDIENCES, schema
from registry.schema.documented import load_documented_views


def comment_on_views(connection: Connection) -> int:
    """Write the comments on the documented views, in the schemas of owner and readers; return their number.

    SQLite has no comments, so nothing is written there. Columns that a view of an older schema lacks are skipped.
    """
    if connection.dialect.name != "postgresql":
        return 0
    schemas = ["public", *(schema(audience) for audience in AUDIENCES if audience != "all")]
    existing: dict[tuple[str, str], set[str]] = {}
    columns = text(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = ANY(:schemas)"
    )
    for row in connection.execute(columns, {"schemas": schemas}):
        existing.setdefault((row[0], row[1]), set()).add(row[2])
    raw = connection.connection.driver_connection
    assert raw is not None
    written = 0
    with raw.cursor() as cursor:
        for name in schemas:
            for statement in _comments(name, existing):
                cursor.execute(statement)
                written += 1
    return written


def _comments(schema_name: str, existing: dict[tuple[str, str], set[str]]) -> Iterator[sql.Composed]:
    for view in load_documented_views():
        columns = existing.get((schema_name, view.name))
        if columns is None:
            continue
        comment = f"One row per {view.one_row_per}. For {view.use_it_for}."
        place = sql.Identifier(schema_name, view.name)
        yield sql.SQL("COMMENT ON VIEW {} IS {}").format(place, sql.Literal(comment))
        for column in view.columns:
            if column.name in columns:
                path = sql.Identifier(schema_name, view.name, column.name)
                yield sql.SQL("COMMENT ON COLUMN {} IS {}").format(path, sql.Literal(column.sentence))
