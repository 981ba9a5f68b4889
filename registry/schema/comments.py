"""The documentation of views and columns as comments in PostgreSQL, for psql and editors."""

from collections.abc import Iterator

from psycopg import sql
from sqlalchemy import Connection, text

from registry.schema.audiences import AUDIENCES, schema
from registry.schema.documented import load_documented_views


def comment_on_views(connection: Connection) -> int:
    """Write the comments of the documented views, for the owner and for readers; return how many.

    Nothing on SQLite, which has none. A view of an older schema that lacks a column is commented on as far as it goes.
    """
    if connection.dialect.name != "postgresql":
        return 0
    schemas = ["public", *(schema(audience) for audience in AUDIENCES if audience != "all")]
    there: dict[tuple[str, str], set[str]] = {}
    columns = text(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = ANY(:schemas)"
    )
    for row in connection.execute(columns, {"schemas": schemas}):
        there.setdefault((row[0], row[1]), set()).add(row[2])
    raw = connection.connection.driver_connection
    assert raw is not None
    written = 0
    with raw.cursor() as cursor:
        for name in schemas:
            for statement in _comments(name, there):
                cursor.execute(statement)
                written += 1
    return written


def _comments(of_schema: str, there: dict[tuple[str, str], set[str]]) -> Iterator[sql.Composed]:
    for view in load_documented_views():
        columns = there.get((of_schema, view.name))
        if columns is None:
            continue
        about = f"One row per {view.one_row_per}. For {view.use_it_for}."
        place = sql.Identifier(of_schema, view.name)
        yield sql.SQL("COMMENT ON VIEW {} IS {}").format(place, sql.Literal(about))
        for column in view.columns:
            if column.name in columns:
                where = sql.Identifier(of_schema, view.name, column.name)
                yield sql.SQL("COMMENT ON COLUMN {} IS {}").format(where, sql.Literal(column.sentence))
