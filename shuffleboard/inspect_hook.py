"""A hook of Inspect AI that imports the log of `shuffleboard/permuted` into a registry when the task ends.

It does so if `SHUFFLEBOARD_URL` names a registry or `SHUFFLEBOARD_DATABASE_URL` a database, and ignores logs of other
tasks.
"""

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from inspect_ai.hooks import Hooks, TaskEnd, hooks

from registry.errors import ShuffleboardError, UsageError
from registry.logs.format import METADATA
from registry.logs.recognition import log_questions
from registry.prompting.variants import parse_variants
from registry.settings import Settings, get_settings

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


def import_log(path: Path, model: str, benchmark: str, variants: str, settings: Settings, names: dict[str, str]) -> str:
    """Import a log, with its model and benchmark if the registry lacks them; return the evaluation's address.

    names: `model` and `benchmark` from the evaluation's metadata, which replace the log's names.
    """
    model = names.get("model") or _NO_NAME.sub("-", model)
    benchmark = names.get("benchmark") or _NO_NAME.sub("-", benchmark.rpartition("/")[2])
    with tempfile.TemporaryDirectory(prefix="shuffleboard-") as folder:
        questions = Path(folder) / "questions.jsonl"
        lines = [json.dumps(question, ensure_ascii=False) + "\n" for _, question in log_questions(path)]
        questions.write_text("".join(lines), encoding="utf-8")
        if settings.url:
            return _send(path, model, benchmark, variants, settings, questions)
        return _store(path, model, benchmark, variants, settings, questions)


def _send(path: Path, model: str, benchmark: str, variants: str, settings: Settings, questions: Path) -> str:
    from shuffleboard.client import Client

    client = Client(settings.url, token=settings.token or None)
    if model not in {row["model"] for row in client.models()}:
        client.add_model(model, "external")
    if benchmark not in {row["benchmark"] for row in client.benchmarks()}:
        client.import_benchmark(questions, benchmark)
    answer = client.import_outputs(path, model, benchmark, variants)
    return f"{settings.url.rstrip('/')}/evaluations/{answer['evaluation']}"


def _store(path: Path, model: str, benchmark: str, variants: str, settings: Settings, questions: Path) -> str:
    from registry.benchmarks.contract import read_benchmark
    from registry.benchmarks.store import import_benchmark
    from registry.db import write_session
    from registry.errors import NotFoundError
    from registry.logs.imports.importer import ImportRequest, import_outputs
    from registry.lookups import find_revision, find_version
    from registry.operations.opening import engine_of
    from registry.revisions.store import RevisionRequest, add_revision

    engine = engine_of(settings)
    with write_session(engine) as session:
        try:
            find_revision(session, model)
        except NotFoundError:
            add_revision(session, model, RevisionRequest("external"))
        try:
            find_version(session, benchmark)
        except NotFoundError:
            import_benchmark(session, read_benchmark(questions), name=benchmark)
    return f"evaluation {import_outputs(engine, ImportRequest(path, model, benchmark, variants))}"


@hooks(name="shuffleboard_import", description="Imports logs of shuffleboard/permuted into a registry")
class ImportHook(Hooks):  # type: ignore[misc, unused-ignore]
    """Imports each finished log of our task; prints its address on stderr, or why it was not imported."""

    def enabled(self) -> bool:
        """Return whether the settings name a registry or a database."""
        settings = get_settings()
        return bool(settings.url or settings.database_url)

    async def on_task_end(self, data: TaskEnd) -> None:
        """Import the log of a permuted task that succeeded."""
        log = data.log
        metadata: dict[str, Any] = log.eval.metadata or {}
        ours = metadata.get(METADATA)
        if not isinstance(ours, dict) or log.status != "success":
            return
        try:
            where = await asyncio.to_thread(self._import, log, ours, metadata)
        except ShuffleboardError as error:
            sys.stderr.write(f"shuffleboard: {log.location} was not imported: {error}\n")
        else:
            sys.stderr.write(f"shuffleboard: {log.location} is {where}\n")

    @staticmethod
    def _import(log: Any, ours: dict[str, Any], metadata: dict[str, Any]) -> str:
        path = Path(str(log.location).removeprefix("file://"))
        if not path.is_file():
            raise UsageError(f"{log.location} is not a file of this machine; fetch it and import it")
        variants = parse_variants(str(ours["variants"])).asked(log.eval.config.epochs or 1).name
        names = {name: str(metadata[name]) for name in ("model", "benchmark") if metadata.get(name)}
        return import_log(path, log.eval.model, str(ours["task"]), variants, get_settings(), names)
