"""`shuffleboard apply`: brings a registry to the state that a file describes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry.boards.definition import read_board_file, read_suite_file
from registry.boards.wanted import Wanted
from registry.db import read_session, write_session
from registry.errors import IngestError, NotFoundError
from registry.files.toml import read_toml
from registry.lookups import model_named
from registry.names import plural
from registry.operations.opening import engine_of
from registry.settings import Settings
from registry.tables import Benchmark, BenchmarkVersion
from shuffleboard.cli.common import GivenFile, json_option, note, print_json, settings_of, wants_json
from shuffleboard.cli.files import require_kind
from shuffleboard.cli.tables import print_table, table_options

HERE: Final = "is here"
LATER: Final = "depends on the above"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BenchmarkEntry(_Strict):
    """A benchmark to fetch by its recipe (`fetch`), or to import from a file. name: the recipe's by default."""

    fetch: str | None = None
    file: Path | None = None
    name: str | None = None
    revision: str | None = None
    few_shot: Path | None = None
    language: str = "en"
    licence: str | None = None
    source: str | None = None
    visibility: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "BenchmarkEntry":
        if (self.fetch is None) == (self.file is None):
            message = "give fetch (a recipe's name) or file"
            raise ValueError(message)
        if self.file is not None and self.name is None:
            message = "a benchmark of a file needs a name"
            raise ValueError(message)
        return self


class ModelEntry(_Strict):
    """A model revision, with the options of `models add`."""

    name: str
    kind: str = "huggingface"
    location: str | None = None
    revision: str | None = None
    dtype: str | None = None
    quantisation: str | None = None
    adapter: str | None = None
    merged: bool | None = None
    family: str | None = None
    developer: str | None = None
    parameters: int | None = None
    licence: str | None = None
    released: str | None = None
    url: str | None = None


class SuiteEntry(_Strict):
    """A suite in a file, or a shipped suite whose benchmarks are to be fetched."""

    file: Path | None = None
    fetch: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "SuiteEntry":
        if (self.fetch is None) == (self.file is None):
            message = "give file, or fetch (a suite's name)"
            raise ValueError(message)
        return self


class BoardEntry(_Strict):
    """A board in a file."""

    file: Path


class Manifest(_Strict):
    """The described content of a registry. Paths are relative to the file."""

    benchmarks: tuple[BenchmarkEntry, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    suites: tuple[SuiteEntry, ...] = ()
    boards: tuple[BoardEntry, ...] = ()
    submit: tuple[Wanted, ...] = ()


@dataclass(frozen=True)
class Step:
    """A step of the plan. state: describes the present state. act: makes the change and describes it."""

    kind: str
    name: str
    state: Callable[[], str]
    act: Callable[[], str]


@click.command("apply")
@click.argument("file", type=GivenFile())
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@table_options
@json_option
def apply_command(file: Path, dry_run: bool) -> None:
    """Set up the contents of FILE (TOML): benchmarks, models, suites, boards, submissions.

    The plan is shown first. Existing things stay as they are, so you can apply a file again, and an interrupted run
    resumed. Nothing is ever removed.

    \b
      [[benchmarks]]
      fetch = "arc-challenge"
      [[models]]
      name = "smollm2"
      location = "HuggingFaceTB/SmolLM2-135M-Instruct"
      [[boards]]
      file = "board.toml"
      [[submit]]
      model = "smollm2"
      board = "our-board"
    """  # noqa: D301
    settings = settings_of()
    engine = engine_of(settings)
    require_kind(file, "apply")
    steps = list(_steps(read_manifest(file), file.parent, engine, settings))
    rows = [{"kind": step.kind, "name": step.name, "plan": step.state()} for step in steps]
    changed = 0
    if not wants_json():
        print_table(rows, {"kind": "Kind", "name": "Name", "plan": "Plan"}, f"{file}: describes nothing")
    if not dry_run:
        for step, row in zip(steps, rows, strict=True):
            if row["plan"] == HERE:
                continue
            row["done"] = step.act()
            changed += row["done"] != HERE
            note(f"{step.kind} {step.name}: {row['done']}")
    if wants_json():
        print_json({"steps": rows, "changed": changed, "dry_run": dry_run})
    elif not dry_run:
        click.echo(f"{changed} changed, {len(steps) - changed} unchanged")


def read_manifest(file: Path) -> Manifest:
    """Return the manifest in a file. Raises IngestError that names file, key and problem."""
    try:
        return Manifest.model_validate(read_toml(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise IngestError(f"{file.name}: {where}: {problem}; see the guide “Describe a registry”") from None


def _steps(manifest: Manifest, folder: Path, engine: Engine, settings: Settings) -> Iterator[Step]:
    for benchmark in manifest.benchmarks:
        yield _fetch(engine, benchmark) if benchmark.fetch else _import(engine, benchmark, folder)
    for model in manifest.models:
        yield _model(engine, settings, model)
    for suite in manifest.suites:
        yield from _suite(engine, suite, folder)
    for board in manifest.boards:
        yield _board(engine, folder / board.file)
    for submission in manifest.submit:
        yield _submit(engine, submission)


def _fetch(engine: Engine, entry: BenchmarkEntry) -> Step:
    from registry.benchmarks.recipes import recipe_named
    from shuffleboard.cli.fetch import fetch_and_store

    recipe = recipe_named(str(entry.fetch))
    overridden = {"name": entry.name, "visibility": entry.visibility, "licence": entry.licence}
    recipe = recipe.model_copy(update={key: value for key, value in overridden.items() if value is not None})
    commit = entry.revision or recipe.revision

    def state() -> str:
        with read_session(engine) as session:
            sources = session.scalars(
                select(BenchmarkVersion.source).join(Benchmark).where(Benchmark.name == recipe.name)
            ).all()
        # A branch may have moved on; a benchmark that is already here is not fetched again because of that.
        pinned = commit is not None and len(commit) == 40
        stored = any(f"@{commit}/" in str(source) for source in sources) if pinned else bool(sources)
        return HERE if stored else f"fetch {recipe.repository}@{commit or 'main'}"

    def act() -> str:
        return "fetched" if fetch_and_store(recipe, revision=entry.revision)["fetched"] else HERE

    return Step("benchmark", recipe.name, state, act)


def _import(engine: Engine, entry: BenchmarkEntry, folder: Path) -> Step:
    from registry.benchmarks.contract import read_benchmark
    from registry.benchmarks.store import import_benchmark

    assert entry.file is not None
    content = read_benchmark(folder / entry.file, few_shot=None if entry.few_shot is None else folder / entry.few_shot)
    name = str(entry.name)

    def state() -> str:
        same = (
            select(BenchmarkVersion)
            .join(Benchmark)
            .where(Benchmark.name == name, BenchmarkVersion.content_digest == content.content_digest)
        )
        with read_session(engine) as session:
            return f"import {entry.file}" if session.scalar(same) is None else HERE

    def act() -> str:
        with write_session(engine) as session:
            _, new = import_benchmark(
                session,
                content,
                name=name,
                language=entry.language,
                licence=entry.licence,
                source=entry.source,
                visibility=entry.visibility,
            )
        return "imported" if new else HERE

    return Step("benchmark", name, state, act)


def _model(engine: Engine, settings: Settings, entry: ModelEntry) -> Step:
    from registry.revisions.store import RevisionRequest, add_revision, request_of
    from shuffleboard.cli.models import inspect_here

    request = RevisionRequest(
        entry.kind, entry.location, entry.revision, entry.dtype, entry.quantisation, entry.adapter, entry.merged
    ).checked()
    keys = ("family", "developer", "parameters", "licence", "released", "url")

    def state() -> str:
        with read_session(engine) as session:
            model = model_named(session, entry.name)
            registered = model is not None and any(request == request_of(revision) for revision in model.revisions)
        return HERE if registered else f"register {entry.kind} {entry.location or ''}".rstrip()

    def act() -> str:
        files = inspect_here(request, settings)
        with write_session(engine) as session:
            _, new = add_revision(session, entry.name, request, {key: getattr(entry, key) for key in keys}, files)
        return "registered" if new else HERE

    return Step("model", entry.name, state, act)


def _suite(engine: Engine, entry: SuiteEntry, folder: Path) -> Iterator[Step]:
    from registry.boards.store import import_suite, suite_definition
    from registry.lookups import find_suite

    if entry.fetch is None:
        assert entry.file is not None
        definition = read_suite_file(folder / entry.file)
        yield _store(engine, "suite", definition.name, lambda session: import_suite(session, definition)[1])
        return
    with read_session(engine) as session:
        names = suite_definition(find_suite(session, entry.fetch)).benchmarks
    for name in names:
        yield _fetch(engine, BenchmarkEntry(fetch=name))


def _board(engine: Engine, file: Path) -> Step:
    from registry.boards.store import import_board

    definition = read_board_file(file)
    return _store(engine, "board", definition.name, lambda session: import_board(session, definition)[1])


def _submit(engine: Engine, entry: Wanted) -> Step:
    submit = entry.plan(read_files=True)
    wanted = f"{entry.model} for {entry.suite or entry.board or entry.benchmark}"
    return _store(engine, "submission", wanted, lambda session: sum(new for _, new in submit(session)))


def _store(engine: Engine, kind: str, name: str, store: Callable[[Session], int | bool]) -> Step:
    """Return a step that finds its state by storing and rolling back."""

    def state() -> str:
        with Session(engine) as session:
            try:
                new = store(session)
            except NotFoundError:
                return LATER
            finally:
                session.rollback()
        return _describe_result(kind, new) if new else HERE

    def act() -> str:
        with write_session(engine) as session:
            new = store(session)
        return _describe_result(kind, new) if new else HERE

    return Step(kind, name, state, act)


def _describe_result(kind: str, new: int | bool) -> str:
    return f"{plural(int(new), 'evaluation')} queued" if kind == "submission" else "loaded"
