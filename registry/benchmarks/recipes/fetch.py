"""Fetching a benchmark by its recipe: from the hub, or from a folder into which another machine downloaded it."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.contract import FEW_SHOT, BenchmarkFile, check_benchmark
from registry.benchmarks.lines import Place, read_lines
from registry.benchmarks.recipes.recipe import Files, Recipe
from registry.benchmarks.recipes.rows import documents
from registry.digests import sha256_file, specification_digest
from registry.errors import IngestError
from registry.files.documents import as_written, read_document
from registry.files.hub import Snapshot, Source, download, snapshot_folder
from registry.proposals import propose

MANIFEST: Final = "fetched.json"


@dataclass(frozen=True)
class Fetched:
    """Fetched and checked content of a benchmark, before it is stored.

    source: its origin, including the commit. remarks: differences from the recipe.
    """

    recipe: Recipe
    content: BenchmarkFile
    commit: str
    source: str
    remarks: tuple[str, ...]


def fetch(recipe: Recipe, *, revision: str | None = None, folder: Path | None = None) -> Fetched:
    """Fetch and check a benchmark, from the hub or from a folder that `fetch_to` filled.

    revision: replaces the recipe's. Without it, the number of questions must be that of the recipe.

    Raises IngestError.
    """
    snapshot = _download(recipe, revision) if folder is None else _from_folder(recipe, folder)
    content = check_benchmark(
        _documents(recipe, snapshot),
        name=recipe.repository,
        file_digest=specification_digest({name: sha256_file(path) for name, path in snapshot.files}),
        shuffle_seed=recipe.shuffle_seed,
    )
    _require_varied_positions(recipe, content)
    remarks = []
    if recipe.columns.answer.first:
        remarks.append(
            "the right option always comes first, so each question's options are put into an order drawn by seed "
            f"{recipe.shuffle_seed}"
        )
    if revision is None and recipe.revision in (None, snapshot.commit):
        _require_count(recipe, snapshot, recipe.questions, "questions", len(content.questions))
        if recipe.few_shot is not None:
            _require_count(recipe, snapshot, recipe.few_shot, "few-shot examples", len(content.pool))
        if recipe.content_digest not in (None, content.content_digest):
            remarks.append(
                f"content digest {content.content_digest[:12]}…, not {str(recipe.content_digest)[:12]}…, which the "
                "recipe has from another copy of the same questions"
            )
    else:
        remarks.append(f"the recipe's number of questions was not compared with commit {snapshot.commit[:12]}")
    return Fetched(recipe, content, snapshot.commit, recipe_source(recipe, snapshot.commit), tuple(remarks))


def recipe_source(recipe: Recipe, commit: str) -> str:
    """Return a benchmark's source in the form stored with its version."""
    return f"hf://datasets/{recipe.repository}@{commit}/{recipe.questions.files}"


def fetch_to(recipe: Recipe, folder: Path, *, revision: str | None = None) -> Path:
    """Download a benchmark's files into a folder of the benchmark's name, with their digests; return that folder.

    A failure leaves nothing behind.
    """
    snapshot = _download(recipe, revision)
    target = folder / recipe.name
    part = folder / f".{recipe.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        for name, path in snapshot.files:
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, part / name)
        digests = {name: sha256_file(part / name) for name, _ in snapshot.files}
        manifest = {"repository": recipe.repository, "commit": snapshot.commit, "files": digests}
        (part / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise IngestError(
            f"{folder}: cannot be written ({error.strerror or error}); check the folder and the disk"
        ) from None
    return target


def _require_varied_positions(recipe: Recipe, content: BenchmarkFile) -> None:
    """Reject a benchmark whose right option is at one position in every question: it would measure the position."""
    if content.only_place is not None:
        raise IngestError(
            f"{recipe.repository}: the right option is number {content.only_place + 1} in all {len(content.questions)} "
            "questions, so a model that always chooses that position would be right. Draw an order for each with "
            "--shuffle-options SEED (shuffle_seed in a recipe), or check which column holds the key"
        )


def sample_rows(content: BenchmarkFile, rows: int = 3) -> list[dict[str, Any]]:
    """Return the first fetched questions in their stored form."""
    return [
        {
            "id": question.external_id,
            "subject": question.subject,
            "question": question.text,
            "options": list(question.options),
            "answer": question.answer,
            **({} if question.context is None else {"context": question.context}),
        }
        for question in content.questions[:rows]
    ]


def _download(recipe: Recipe, revision: str | None) -> Snapshot:
    return download(Source("dataset", recipe.repository, revision or recipe.revision), recipe.patterns)


def _from_folder(recipe: Recipe, folder: Path) -> Snapshot:
    fetched = folder / recipe.name
    if not (fetched / MANIFEST).is_file():
        raise IngestError(
            f"{fetched}: holds no {MANIFEST}; fill it where there is a connection: "
            f"{propose('benchmarks fetch', recipe.name, '--to', folder)}"
        )
    with as_written(str(fetched / MANIFEST), "fetch it --to again"):
        manifest = read_document(fetched / MANIFEST, str(fetched / MANIFEST))
        commit, digests = manifest["commit"], dict(manifest["files"])
    for name, digest in digests.items():
        path = fetched / str(name)
        if not path.resolve().is_relative_to(fetched.resolve()) or not path.is_file():
            raise IngestError(f"{path}: is missing; fetch {recipe.name} --to the folder again")
        if sha256_file(path) != digest:
            raise IngestError(f"{path}: does not have the digest that {MANIFEST} states; copy it again")
    snapshot = snapshot_folder(
        lambda problem: IngestError(f"{fetched}: {problem}"), fetched, str(commit), recipe.patterns
    )
    unnamed = [name for name, _ in snapshot.files if name not in digests]
    if unnamed:
        raise IngestError(f"{fetched / unnamed[0]}: is not among the files that {MANIFEST} lists; fetch it --to again")
    return snapshot


def _documents(recipe: Recipe, snapshot: Snapshot) -> Iterator[tuple[Place, dict[str, Any]]]:
    yield from _read_part(recipe, snapshot, recipe.questions, recipe.questions.split)
    if recipe.few_shot is not None:
        yield from _read_part(recipe, snapshot, recipe.few_shot, FEW_SHOT)
    if recipe.examples is not None:
        for place, document in read_lines(recipe.examples):
            yield place, document | {"split": FEW_SHOT}


def _read_part(recipe: Recipe, snapshot: Snapshot, part: Files, mark: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    files = snapshot.matching(part.files)
    columns = recipe.columns.model_copy(update={"id": (part.id or recipe.columns.id).replace("{split}", part.split)})
    for place, document in documents(files, part, columns, recipe.repository):
        yield place, document | {"split": mark}


def _require_count(recipe: Recipe, snapshot: Snapshot, part: Files, what: str, count: int) -> None:
    if part.count not in (None, count):
        raise IngestError(
            f"{recipe.repository}@{snapshot.commit}: has {count} {what}, not {part.count}, which is what the recipe is "
            f"of; try again, or take it as it is with --revision {snapshot.commit}"
        )
