"""Checking an export with nothing but a public key: signature, head, chain, snapshot, seals, leaves, every row.

Nothing in the folder is trusted, and there is no registry. What a step finds is a sentence; what cannot be checked is
said, and never counts as checked.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from registry.boards.snapshots import snapshot_digest, snapshot_labels
from registry.chain import check_links
from registry.digests import sha256_file, specification_digest
from registry.errors import IngestError, ShuffleboardError, UsageError
from registry.exchange.crates import layout
from registry.exchange.crates.layout import inside, json_of
from registry.exchange.proofs.numbers import Values, check_numbers, functions_of, outcomes_of
from registry.exchange.proofs.writing import BOARD, CHAIN, DATA, OF_EVALUATION, PROOF
from registry.files.parquet import damaged_values, parquet_rows
from registry.metrics.outcome import VariantOutcome
from registry.names import plural
from registry.predictions.archive_files import EVALUATION, PREDICTIONS, TEXT, plain
from registry.prompting.prompts import PromptKeys, QuestionText
from registry.prompting.protocols.answering import lists_options
from registry.prompting.variants import VariantSetDefinition
from registry.proof.folder import ASKED, FILES
from registry.proof.manifest import (
    GENERATION_COLUMNS,
    LEAF_COLUMNS,
    QUESTION_COLUMNS,
    SEAL_VERSION,
    asked_header,
    leaf_digest,
    manifest_of,
    question_hash,
)
from registry.proof.statements import Signed, is_digest, read_signed
from registry.untrusted import decode

SUMS: Final = "SHA256SUMS"
_MAX_SUMS: Final = 32 << 20
_LISTED: Final = 10
_MOST_VARIANTS: Final = 400_000
"""Rows of a question: more than all orders of nine options."""


@dataclass
class Checked:
    """What a check came to. problems: what is wrong; unchecked: what could not be checked; facts: what holds."""

    path: str
    facts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    signed_at: datetime | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def document(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "path": self.path,
            "ok": self.ok,
            "signed_at": self.signed_at,
            "checked": self.facts,
            "problems": self.problems,
            "questions": self.questions,
            "not_checked": self.unchecked,
        }


@dataclass(frozen=True)
class Trust:
    """What the reader trusts, and expects.

    keys: fingerprints of public keys. head: one that the reader knows from elsewhere. max_age_days: how old the newest
    signature may be. board: which board it should be.
    """

    keys: Sequence[str]
    head: str | None = None
    max_age_days: float | None = None
    board: str | None = None


def check_export(path: Path, trust: Trust, now: datetime | None = None) -> Checked:
    """Checks a folder that `shuffleboard publish` or `shuffleboard evaluations export` wrote.

    Raises UsageError for a path that is none of them.
    """
    found = Checked(str(path))
    root = path.parent if path.name == layout.METADATA else path
    now = now or datetime.now(UTC)
    try:
        _check_of(root)(root, trust, found, now)
    except UsageError:
        raise
    except ShuffleboardError as error:
        found.problems.append(str(error))
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError, OSError) as error:
        # A forged file can lack any key and hold any value: none of that is a fault of this code.
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        found.problems.append(f"a file is not as it is written by this program ({reason})")
    return found


def _check_of(root: Path) -> Callable[[Path, Trust, Checked, datetime], None]:
    if (root / EVALUATION).is_file():
        return _check_crate
    if (root / PROOF / CHAIN).is_file():
        return _check_site
    if (root / SUMS).is_file():
        raise UsageError(f"{root}: this site has no {PROOF}/{CHAIN}: it cannot be checked; ask for one that has it")
    raise UsageError(
        f"{root}: is neither a site of `shuffleboard publish` nor an archive of `shuffleboard evaluations export`; "
        "give its folder"
    )


# Files


def _check_sums(root: Path, found: Checked) -> None:
    """Every file is as the folder's list says. The list itself is not signed, but a slip of the disk is found."""
    path = inside(root, SUMS)
    if path.stat().st_size > _MAX_SUMS:
        raise IngestError(f"{SUMS}: is larger than {_MAX_SUMS} bytes")
    listed: set[str] = set()
    changed = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            digest, _, name = line.rstrip("\n").partition("  ")
            if not is_digest(digest):
                raise IngestError(f"{SUMS}: a line of it is not a SHA-256 and the name of a file")
            listed.add(name)
            if sha256_file(inside(root, name)) != digest:
                changed.append(name)
    for name in changed[:_LISTED]:
        found.problems.append(f"{name}: is not the file that {SUMS} lists")
    if len(changed) > _LISTED:
        found.problems.append(f"{len(changed) - _LISTED} more files are not those that {SUMS} lists")
    others = 0
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            if (Path(folder) / name).is_symlink():
                raise IngestError(f"{(Path(folder) / name).relative_to(root)}: is a link; a site has only files")
        others += sum((Path(folder) / name).relative_to(root).as_posix() not in listed for name in files)
    if others > 1:
        found.unchecked.append(f"{plural(others - 1, 'file')} that {SUMS} does not list")


# Signature, head, chain


def _check_chain(document: Any, trust: Trust, found: Checked, now: datetime) -> tuple[list[Any], int]:
    """The links, and how many of them the signature covers: 0 where none holds."""
    links = [SimpleNamespace(**{**link, "at": datetime.fromisoformat(link["at"])}) for link in document["links"]]
    if not all(is_digest(value) for link in links for value in (link.subject, link.previous, link.digest)):
        raise IngestError("chain: a link has a digest that is none")
    report = check_links(links, trust.head)
    found.problems += report.problems[:_LISTED]
    if len(report.problems) > _LISTED:
        found.problems.append(f"chain: {len(report.problems) - _LISTED} more links do not hold")
    if not document["signatures"]:
        found.problems.append("the chain is not signed: the folder was written where there was no key")
        return links, 0
    signed = [read_signed(item) for item in document["signatures"]]
    own = [item for item in signed if item.statement.key in trust.keys]
    if not own:
        others = _listed(sorted({item.statement.key[:16] + "…" for item in signed}))
        given = ", ".join(key[:16] + "…" for key in trust.keys)
        found.problems.append(f"the chain is signed by another key: by {others}, and not by {given}")
        return links, 0
    newest = max(own, key=lambda item: item.statement.length)
    if not newest.holds:
        found.problems.append("the signature does not match its statement: one of them was replaced")
        return links, 0
    return links, _check_head(newest, links, trust, found, now)


def _check_head(signed: Signed, links: Sequence[Any], trust: Trust, found: Checked, now: datetime) -> int:
    statement = signed.statement
    found.signed_at = statement.at
    age = (now - statement.at).total_seconds() / 86400
    when = f"{statement.at:%Y-%m-%d %H:%M} UTC, {_days(age)}"
    where = f" of {statement.registry}" if statement.registry else ""
    if trust.max_age_days is not None and age > trust.max_age_days:
        found.problems.append(
            f"the signed head is old: it was signed on {when}, and --max-age is {trust.max_age_days:g} days; there may "
            "be a newer board"
        )
    if statement.length > len(links):
        found.problems.append(
            f"the chain is cut short: the signed head is link {statement.length}, and the folder has {len(links)}"
        )
        return 0
    if links[statement.length - 1].digest != statement.head:
        found.problems.append(
            f"the chain is not the one that was signed: link {statement.length} is "
            f"{links[statement.length - 1].digest}, and {statement.head} was signed"
        )
        return 0
    found.facts.append(f"the head{where} was signed at link {statement.length} on {when}, by {statement.key}")
    if len(links) > statement.length:
        found.unchecked.append(f"{len(links) - statement.length} links of the chain after the signed head")
    found.unchecked.append("the time of the signature: it is the registry's own word")
    return statement.length


def _days(age: float) -> str:
    return "today" if age < 1 else f"{age:.0f} day{'' if round(age) == 1 else 's'} ago"


def _covered(links: Sequence[Any], covered: int, kind: str, subject: Any) -> Any | None:
    """The newest link about something among those that the signature covers."""
    return next((link for link in reversed(links[:covered]) if (link.kind, link.subject) == (kind, subject)), None)


# Evaluations


@dataclass
class _Evaluation:
    """An evaluation as the folder has it.

    asked: question to number of variants and shard. stated: its leaves as they are listed; leaves: as the rows give
    them. values: of each question with rows, for the board's columns.
    """

    name: str
    document: Mapping[str, Any]
    asked: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    stated: dict[str, str] = field(default_factory=dict)
    few_shot: dict[str, str] = field(default_factory=dict)
    leaves: dict[str, str] = field(default_factory=dict)
    values: list[Values] = field(default_factory=list)

    @property
    def seal(self) -> str:
        return str(self.document["seal"])

    @property
    def benchmark(self) -> tuple[str, str]:
        """Name and version."""
        return self.document["specification"]["benchmark"]["name"], self.document["benchmark_version"]["version"]


@dataclass(frozen=True)
class _Question:
    """A question. digest: SHA-256 over it, to be continued; number: in its registry, as a site has it."""

    digest: Any
    answer: int
    subject: str | None
    text: str
    options: tuple[str, ...]
    number: int | None

    @property
    def lengths(self) -> dict[int, int]:
        """Option to bytes of its text."""
        return {option: len(text.encode()) for option, text in enumerate(self.options)}


_Questions = dict[tuple[str, str, bool, str], _Question]
"""Benchmark, version, whether it is an example, external id → question."""


def _question(row: Mapping[str, Any]) -> _Question:
    values = {name: row[name] for name in QUESTION_COLUMNS}
    if values["extra"] is not None:
        values["extra"] = decode(values["extra"], items=layout.MAX_ITEMS)
    digest = question_hash(SimpleNamespace(**values), list(enumerate(row["options"])))
    return _Question(digest, row["answer"], row["subject"], row["text"], tuple(row["options"]), row.get("question_id"))


def _rows(path: Path, key: str, found: Checked, *, kept: bool = True) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file; where it cannot be read, a problem that names the questions of the damaged part.

    kept: whether the caller keeps what it reads of them.
    """
    try:
        yield from parquet_rows(path, kept=kept)
    except IngestError as error:
        damaged = [str(name) for name in damaged_values(path, key)]
        found.questions += [name for name in damaged if name not in found.questions]
        named = f"; what is damaged is of question {_listed(damaged)}" if damaged else ""
        raise IngestError(f"{error}{named}") from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _leaf(questions: _Questions, one: _Evaluation, question: str, rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The leaf of a question that was asked; None where the folder lacks it, or says that it was not asked."""
    known, asked = questions.get((*one.benchmark, False, question)), one.asked.get(question)
    if known is None or asked is None:
        return None
    ordered = sorted(rows, key=lambda row: int(row["variant"]))
    return leaf_digest(
        (
            [row[name] for name in (*LEAF_COLUMNS, *(f"generation.{name}" for name in GENERATION_COLUMNS))]
            for row in ordered
        ),
        asked_header(known.digest, *asked),
    )


def _check_seal(one: _Evaluation, questions: _Questions, links: Sequence[Any], covered: int, found: Checked) -> bool:
    """Whether the rows of an evaluation give the seal that the signed chain has."""
    version = one.document["evaluation"]["seal_version"]
    if version != SEAL_VERSION:
        found.problems.append(f"{one.name}: its seal has version {version}, which can be checked in its registry only")
        return False
    for question in one.asked.keys() - one.leaves.keys():
        leaf = _leaf(questions, one, question, ())
        one.leaves[question] = leaf if leaf is not None else ""
    examples = {
        name: question.digest.hexdigest()
        for (benchmark, label, few_shot, name), question in questions.items()
        if few_shot and (benchmark, label) == one.benchmark and name in one.few_shot
    }
    rows = {**{f"example {name}": leaf for name, leaf in examples.items()}, **one.leaves}
    stated = {**{f"example {name}": leaf for name, leaf in one.few_shot.items()}, **one.stated}
    changed = sorted(name for name in rows.keys() | stated.keys() if rows.get(name) != stated.get(name))
    held = True
    if specification_digest(manifest_of(one.document, one.leaves, examples)) != one.seal:
        held = False
        known = specification_digest(manifest_of(one.document, one.stated, one.few_shot)) == one.seal
        if changed:
            found.questions += [name for name in changed if name not in found.questions]
            sure = "" if known else "; the list of leaves, or what else the seal covers, was changed as well"
            found.problems.append(f"{one.name}: question {_listed(changed)} is not as it was sealed{sure}")
        else:
            found.problems.append(f"{one.name}: its specification, its shards or its seal are not as they were sealed")
    elif changed:
        found.problems.append(
            f"{one.name}: the list of leaves says otherwise than the seal of question {_listed(changed)}"
        )
    if covered and _covered(links, covered, "seal", one.seal) is None:
        held = False
        found.problems.append(f"{one.name}: its seal {one.seal} is not in the chain that was signed")
    return held and bool(covered)


# A site


def _check_site(root: Path, trust: Trust, found: Checked, now: datetime) -> None:
    _check_sums(root, found)
    links, covered = _check_chain(json_of(root, f"{PROOF}/{CHAIN}"), trust, found, now)
    board = json_of(root, f"{PROOF}/{BOARD}")
    seals = _check_snapshot(board, links, covered, trust, found)
    questions = _questions(root, f"{DATA}/questions.parquet", None, found)
    functions = functions_of(board["snapshot"])
    evaluations = []
    for number in _numbers(root):
        at = f"{DATA}/{OF_EVALUATION}{number}/"
        evaluations.append(
            _read(root, at, _evaluation(root, at, links[:covered], found, number), questions, functions, found)
        )
    held = [_check_seal(one, questions, links, covered, found) for one in evaluations]
    present = {one.seal for one in evaluations}
    for seal in sorted(seals - present):
        found.problems.append(f"the board rests on an evaluation that is not in the folder: its seal is {seal}")
    for seal in sorted(present - seals):
        found.problems.append(f"an evaluation is in the folder that the board does not rest on: its seal is {seal}")
    if all(held) and found.ok:
        rows = sum(len(one.leaves) for one in evaluations)
        found.facts.append(f"{len(held)} evaluations and their {rows} questions are as they were sealed")
    _check_shown(root, board, found)
    if found.ok:
        _check_numbers(board["snapshot"], evaluations, found)
    else:
        found.unchecked.append("the board's numbers: they depend on what is wrong")
    found.unchecked.append(
        f"pages, and tables that are computed from the rows: {SUMS} lists them, and nobody signed that list"
    )


def _check_numbers(snapshot: Any, evaluations: Sequence[_Evaluation], found: Checked) -> None:
    values, documents = {one.seal: one.values for one in evaluations}, {one.seal: one.document for one in evaluations}
    problems, unchecked, checked = check_numbers(snapshot, values, documents)
    found.problems += problems
    found.unchecked += unchecked
    if not problems:
        found.facts.append(f"{checked} of the board's values, and their ranks, are what the rows give")
    found.unchecked.append("intervals, rank intervals and tiers: a registry that imports the archives recomputes them")


def _check_snapshot(board: Any, links: Sequence[Any], covered: int, trust: Trust, found: Checked) -> set[str]:
    """The seals that the board rests on."""
    snapshot = board["snapshot"]
    digest = snapshot_digest(snapshot)
    name = str(snapshot["board"])
    if trust.board is not None and name != trust.board:
        found.problems.append(f"this is the board {name!r}, and not {trust.board!r}")
    if covered:
        link = _covered(links, covered, "snapshot", digest)
        labels = snapshot_labels(board["board_digest"], datetime.fromisoformat(board["as_of"]))
        if link is None or link.labels != labels:
            found.problems.append(
                f"the board {name!r} is not one that this registry made: its snapshot {digest} is not in the chain "
                "that was signed"
            )
        else:
            found.facts.append(f"the board {name!r} as of {board['as_of'][:16]} is link {link.position} of the chain")
            later = [other for other in links[link.position : covered] if other.kind in ("snapshot", "withdrawal")]
            if later:
                found.facts.append(
                    f"{len(later)} snapshots and withdrawals are in the chain after it: of other boards, or of this one"
                )
    return {item["seal"] for row in snapshot["rows"] for item in row["evaluations"] if item is not None}


def _numbers(root: Path) -> list[int]:
    """The evaluations of a site: each has a folder."""
    folders = [path for path in (root / DATA).iterdir() if path.name.startswith(OF_EVALUATION)]
    return sorted(int(path.name.removeprefix(OF_EVALUATION)) for path in folders)


# The folder of an evaluation


def _questions(root: Path, name: str, version: tuple[str, str] | None, found: Checked) -> _Questions:
    """Questions by what they are of. version: name and version of the benchmark, where the rows do not say them."""
    return {
        (*(version or (row["benchmark"], row["benchmark_version"])), row["few_shot"], row["external_id"]): _question(
            row
        )
        for row in _rows(inside(root, name), "external_id", found)
    }


def _evaluation(root: Path, at: str, links: Sequence[Any], found: Checked, number: int | None = None) -> _Evaluation:
    """An evaluation by its folder. links: that the signature covers; number: in the registry that published it.

    at: before the names of the folder's files. Of its document all is told by the chain, before it is read.
    """
    file = f"{at}{EVALUATION}"
    folders = {link.subject for link in links if link.kind == "folder"}
    if not folders:
        found.unchecked.append(f"{file}, and metrics: the chain that was signed has no digest of the folder")
    elif sha256_file(inside(root, file)) not in folders:
        found.problems.append(f"{file}: is not one that the signed chain has")
    document = json_of(root, file)
    name = f"{document['specification']['model']['name']} on {document['specification']['benchmark']['name']}"
    return _Evaluation(name if number is None else f"evaluation {number} ({name})", document)


def _read(
    root: Path, at: str, one: _Evaluation, questions: _Questions, functions: Mapping[str, Any], found: Checked
) -> _Evaluation:
    """Reads the files of an evaluation's folder, which are those that its document lists. functions: of its values."""
    listed = one.document["files"]
    for file in sorted({*listed, *FILES} - {EVALUATION}):
        if sha256_file(inside(root, f"{at}{file}")) != listed[file]["sha256"]:
            found.problems.append(f"{one.name}: {at}{file} is not the file that its {EVALUATION} lists")
    try:
        for row in _rows(inside(root, f"{at}{ASKED}"), "question", found):
            if row["few_shot"]:
                one.few_shot[row["question"]] = row["leaf"]
                continue
            one.stated[row["question"]] = row["leaf"]
            one.asked[row["question"]] = (row["n_variants"], row["shard"])
        rows = _rows(inside(root, f"{at}{PREDICTIONS}"), "question", found, kept=False)
        for question, several in groupby(rows, key=lambda row: row["question"]):
            answers = _answers(one, question, map(plain, several))
            sealed = (row | {f"generation.{key}": row[f"{TEXT}{key}"] for key in GENERATION_COLUMNS} for row in answers)
            leaf = _leaf(questions, one, question, sealed)
            known = questions.get((*one.benchmark, False, question))
            if known is not None:
                if not _is_described(answers, one, known):
                    leaf = None
                if functions:
                    outcomes = _outcomes(answers, one, question, known)
                    one.values.append({key: function(outcomes) for key, function in functions.items()})
            # Rows of a question that stand apart from one another are not as they were written.
            one.leaves[question] = "" if leaf is None or question in one.leaves else leaf
    except IngestError as error:
        raise IngestError(f"{one.name}: {error}") from None
    return one


def _outcomes(
    rows: Sequence[Mapping[str, Any]], one: _Evaluation, name: str, question: _Question
) -> list[VariantOutcome]:
    variant_set = one.document["variant_set"]
    inserted = {int(key): len(text.encode()) for key, text in (variant_set.get("inserted") or {}).items()}
    definition = VariantSetDefinition(variant_set["kind"], variant_set["parameters"], variant_set.get("content"))
    text = QuestionText(name, question.subject, None, question.text, question.options, question.answer)
    keys = PromptKeys(definition, text, lists_options=lists_options(one.document["specification"]["protocol"]))
    repeats = one.document["evaluation"].get("repeats")
    return outcomes_of(rows, keys, question.answer, {**inserted, **question.lengths}, repeats)


def _answers(one: _Evaluation, question: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a question, and one more where there are more than it was asked in variants."""
    expected = one.asked[question][0] if question in one.asked else 0
    return list(islice(rows, min(expected, _MOST_VARIANTS) + 1))


def _is_described(rows: Sequence[Mapping[str, Any]], one: _Evaluation, question: _Question) -> bool:
    """Whether what the table of predictions repeats of a question and its variants is what these say."""
    count = len(question.options)
    names = {
        item["ordinal"]: item["name"] for item in one.document["variant_set"]["variants"] if item["n_options"] == count
    }

    def text(option: int | None) -> str | None:
        return question.options[option] if option is not None and 0 <= option < count else None

    return all(
        question.number in (None, row["question_id"])
        and (row["subject"], row["answer"]) == (question.subject, question.answer)
        and row["chosen_option_text"] == text(row["chosen_option"])
        and row["variant_name"] == names.get(row["variant"])
        for row in rows
    )


UNSIGNED: Final = ("cost", "conflict_of_interest", "tokens_per_answer")
"""What a board shows in addition to the rows of its snapshot."""


def _check_shown(root: Path, board: Any, found: Checked) -> None:
    """The board's own JSON, from which its page is made, says what the signed snapshot says."""
    snapshot = board["snapshot"]
    name = f"api/v1/boards/{snapshot['board']}.json"
    if not (root / name).exists():
        found.unchecked.append(f"{name}, which is missing")
        return
    shown = json_of(root, name)
    told = [{key: value for key, value in row.items() if key not in UNSIGNED} for row in shown["rows"]]
    if sorted(told, key=_row_key) != sorted(snapshot["rows"], key=_row_key) or any(
        shown.get(key) != snapshot[key] for key in snapshot.keys() - {"rows", "bootstrap"}
    ):
        found.problems.append(f"{name}: says something else than the signed snapshot")


def _row_key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["model"], row["revision"]


# A crate


def _check_crate(root: Path, trust: Trust, found: Checked, now: datetime) -> None:
    for name in layout.changed_files(root):
        found.problems.append(f"{name}: is not the file that {layout.METADATA} describes")
    if not (root / layout.PROOF).exists():
        found.problems.append(f"the archive has no {layout.PROOF}: it was written where there was no key")
        links: list[Any] = []
        covered = 0
    else:
        links, covered = _check_chain(json_of(root, layout.PROOF), trust, found, now)
    one = _evaluation(root, "", links[:covered], found)
    questions = _questions(root, layout.QUESTIONS, one.benchmark, found)
    _read(root, "", one, questions, {}, found)
    if _check_seal(one, questions, links, covered, found) and found.ok:
        found.facts.append(f"{one.name}: its {len(one.leaves)} questions are as they were sealed ({one.seal})")
