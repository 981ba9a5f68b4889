"""Constraints that several tables share."""

from sqlalchemy import CheckConstraint


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    """Return a constraint, named after the column, that its value is one of `values` or NULL."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)
