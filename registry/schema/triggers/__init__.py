"""Triggers that keep sealed rows as they were: one file per engine, statements separated by blank lines."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent


def trigger_names(dialect: str) -> list[str]:
    """Return the names of all triggers on `sqlite` or `postgresql`."""
    return re.findall(r"^CREATE TRIGGER (\w+)", (_FOLDER / f"{dialect}.sql").read_text(encoding="utf-8"), re.MULTILINE)


def trigger_statements(dialect: str) -> dict[str, str]:
    """Name of each trigger, and on PostgreSQL of each of their functions, to the statement that makes it."""
    blocks = (_FOLDER / f"{dialect}.sql").read_text(encoding="utf-8").split("\n\n")
    statements = [block.strip() for block in blocks if block.startswith("CREATE")]
    return {statement.split("(")[0].split()[2]: statement for statement in statements}
