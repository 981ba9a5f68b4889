"""Recognises the kind of a user's file, so that an error can name the right command for it."""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from registry.errors import IngestError
from registry.files.manifests import MANIFEST, format_of
from registry.files.toml import parse_toml
from registry.logs.format import HARNESS, HELM, INSPECT, LIGHTEVAL, STATE_FILE
from registry.proposals import propose
from registry.untrusted import decode

HEAD_BYTES: Final = 1 << 20
"""Number of bytes that are read from the beginning of a file; a first line is shorter."""


class Kind(NamedTuple):
    """A kind of file, with the command that reads it."""

    noun: str
    command: str
    options: str = ""

    def call(self, path: Path) -> str:
        """Return the command line for this file."""
        return propose(self.command, path, *self.options.split())


BENCHMARK: Final = Kind("a benchmark", "benchmarks import", " --name NAME")
OUTPUTS: Final = Kind(
    "recorded outputs", "evaluations import", " --model MODEL --benchmark BENCHMARK --variants imported"
)
LETTERS: Final = Kind(
    "a table of letters",
    "evaluations import",
    " --benchmark BENCHMARK",
)
LOG: Final = Kind(
    "a log of another program",
    "evaluations import",
    " --model MODEL --benchmark BENCHMARK --variants original",
)
SEALED: Final = Kind("an exported evaluation", "evaluations import")
TABLES: Final = Kind("an export of tables", "verify --public KEY")
SUITE: Final = Kind("a suite", "suites import")
BOARD: Final = Kind("a board", "boards import")
PROTOCOL: Final = Kind("a protocol", "protocols import")
RECIPE: Final = Kind("a recipe of a benchmark", "benchmarks fetch")
REGISTRY: Final = Kind("a description of a registry", "apply")
BACKUP: Final = Kind("a database", "db restore")
GGUF: Final = Kind("a model (GGUF)", "models add NAME --kind gguf --location")
WEIGHTS: Final = Kind("a model's weights", "models add NAME --kind huggingface --location")

TAKEN: Final[Mapping[str, tuple[str, frozenset[Kind]]]] = {
    "benchmarks import": ("a benchmark", frozenset({BENCHMARK, LOG})),
    "evaluations import": ("recorded outputs", frozenset({OUTPUTS, LETTERS, LOG, SEALED})),
    "suites import": ("a suite (TOML)", frozenset({SUITE})),
    "boards import": ("a board (TOML)", frozenset({BOARD})),
    "protocols import": ("a protocol (TOML or JSON)", frozenset({PROTOCOL})),
    "apply": ("a description of a registry (TOML)", frozenset({REGISTRY})),
    "db restore": ("a backup of a registry", frozenset({BACKUP})),
}
"""Command → the name of its input, and the accepted kinds."""

PARQUET: Final = b"PAR1"
_MAGIC: Final = {
    b"SQLite format 3\0": BACKUP,
    b"PGDMP": BACKUP,
    b"GGUF": GGUF,
    b"PK\x03\x04": LOG,
}


def require_kind(path: Path, command: str) -> None:
    """Raise IngestError that names the right command if a file is clearly not of a kind that `command` reads.

    Unrecognised files are left to the command itself, whose messages name line and value.
    """
    kind = recognise(path)
    wanted, taken = TAKEN[command]
    if command == "evaluations import" and kind not in (BENCHMARK, LOG) and _begins_with(path, PARQUET):
        raise IngestError(
            f"{path.name}: is a Parquet file, and outputs are read from JSON Lines or CSV; save it as .jsonl or .csv, "
            "such as with pandas: read_parquet(…).to_csv(…, index=False)"
        )
    if kind is not None and kind not in taken:
        target = path.parent if kind is WEIGHTS and path.is_file() else path
        raise IngestError(
            f"{path.name}: is {kind.noun}, but `{propose(command)}` takes {wanted}; use: {kind.call(target)}"
        )


def recognise(path: Path) -> Kind | None:
    """Return the kind of a file or folder, by its first bytes; None if it is missing, unreadable or unknown."""
    if path.is_dir():
        return _folder(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path, "rb") as stream:
                head = stream.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return None
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head.startswith(PARQUET):
        return _by_keys(_parquet_columns(path))
    if path.suffix == ".safetensors":
        return WEIGHTS
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if path.suffix == ".toml":
        return _toml(text)
    if text.lstrip().startswith("{"):
        return _json(text)
    heading, ended, _ = text.partition("\n")
    if not ended and len(head) == HEAD_BYTES:
        return None
    return _by_keys([name.strip().strip('"') for name in heading.split(",")], table=True)


def _begins_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(magic)) == magic
    except OSError:
        return False


def _folder(path: Path) -> Kind | None:
    if (path / MANIFEST).is_file():
        return SEALED if format_of(path) in ("evaluation", None) else TABLES
    if (path / STATE_FILE).is_file():
        return LOG
    return WEIGHTS if (path / "config.json").is_file() and any(path.glob("*.safetensors")) else None


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa

    from registry.files.parquet import parquet_columns

    try:
        return parquet_columns(path)
    except (pa.ArrowException, OSError):
        return []


def _toml(text: str) -> Kind | None:
    try:
        return _definition(parse_toml(text, ""))
    except IngestError:
        return None


def _definition(document: Mapping[str, Any]) -> Kind | None:
    if any(isinstance(document.get(key), list) for key in ("models", "boards", "suites", "submit")):
        return REGISTRY
    if "tasks" in document:
        return SUITE
    if "suite" in document and ("columns" in document or "benchmarks" in document):
        return BOARD
    if "repository" in document and "questions" in document:
        return RECIPE
    return PROTOCOL if "base" in document else None


def _json(text: str) -> Kind | None:
    """Return the kind of a JSON file, by the first line of JSON Lines or by the keys of a document."""
    for part in (text.partition("\n")[0], text):
        try:
            document = decode(part)
        except ValueError:
            continue
        if isinstance(document, dict):
            return _by_keys(document) or _definition(document)
    return None


def _by_keys(keys: Any, *, table: bool = False) -> Kind | None:
    names = set(keys)
    if names >= {"question", "options"} and names & {"answer", "id"}:
        return BENCHMARK
    from registry.logs.formats import FORMATS

    if names >= FORMATS[HARNESS].keys:
        return OUTPUTS
    if any(names >= FORMATS[form].keys for form in (HELM, INSPECT, LIGHTEVAL)):
        return LOG
    if "question_id" in names:
        return LETTERS if table else OUTPUTS
    return None
