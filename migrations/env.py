"""Alembic's entry point, which runs inside the transaction that the caller opened.

New revisions are drafted by `make migration` and then read line by line.
"""

from typing import Any

from alembic import context
from sqlalchemy import CheckConstraint
from sqlalchemy.types import TypeDecorator

# Column types as revisions write them: revisions must not import the registry, whose types may change.
SPELLED = {
    "RowId": 'sa.BigInteger().with_variant(sa.Integer(), "sqlite")',
    "UtcDateTime": 'sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")',
    "Digest": "sa.LargeBinary(32)",
    "DoubleArray": 'sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite")',
    "SmallIntArray": 'sa.ARRAY(sa.SmallInteger()).with_variant(sa.Text(), "sqlite")',
    "JsonDocument": 'postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite")',
}


def render_item(kind: str, item: Any, autogen_context: Any) -> str | bool:
    """Render the registry's column types as SQLAlchemy's, and checks that exist on only one engine."""
    if kind == "type" and isinstance(item, TypeDecorator):
        if type(item).__name__ == "JsonDocument":
            autogen_context.imports.add("from sqlalchemy.dialects import postgresql")
        return SPELLED[type(item).__name__]
    if kind == "check" and (engine := _only_on(item, autogen_context)):
        condition, name = str(item.sqltext), _final_name(item, autogen_context)
        return f"sa.CheckConstraint({condition!r}, name=op.f({name!r})).ddl_if(dialect={engine!r})"
    return False


def _only_on(check: CheckConstraint, autogen_context: Any) -> str | None:
    """Return the one engine that a check is for, from the registry's own table, since Alembic's copy lacks it."""
    table = autogen_context.metadata.tables[check.table.name]
    name = _final_name(check, autogen_context)
    own = next(
        constraint
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint) and _final_name(constraint, autogen_context) == name
    )
    return own._ddl_if.dialect if own._ddl_if is not None else None  # noqa: SLF001 - it can be set, not asked for


def _final_name(check: CheckConstraint, autogen_context: Any) -> str:
    """Return a check's name under the tables' naming convention."""
    name: str = autogen_context.dialect.identifier_preparer.format_constraint(check)
    return name


def run() -> None:
    """Migrate the connection that the caller passes in `attributes`."""
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=context.config.attributes.get("target_metadata"),
        render_item=render_item,
        # registry/schema/repeatable.py manages the rows of these tables.
        include_name=lambda name, kind, _parents: (
            kind != "table" or name not in ("schema_definition", "schema_catalogue")
        ),
        render_as_batch=False,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
