"""Version numbers of the file formats that this program writes, and the check of a number that it reads.

Every file contains its format's version under the key `NUMBER`. Raise a version if older readers would misread new
files, and keep reading all earlier versions: users keep released files for years. A new sealed column raises only
SEAL; the column's `info` contains the new version under `SEALED_SINCE`.
"""

from typing import Any, Final

from registry.errors import IngestError, ShuffleboardError

NUMBER: Final = "format_version"
"""The key of a format's number in a document."""

SEAL: Final = 2
"""The facts and columns that a seal covers."""
SEALED_SINCE: Final = "sealed_since"
"""Key in a column's `info`: the first version of SEAL that covers the column; 1 if it is missing."""
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
    """Raise an error unless this program can read format version `number`, from 1 to `newest`.

    source: the file's name in the message. thing: the format's name there, such as "seal".
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
