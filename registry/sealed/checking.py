"""Check an exported folder with nothing but a public key: its signature, chain, files and questions.

Three kinds of folders can be checked: an exported evaluation, a published site, and an export of tables. Each contains
the chain of its registry, whose head the registry signed. The chain has the digest of every evaluation's folder, which
covers the folder's files. Nothing else in the folder is trusted, and no registry is needed. Files that the signature
does not cover are listed, and never count as checked.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from registry import formats
from registry.boards.snapshots import snapshot_digest, snapshot_labels
from registry.chain import check_links
from registry.digests import sha256_file
from registry.errors import IngestError, ShuffleboardError, UsageError
from registry.files.manifests import MANIFEST, format_of
from registry.files.parquet import parquet_rows
from registry.files.stores import Store, store_at
from registry.names import plural
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.sealed import files, folder, sites
from registry.sealed.files import CHAIN, QUESTIONS, RECORDED, read_json, require_file
from registry.sealed.folder_check import check_folder
from registry.sealed.manifest import QUESTION_COLUMNS, list_sealed_columns, question_hash
from registry.sealed.statements import Signed, is_digest, read_signed
from registry.untrusted import decode

TABLES: Final = frozenset({"parquet", "csv", "jsonl"})
"""Formats of exports of tables."""
EVALUATIONS: Final = "evaluations.parquet"
"""The table that contains the seals in an export of tables."""
_MAX_SUMS: Final = 32 << 20
_LISTED: Final = 10


@dataclass
class Checked:
    """The outcome of a check: confirmed facts, problems, and parts that could not be checked."""

    path: str
    facts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    signed_at: datetime | None = None

    @property
    def ok(self) -> bool:
        """Return True if there is no problem."""
        return not self.problems

    def document(self) -> dict[str, Any]:
        """Return the outcome as plain JSON."""
        return {
            "path": self.path,
            "ok": self.ok,
            "signed_at": self.signed_at,
            "checked": self.facts,
            "problems": self.problems,
            "questions": self.questions,
            "not_checked": self.unchecked,
        }

    def add(self, problems: Sequence[str]) -> None:
        """Add problems, at most the first ten by name."""
        self.problems += problems[:_LISTED]
        if len(problems) > _LISTED:
            self.problems.append(f"{len(problems) - _LISTED} more files or links do not match")


@dataclass(frozen=True)
class Trust:
    """The reader's keys, and the expectations that a folder must meet.

    keys: fingerprints of trusted public keys. head: a head of the chain that the reader knows from another source.
    max_age_days: maximum age of the newest signature. board: the expected name of the board.
    """

    keys: Sequence[str]
    head: str | None = None
    max_age_days: float | None = None
    board: str | None = None


def check_by_key(path: Path, trust: Trust, now: datetime | None = None) -> Checked:
    """Check an exported evaluation, a published site, or an export of tables.

    Raises UsageError if the path is none of these.
    """
    outcome = Checked(str(path))
    try:
        _choose_check(path)(path, trust, outcome, now or datetime.now(UTC))
    except UsageError:
        raise
    except ShuffleboardError as error:
        outcome.problems.append(str(error))
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError, OSError) as error:
        # A forged file can lack any key and contain any value; such errors are not a fault of this code.
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        outcome.problems.append(f"a file is not as it is written by this program ({reason})")
    return outcome


def _choose_check(root: Path) -> Callable[[Path, Trust, Checked, datetime], None]:
    if (root / MANIFEST).exists():
        return _check_tables if format_of(root) in TABLES else _check_evaluation
    if (root / sites.CHAIN).is_file():
        return _check_site
    if (root / sites.SUMS).is_file():
        raise UsageError(f"{root}: this site has no {sites.CHAIN}: it cannot be checked; ask for one that has it")
    raise UsageError(
        f"{root}: is neither an evaluation of `shuffleboard evaluations export`, nor a site of `shuffleboard publish`, "
        "nor an export of `shuffleboard export`; give its folder"
    )


# Signature, head, chain


@dataclass(frozen=True)
class _CoveredLinks:
    """The links of a chain that a trusted signature covers; empty without a valid signature."""

    links: Sequence[Any]

    def find(self, kind: str, subject: Any) -> Any | None:
        """Return the newest link of this kind about this subject."""
        return next((link for link in reversed(self.links) if (link.kind, link.subject) == (kind, subject)), None)


def _check_chain(document: Any, trust: Trust, outcome: Checked, now: datetime) -> _CoveredLinks:
    formats.require_known("the chain", "chain", document.get(formats.NUMBER), formats.CHAIN)
    links = [SimpleNamespace(**{**link, "at": datetime.fromisoformat(link["at"])}) for link in document["links"]]
    if not all(is_digest(value) for link in links for value in (link.subject, link.previous, link.digest)):
        raise IngestError("chain: a link has a digest that is none")
    outcome.add(check_links(links, trust.head).problems)
    if not document["signatures"]:
        outcome.problems.append("the chain is not signed: the folder was written where there was no key")
        return _CoveredLinks([])
    signed = [read_signed(item) for item in document["signatures"]]
    trusted = [item for item in signed if item.statement.key in trust.keys]
    if not trusted:
        others = ", ".join(sorted({item.statement.key[:16] + "…" for item in signed})[:_LISTED])
        trusted_keys = ", ".join(key[:16] + "…" for key in trust.keys)
        outcome.problems.append(f"the chain is signed by another key: by {others}, and not by {trusted_keys}")
        return _CoveredLinks([])
    newest = max(trusted, key=lambda item: item.statement.length)
    if not newest.holds:
        outcome.problems.append("the signature does not match its statement: one of them was replaced")
        return _CoveredLinks([])
    return _CoveredLinks(links[: _check_head(newest, links, trust, outcome, now)])


def _check_head(signed: Signed, links: Sequence[Any], trust: Trust, outcome: Checked, now: datetime) -> int:
    """Check the signed head against the chain, and return the number of links that the signature covers."""
    statement = signed.statement
    outcome.signed_at = statement.at
    age = (now - statement.at).total_seconds() / 86400
    when = f"{statement.at:%Y-%m-%d %H:%M} UTC, {_days(age)}"
    where = f" of {statement.registry}" if statement.registry else ""
    if trust.max_age_days is not None and age > trust.max_age_days:
        outcome.problems.append(
            f"the signed head is old: it was signed on {when}, and --max-age is {trust.max_age_days:g} days; there may "
            "be a newer board"
        )
    if statement.length > len(links):
        outcome.problems.append(
            f"the chain is cut short: the signed head is link {statement.length}, and the folder has {len(links)}"
        )
        return 0
    if links[statement.length - 1].digest != statement.head:
        outcome.problems.append(
            f"the chain is not the one that was signed: link {statement.length} is "
            f"{links[statement.length - 1].digest}, and {statement.head} was signed"
        )
        return 0
    outcome.facts.append(f"the head{where} was signed at link {statement.length} on {when}, by {statement.key}")
    if len(links) > statement.length:
        outcome.unchecked.append(f"{len(links) - statement.length} links of the chain after the signed head")
    outcome.unchecked.append("the time of the signature: it is the registry's own word")
    return statement.length


def _days(age: float) -> str:
    return "today" if age < 1 else f"{age:.0f} day{'' if round(age) == 1 else 's'} ago"


# The folder of an evaluation


def _check_sealed(
    store: Store, name: str, at: str, questions: Iterable[Mapping[str, Any]], covered: _CoveredLinks, outcome: Checked
) -> int | None:
    """Check an evaluation's folder; return its number of questions, or None if something is wrong or not covered.

    name: of the folder in its store. at: prefix of file names in messages. questions: rows of the benchmark version,
    from a file that no digest in the chain covers.
    """
    digest = store.digest(f"{name}/{EVALUATION}")[0]
    if covered.find("folder", digest) is None:
        if covered.links:
            outcome.problems.append(f"{at}{EVALUATION}: is not one that the signed chain has")
        return None
    wrong = folder.find_changed_files(store, name, digest)
    if wrong:  # no file of it is read, because nobody signed it
        outcome.add([f"{at}{file}: is not the file that its {EVALUATION} lists" for file in wrong])
        return None
    report = check_folder(store, name, digest, {(row["few_shot"], row["external_id"]): _hash(row) for row in questions})
    if report.questions:
        listed = ", ".join(report.questions[:_LISTED])
        rest = f" and {len(report.questions) - _LISTED} more" if len(report.questions) > _LISTED else ""
        outcome.questions += [question for question in report.questions if question not in outcome.questions]
        outcome.problems.append(f"{QUESTIONS}: question {listed}{rest} is not as it was sealed in {at}{EVALUATION}")
    elif report.seal is None:
        outcome.problems.append(f"{at}{EVALUATION}: its specification, shards and leaves do not give its seal")
    elif covered.find("seal", report.seal) is None:
        outcome.problems.append(f"{at}{EVALUATION}: its seal {report.seal} is not in the signed chain")
    else:
        newer = sorted({*list_sealed_columns(formats.SEAL)} - {*list_sealed_columns(report.number)})
        if newer:
            outcome.unchecked.append(f"{at}{PREDICTIONS}: a seal of format {report.number} lacks {', '.join(newer)}")
        return report.count
    return None


def _hash(row: Mapping[str, Any]) -> Any:
    """Return an unfinished SHA-256 over a question, to be continued with its rows."""
    values = {name: row[name] for name in QUESTION_COLUMNS}
    if values["extra"] is not None:
        values["extra"] = decode(values["extra"], items=files.MAX_ITEMS)
    return question_hash(SimpleNamespace(**values), list(enumerate(row["options"])))


# An exported evaluation


def _check_evaluation(root: Path, trust: Trust, outcome: Checked, now: datetime) -> None:
    wrong = files.find_changed_files(root)
    outcome.add([f"{name}: {problem}" for name, problem in wrong.items()])
    if CHAIN in wrong:
        return
    covered = _check_chain(read_json(root, CHAIN), trust, outcome, now)
    if wrong:
        return
    place = root.resolve()
    questions = parquet_rows(root / QUESTIONS, kept=True)
    count = _check_sealed(store_at(place.parent.as_uri()), place.name, "", questions, covered, outcome)
    if count is not None:
        outcome.facts.append(f"the evaluation and its {plural(count, 'question')} are as they were sealed")
        outcome.unchecked.append(f"{RECORDED}: analyses and withdrawals, which no seal covers")


# An export of tables


def _check_tables(root: Path, trust: Trust, outcome: Checked, now: datetime) -> None:
    manifest = read_json(root, MANIFEST)
    formats.require_known(MANIFEST, "export", manifest.get(formats.NUMBER), formats.EXPORT)
    listed = [*manifest["files"], *manifest["documents"]]
    names = {entry["file"] for entry in listed}
    outcome.add([f"{name}: {problem}" for name, problem in files.find_changed_entries(root, listed).items()])
    others = sorted({*_list_files(root)} - {*names, MANIFEST})
    outcome.add([f"{name}: is not a file that {MANIFEST} lists" for name in others])
    if CHAIN not in names:
        outcome.problems.append("the chain is not signed: the folder was written where there was no key")
    if not outcome.ok:
        return
    covered = _check_chain(read_json(root, CHAIN), trust, outcome, now)
    if EVALUATIONS in names and covered.links:
        seals = [row["seal"] for row in parquet_rows(root / EVALUATIONS) if row["seal"] is not None]
        missing = [seal for seal in seals if covered.find("seal", seal) is None]
        outcome.add([f"{EVALUATIONS}: the seal {seal} is not in the signed chain" for seal in missing])
        if not missing:
            outcome.facts.append(f"the seals of {plural(len(seals), 'evaluation')} are in the signed chain")
    outcome.unchecked.append(f"rows of the tables: {MANIFEST} has the digests of their files, and nobody signed it")


def _list_files(root: Path) -> Iterator[str]:
    """Yield the names of all files under a folder. Raises IngestError for a link."""
    for place, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(place) / name
            if path.is_symlink():
                raise IngestError(f"{path.relative_to(root)}: is a link; such a folder has only files")
        yield from ((Path(place) / name).relative_to(root).as_posix() for name in names)


# A site


def _check_site(root: Path, trust: Trust, outcome: Checked, now: datetime) -> None:
    _check_sums(root, outcome)
    covered = _check_chain(read_json(root, sites.CHAIN), trust, outcome, now)
    board = read_json(root, sites.BOARD)
    formats.require_known(sites.BOARD, "site", board.get(formats.NUMBER), formats.SITE)
    expected = _check_snapshot(board, covered, trust, outcome)
    store = store_at((root.resolve() / sites.DATA).as_uri())
    questions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in parquet_rows(require_file(root, f"{sites.DATA}/{QUESTIONS}"), kept=True):
        questions.setdefault((row["benchmark"], row["benchmark_version"]), []).append(row)
    present = set()
    counts = []
    for path in sorted((root / sites.DATA).glob(f"{sites.OF_EVALUATION}*")):
        at = f"{sites.DATA}/{path.name}/"
        document = read_json(root, f"{at}{EVALUATION}")
        version = document["specification"]["benchmark"]["name"], document["benchmark_version"]["version"]
        present.add(str(document["seal"]))
        counts.append(_check_sealed(store, path.name, at, questions.get(version, ()), covered, outcome))
    for seal in sorted(expected - present):
        outcome.problems.append(f"the board rests on an evaluation that is not in the folder: its seal is {seal}")
    for seal in sorted(present - expected):
        outcome.problems.append(f"an evaluation is in the folder that the board does not rest on: its seal is {seal}")
    if outcome.ok and None not in counts:
        outcome.facts.append(
            f"{plural(len(counts), 'evaluation')} with {plural(sum(filter(None, counts)), 'question')} "
            f"{'is' if len(counts) == 1 else 'are'} as sealed"
        )
    _check_shown(root, board, outcome)
    outcome.unchecked.append(
        f"pages, and tables that are computed from the rows: {sites.SUMS} lists them, and nobody signed that list"
    )


def _check_sums(root: Path, outcome: Checked) -> None:
    """Check every file against the folder's list of digests, which is not signed but reveals damage."""
    path = require_file(root, sites.SUMS)
    if path.stat().st_size > _MAX_SUMS:
        raise IngestError(f"{sites.SUMS}: is larger than {_MAX_SUMS} bytes")
    others = {*_list_files(root)} - {sites.SUMS}
    changed = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            digest, _, name = line.rstrip("\n").partition("  ")
            if not is_digest(digest):
                raise IngestError(f"{sites.SUMS}: a line of it is not a SHA-256 and the name of a file")
            others.discard(name)
            if sha256_file(require_file(root, name)) != digest:
                changed.append(name)
    outcome.add([f"{name}: is not the file that {sites.SUMS} lists" for name in changed])
    outcome.unchecked += [f"{name}: {sites.SUMS} does not list it" for name in sorted(others)[:_LISTED]]
    if len(others) > _LISTED:
        outcome.unchecked.append(f"{len(others) - _LISTED} more files that {sites.SUMS} does not list")


def _check_snapshot(board: Any, covered: _CoveredLinks, trust: Trust, outcome: Checked) -> set[str]:
    """Check that the signed chain contains the board's snapshot, and return the seals that the board rests on."""
    snapshot = board["snapshot"]
    digest = snapshot_digest(snapshot)
    name = str(snapshot["board"])
    if trust.board is not None and name != trust.board:
        outcome.problems.append(f"this is the board {name!r}, and not {trust.board!r}")
    if covered.links:
        link = covered.find("snapshot", digest)
        labels = snapshot_labels(board["board_digest"], datetime.fromisoformat(board["as_of"]))
        if link is None or link.labels != labels:
            outcome.problems.append(
                f"the board {name!r} is not one that this registry made: its snapshot {digest} is not in the chain "
                "that was signed"
            )
        else:
            outcome.facts.append(f"the board {name!r} as of {board['as_of'][:16]} is link {link.position} of the chain")
            later = [other for other in covered.links[link.position :] if other.kind in ("snapshot", "withdrawal")]
            if later:
                outcome.facts.append(
                    f"{len(later)} snapshots and withdrawals are in the chain after it: of other boards, or of this one"
                )
    return {item["seal"] for row in snapshot["rows"] for item in row["evaluations"] if item is not None}


UNSIGNED: Final = ("cost", "conflict_of_interest", "tokens_per_answer")
"""Columns that a board shows but its snapshot does not contain."""


def _check_shown(root: Path, board: Any, outcome: Checked) -> None:
    """Compare the JSON from which the board's page is made with the signed snapshot."""
    snapshot = board["snapshot"]
    name = f"api/v1/boards/{snapshot['board']}.json"
    if not (root / name).exists():
        outcome.unchecked.append(f"{name}, which is missing")
        return
    shown = read_json(root, name)
    rows = [{key: value for key, value in row.items() if key not in UNSIGNED} for row in shown["rows"]]
    if sorted(rows, key=_row_key) != sorted(snapshot["rows"], key=_row_key) or any(
        shown.get(key) != snapshot[key] for key in snapshot.keys() - {"rows", "bootstrap"}
    ):
        outcome.problems.append(f"{name}: says something else than the signed snapshot")


def _row_key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["model"], row["revision"]
