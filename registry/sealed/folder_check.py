"""Check the folder of a sealed evaluation, in a registry's archive, an export or a published site.

The caller passes the digest of `evaluation.json`, from the chain or from the registry. That file lists the digests of
the other files. The folder does not contain the texts of the questions: their hashes, continued with the rows, must
give the sealed leaves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry import formats
from registry.digests import specification_digest
from registry.errors import ArchiveError
from registry.files.stores import Store
from registry.predictions.archive_files import EVALUATION, PREDICTIONS, damage_error, salvage
from registry.sealed.folder import ASKED, find_changed_files
from registry.sealed.manifest import encode_header, leaves_of_tables, manifest_of
from registry.untrusted import decode

Hashes = Mapping[tuple[bool, str], Any]
"""Maps (few-shot, external id) to an unfinished SHA-256 over the question, to be continued with its rows."""


@dataclass(frozen=True)
class FolderReport:
    """The outcome of checking a folder.

    files: names of missing or changed files. questions: external ids of questions whose leaf is not the sealed one.
    seal:
    the evaluation's seal; None if the folder does not yield it. count: number of questions. number: of the seal's
    format.
    """

    files: list[str]
    questions: list[str]
    seal: str | None
    count: int = 0
    number: int = formats.SEAL

    @property
    def ok(self) -> bool:
        """Return True if the folder is as it was sealed."""
        return not self.files and not self.questions and self.seal is not None


def check_folder(store: Store, name: str, digest: str, hashes: Hashes) -> FolderReport:
    """Compare a folder's files with their digests, and its questions and rows with the sealed leaves.

    Reading skips damaged parts, so that the report can name the questions in them. Raises ArchiveError if a file cannot
    be opened, or has a format that this version does not know.
    """
    files = find_changed_files(store, name, digest)
    if {EVALUATION, ASKED}.intersection(files):
        return FolderReport(files, [], None)
    with store.reading(f"{name}/{EVALUATION}") as stream:
        document = decode(bytes(stream.read()))
    formats.require_known(EVALUATION, "folder", document.get(formats.NUMBER), formats.FOLDER, ArchiveError)
    formats.require_known(EVALUATION, "seal", document["evaluation"]["seal_version"], formats.SEAL, ArchiveError)
    rows = _read_asked(store, name)
    readable = store.has(f"{name}/{PREDICTIONS}")
    number = document["evaluation"]["seal_version"]
    questions = _find_changed_leaves(store, name, rows, hashes, number) if readable else []
    leaves: dict[bool, dict[str, str]] = {False: {}, True: {}}
    for row in rows:
        leaves[row["few_shot"]][row["question"]] = row["leaf"]
    reproduced = specification_digest(manifest_of(document, leaves[False], leaves[True])) == document["seal"]
    return FolderReport(files, questions, document["seal"] if reproduced else None, len(leaves[False]), number)


def _read_asked(store: Store, name: str) -> list[dict[str, Any]]:
    try:
        with store.reading(f"{name}/{ASKED}") as stream:
            rows: list[dict[str, Any]] = pq.read_table(stream).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise damage_error(store, f"{name}/{ASKED}", error) from None
    return rows


def _find_changed_leaves(
    store: Store, name: str, asked: list[dict[str, Any]], hashes: Hashes, number: int
) -> list[str]:
    """Return the questions and examples whose leaves differ from the folder's.

    asked: rows of `ASKED`. number: of the seal's format.
    """
    headers = {
        row["question"]: (0, encode_header(hashes[False, row["question"]], row["n_variants"], row["shard"]))
        for row in asked
        if (False, row["question"]) in hashes and not row["few_shot"]
    }
    computed = leaves_of_tables(headers, salvage(store, f"{name}/{PREDICTIONS}"), number)
    leaves = {(False, leaf.external_id): leaf.leaf for leaf in computed}
    leaves |= {(True, question): digest.hexdigest() for (few_shot, question), digest in hashes.items() if few_shot}
    return [row["question"] for row in asked if leaves.get((row["few_shot"], row["question"])) != row["leaf"]]
