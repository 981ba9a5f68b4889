"""The number of each format that this program writes, and the check of numbers that it reads.

Every file contains its format's number, under `NUMBER`. Raise a number if a reader of the previous one would misread
new files, and keep reading every earlier number: released files are kept for years. A new column of predictions raises
SEAL alone, and states that number itself (`SEALED_SINCE`).
"""

from typing import Any, Final

from registry.errors import IngestError, ShuffleboardError

NUMBER: Final = "format_version"
"""The key of a format's number in a document."""

SEAL: Final = 1
"""The facts and columns that a seal covers."""
SEALED_SINCE: Final = "sealed_since"
"""The key of a column's `info` with the number of the first seal that covers it; without it 1."""
FOLDER: Final = 1
"""The folder of a sealed evaluation: its JSON and its Parquet files."""
EXPORT: Final = 1
"""An exported evaluation or exported tables: the manifest, and the files that it lists."""
BACKUP: Final = 1
"""A backup: the database's file, and its folders."""
SITE: Final = 1
"""A published site: its proof, and the place of its data."""
CHAIN: Final = 1
"""The chain in a file: links, signatures, and the statement that is signed."""


def require_known(
    source: str, thing: str, number: Any, newest: int, error: type[ShuffleboardError] = IngestError
) -> None:
    """Raise an error unless this program reads `number`: from 1 to the newest.

    source: the file's name in the message. thing: its kind, such as "seal".
    """
    if type(number) is int and 1 <= number <= newest:
        return
    read = f"{thing} format {newest}" if newest == 1 else f"{thing} formats 1 to {newest}"
    if type(number) is int and number > newest:
        raise error(
            f"{source}: has {thing} format {number}, and this version reads {read}; upgrade Shuffleboard, then read it "
            "again"
        )
    stated = "states no number" if number is None else f"states the number {str(number)[:50]!r}"
    raise error(f"{source}: {stated} of its {thing} format, and this version reads {read}; fetch it again")
