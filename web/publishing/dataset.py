"""A board as a data set for Hugging Face's hub: Parquet files, and a card that lists their configurations.

The card's front matter follows https://huggingface.co/docs/hub/datasets-manual-configuration.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from registry.exchange.exports.relations import BOOLEAN, DOUBLE, INTEGER, TEXT
from registry.exchange.exports.tables import parquet, write_rows
from registry.files.new_folder import new_folder
from registry.names import plural
from registry.operations.opening import engine_of
from registry.settings import Settings
from registry.sql.relations import Part
from web.publishing import board_document, write_tables
from web.publishing.places import Scope

BOARD: Final = "board"
_COLUMNS: Final = {
    "model": TEXT,
    "revision": INTEGER,
    "complete": BOOLEAN,
    "column": TEXT,
    "metric": TEXT,
    "variants": TEXT,
    "value": DOUBLE,
    "questions": INTEGER,
    "interval_low": DOUBLE,
    "interval_high": DOUBLE,
    "rank": INTEGER,
}


def publish_dataset(settings: Settings, board: str, to: Path) -> list[str]:
    """Write the public part of a board into a new folder; return its configurations.

    Raises NotFoundError and UsageError as `publish` does, and UsageError for a folder that has files.
    """
    document = board_document(settings, board)
    scope = Scope.of(document)
    part = Part(tuple(sorted(map(int, scope.evaluations))), scope.board)
    with new_folder(to) as folder:
        write_tables(engine_of(settings), part, folder / "data")
        write_rows(parquet, folder / "data" / f"{BOARD}.parquet", _COLUMNS, [_rows(document)])
        names = sorted(path.stem for path in (folder / "data").glob("*.parquet"))
        (folder / "README.md").write_text(_card(document, names), encoding="utf-8")
    return names


def _rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each model and column of the board."""
    rows = []
    for row in document["rows"]:
        for column in document["columns"]:
            value = row["values"][column["name"]]
            low, high = value["interval"] or (None, None)
            rows.append(
                {
                    **{name: row[name] for name in ("model", "revision", "complete")},
                    "column": column["name"],
                    "metric": column["metric"],
                    "variants": column["variants"],
                    "value": value["value"],
                    "questions": value["n"],
                    "interval_low": low,
                    "interval_high": high,
                    "rank": value["rank"],
                }
            )
    return rows


def _card(document: Mapping[str, Any], names: list[str]) -> str:
    title = document.get("title") or document["board"]
    head = [
        f"pretty_name: {json.dumps(title, ensure_ascii=False)}",
        "tags:",
        "- leaderboard",
        "- shuffleboard",
        "configs:",
    ]
    for name in names:
        head += [f"- config_name: {name}", f"  data_files: data/{name}.parquet"]
        head += ["  default: true"] if name == BOARD else []
    tasks = [f"- {entry['task']}: {entry['benchmark']}@{entry['version']}" for entry in document["entries"]]
    about = (
        f"A board of Shuffleboard with {plural(len(document['rows']), 'model')}. The configuration `{BOARD}` has a row "
        "for each model and column, with the 95 % interval and the rank. The others are views and tables; "
        "`data/README.md` describes some, and its documentation all of them."
    )
    text = [f"# {title}", document.get("text") or "", about, "\n".join(tasks)]
    return "\n".join(["---", *head, "---", ""]) + "\n" + "\n\n".join(part for part in text if part) + "\n"
