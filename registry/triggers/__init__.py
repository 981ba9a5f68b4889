"""Triggers that keep sealed rows as they were: one file per engine, statements separated by blank lines."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent


def trigger_names(dialect: str) -> list[str]:
    """Names of all triggers on `sqlite` or `postgresql`."""
    return re.findall(r"^CREATE TRIGGER (\w+)", (_FOLDER / f"{dialect}.sql").read_text(encoding="utf-8"), re.MULTILINE)
