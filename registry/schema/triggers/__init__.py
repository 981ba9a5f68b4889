"""Triggers that protect sealed rows: one file per engine, with statements separated by blank lines."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent


def trigger_names(dialect: str) -> list[str]:
    """Return the names of all triggers on `sqlite` or `postgresql`."""
    return re.findall(r"^CREATE TRIGGER (\w+)", (_FOLDER / f"{dialect}.sql").read_text(encoding="utf-8"), re.MULTILINE)


def trigger_statements(dialect: str) -> dict[str, str]:
    """Map each trigger, and on PostgreSQL each trigger function, to the statement that creates it."""
    blocks = (_FOLDER / f"{dialect}.sql").read_text(encoding="utf-8").split("\n\n")
    statements = [block.strip() for block in blocks if block.startswith("CREATE")]
    return {statement.split("(")[0].split()[2]: statement for statement in statements}
