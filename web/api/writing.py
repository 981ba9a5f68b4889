"""What the command line writes, over the API: models, benchmarks, evaluations, suites, boards."""

from pathlib import Path
from typing import Any, Final, NoReturn

from flask import Response, request, url_for
from sqlalchemy.orm import Session

from registry.api import documents
from registry.benchmarks import import_benchmark, read_benchmark, set_visibility
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.store import import_board, import_suite, submit_board, submit_suite
from registry.boards.submissions import check_hub_name
from registry.db import MAX_INTEGER, write_session
from registry.errors import ModelError, UsageError
from registry.people import accounts
from registry.queue.estimate import Plan, estimates
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.hints import hints_of, send_hints
from registry.results.reports import evaluation_metrics
from registry.revisions.store import RevisionRequest, add_revision
from registry.tables import VISIBILITIES, BenchmarkVersion, Evaluation, ModelRevision
from web import parameters
from web.api import arguments, bodies
from web.api.operations import Upload, answer, change, get
from web.identity import settings_of, viewer
from web.responses import engine, session

_LINES: Final = {
    "application/x-ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "text/csv": ".csv",
}
BENCHMARK_FILE: Final = Upload({**_LINES, "application/vnd.apache.parquet": ".parquet"}, optional=("fewshot",))
OUTPUTS_FILE: Final = Upload({**_LINES, "application/json": ".json", "application/zip": ".eval"})
_DESCRIPTION: Final = ("family", "developer", "parameters", "licence", "url")


def audited(database: Session, action: str, target: str, **details: Any) -> None:
    """Adds to the audit trail in the transaction of what was done."""
    accounts.record(database, viewer(), action, target, address=request.remote_addr, details=details or None)


# Models


@change(
    "POST",
    "/models",
    documents.RegisteredModel,
    tag="registry",
    scope="maintain",
    body=bodies.ModelBody,
    statuses={201: "Registered.", 200: "The same revision is there already."},
    conflicts=True,
)
def add_model(body: bodies.ModelBody) -> Response:
    """Registers a model revision; a worker hashes its files, or asks its endpoint, before it can be used.

    Files and folders are registered on the command line of the machine that has them: a location is never a path here.
    """
    if body.kind == "huggingface":
        check_hub_name(body.location or "")
    elif body.kind == "external" and body.location is not None:
        raise UsageError("an external model has no location; its page belongs in url")
    if body.url is not None and not body.url.startswith(("https://", "http://")):
        raise UsageError(f"url {parameters.shorten(body.url)}: give an http or https address")
    wanted = RevisionRequest(
        body.kind, body.location, body.revision, body.dtype, body.quantisation, key_reference=body.key
    )
    with write_session(engine()) as database:
        row, new = add_revision(database, body.name, wanted, {key: getattr(body, key) for key in _DESCRIPTION})
        document = _model(row) | {"added": new}
        audited(database, "model.add", f"{body.name}@{row.number}", added=new)
    return answer(document, status=201 if new else 200)


def _model(row: ModelRevision) -> dict[str, Any]:
    return {
        "model": row.model.name,
        "revision": row.number,
        "kind": row.kind,
        "state": row.state,
        "dtype": row.dtype,
        "quantisation": row.quantisation,
        "url": url_for("pages.model", model=row.model.name),
    }


# Benchmarks

_NAME: Final = arguments.Argument(
    "name",
    "Name in the registry.",
    {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,200}$"},
    lambda given: parameters.name("benchmark", given.get("name", "")),
    required=True,
)
_VERSION: Final = arguments.words("version", "Name of this content. Default: the start of its digest.")
_SPLIT: Final = arguments.words("split", "Which lines are questions, where the file marks several splits.")
_LANGUAGE: Final = arguments.words("language", "Language of the questions (ISO 639). Default: en.")
_LICENCE: Final = arguments.words("licence", "Licence of the questions, such as MIT.")
_SOURCE: Final = arguments.words("source", "Where the questions come from.")
_SHUFFLE: Final = arguments.bound(
    "shuffle_options", "Seed, for benchmarks whose answer always comes first.", MAX_INTEGER
)
_VISIBILITY: Final = arguments.choice(
    "visibility", "Who may see it. Default: as the newest version, public for the first.", VISIBILITIES
)


@change(
    "POST",
    "/benchmarks",
    documents.ImportedBenchmark,
    tag="registry",
    scope="maintain",
    upload=BENCHMARK_FILE,
    query=(_NAME, _VERSION, _SPLIT, _LANGUAGE, _LICENCE, _SOURCE, _SHUFFLE, _VISIBILITY),
    statuses={201: "Imported.", 200: "The same content is there already."},
)
def import_benchmark_file(files: dict[str, Path]) -> Response:
    """Imports a benchmark from a file: JSON Lines, CSV or Parquet, checked as a whole before anything is stored."""
    given = request.args
    name = _NAME.read(given)
    content = read_benchmark(
        files["file"],
        split=_SPLIT.read(given),
        few_shot=files.get("fewshot"),
        shuffle_seed=_SHUFFLE.read(given),
    )
    with write_session(engine()) as database:
        row, new = import_benchmark(
            database,
            content,
            name=name,
            version=_VERSION.read(given),
            language=_LANGUAGE.read(given) or "en",
            licence=_LICENCE.read(given),
            source=_SOURCE.read(given),
            visibility=_VISIBILITY.read(given) or None,
        )
        document = _benchmark(row) | {"imported": new}
        audited(database, "benchmark.import", f"{name}@{row.version}", visibility=row.visibility, imported=new)
    return answer(document, status=201 if new else 200)


def _benchmark(row: BenchmarkVersion) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark.name,
        "version": row.version,
        "visibility": row.visibility,
        "questions": row.questions,
        "few_shot_examples": row.few_shot_examples,
        "content_digest": row.content_digest,
    }


@change(
    "PATCH",
    "/benchmarks/<benchmark>",
    documents.ChangedVisibility,
    tag="registry",
    scope="maintain",
    body=bodies.VisibilityBody,
    statuses={200: "Changed."},
)
def change_visibility(benchmark: str, body: bodies.VisibilityBody) -> Response:
    """Changes who may see a benchmark with all that was measured on it: everybody, members, or maintainers alone."""
    name = parameters.name("benchmark", benchmark)
    reference = name if body.version is None else f"{name}@{body.version}"
    with write_session(engine()) as database:
        versions = [row.version for row in set_visibility(database, reference, body.visibility)]
        audited(database, "benchmark.visibility", reference, visibility=body.visibility)
    return answer({"benchmark": name, "visibility": body.visibility, "versions": versions})


# Evaluations


def _plan(body: bodies.EvaluationBody) -> Plan:
    """What queues all that a body asks for."""
    options: dict[str, Any] = {"priority": body.priority, "queue": body.queue, "requester": viewer().name}

    def submit_all(database: Session) -> list[tuple[Evaluation, bool]]:
        if body.board is not None:
            return submit_board(database, body.model, body.board, **options)
        if body.suite is not None:
            return submit_suite(database, body.model, body.suite, body.benchmarks, **options)
        wanted = EvaluationRequest(
            model=body.model,
            benchmark=body.benchmark or "",
            variants=body.variants or "",
            protocol=body.protocol or "symbols",
            shots=body.shots or 0,
            limit=body.limit,
            subjects=tuple(body.subjects),
            options=body.options,
            new_replicate=body.replicate,
            **options,
        )
        return [submit(database, wanted)]

    return submit_all


@change(
    "POST",
    "/evaluations",
    documents.AskedEvaluations,
    tag="results",
    scope="maintain",
    body=bodies.EvaluationBody,
    statuses={201: "Queued, as far as it was not there.", 200: "All of it is there already."},
    conflicts=True,
)
def submit_evaluations(body: bodies.EvaluationBody) -> Response:
    """Queues a model on a benchmark under a set of variants, or all that a suite or a board lacks of it.

    The same specification is one evaluation: asking again answers with the one that is there.
    """
    plan = _plan(body)
    with write_session(engine()) as database:
        found = plan(database)
        ids = [evaluation.id for evaluation, _ in found]
        new = [evaluation.id for evaluation, is_new in found if is_new]
        hints = [hint for evaluation_id in new for hint in hints_of(database, evaluation_id)]
        audited(database, "evaluation.submit", body.model, evaluations=ids[:100], new=len(new))
    send_hints(settings_of(), hints)
    return answer({"evaluations": ids, "new": new}, status=201 if new else 200)


@change(
    "POST",
    "/evaluations/estimate",
    documents.Estimate,
    tag="results",
    scope="maintain",
    body=bodies.EvaluationBody,
    statuses={200: "What it would cost; nothing is queued."},
    conflicts=True,
)
def estimate_evaluations(body: bodies.EvaluationBody) -> Response:
    """Counts what queueing the same would ask; nothing is queued. What is not known is null, with the reason."""
    return answer(estimates(engine(), _plan(body), body.queue, _no_tokeniser))


def _no_tokeniser(_revision: ModelRevision) -> NoReturn:
    raise ModelError("the website has no tokenizers; `shuffleboard evaluations estimate` counts tokens beside a worker")


def _move(evaluation_id: str, action: str) -> Response:
    number = parameters.identifier("evaluation", evaluation_id)
    with write_session(engine()) as database:
        state = move(database, number, action).state
        hints = hints_of(database, number) if state in ("queued", "running") else []
        audited(database, f"evaluation.{action}", str(number), state=state)
    send_hints(settings_of(), hints)
    return answer({"evaluation": number, "state": state})


@change(
    "POST",
    "/evaluations/<evaluation_id>/pause",
    documents.EvaluationState,
    tag="results",
    scope="maintain",
    statuses={200: "Paused."},
    conflicts=True,
)
def pause_evaluation(evaluation_id: str) -> Response:
    """Begins no further shard; those being scored finish."""
    return _move(evaluation_id, "pause")


@change(
    "POST",
    "/evaluations/<evaluation_id>/resume",
    documents.EvaluationState,
    tag="results",
    scope="maintain",
    statuses={200: "Going on."},
    conflicts=True,
)
def resume_evaluation(evaluation_id: str) -> Response:
    """Goes on with a paused evaluation."""
    return _move(evaluation_id, "resume")


@change(
    "POST",
    "/evaluations/<evaluation_id>/cancel",
    documents.EvaluationState,
    tag="results",
    scope="maintain",
    statuses={200: "Cancelled."},
    conflicts=True,
)
def cancel_evaluation(evaluation_id: str) -> Response:
    """Gives an evaluation up; what is stored stays."""
    return _move(evaluation_id, "cancel")


@change(
    "POST",
    "/evaluations/<evaluation_id>/retry",
    documents.EvaluationState,
    tag="results",
    scope="maintain",
    statuses={200: "Queued again."},
    conflicts=True,
)
def retry_evaluation(evaluation_id: str) -> Response:
    """Queues the parked and cancelled shards of an evaluation again, their counts at zero."""
    return _move(evaluation_id, "retry")


def _needed(name: str, description: str) -> arguments.Argument[str]:
    def read(given: parameters.Arguments) -> str:
        value = parameters.text(given, name)
        if value is None:
            raise UsageError(f"parameter {name!r} is missing; give it in the address")
        return value

    return arguments.Argument(
        name, description, {"type": "string", "minLength": 1, "maxLength": 200}, read, required=True
    )


_MODEL: Final = _needed("model", "Model NAME that the outputs are of, registered as external.")
_BENCHMARK: Final = _needed("benchmark", "Benchmark NAME, or NAME@VERSION.")
_VARIANTS: Final = _needed("variants", "Kind of variants shown, or imported for any orders.")
_PROTOCOL: Final = arguments.words("protocol", "How the model was asked. Default: symbols.")
_SHOTS: Final = arguments.whole("shots", "Few-shot examples it was shown.", 0, 1000, 0)
_SELECT: Final = arguments.words("select", "Variant types of IBM/cat's layout.")
_COLUMN: Final = arguments.words("column", "The model's column in a table of letters.")


@change(
    "POST",
    "/evaluations/import",
    documents.ImportedOutputs,
    tag="results",
    scope="maintain",
    upload=OUTPUTS_FILE,
    query=(_MODEL, _BENCHMARK, _VARIANTS, _PROTOCOL, _SHOTS, _SELECT, _COLUMN),
    statuses={201: "Imported, and sealed where nothing is missing."},
    conflicts=True,
)
def import_outputs_file(files: dict[str, Path]) -> Response:
    """Imports other people's outputs; importing again makes a new replicate. The file is checked as a whole first."""
    given = request.args
    # numpy comes with it.
    from registry.exchange.outputs import Comparison, ImportRequest, import_outputs

    wanted = ImportRequest(
        files["file"],
        _MODEL.read(given),
        _BENCHMARK.read(given),
        _VARIANTS.read(given),
        _PROTOCOL.read(given) or "symbols",
        _SHOTS.read(given),
        _SELECT.read(given),
        _COLUMN.read(given),
        requester=viewer().name,
    )
    comparisons: list[Comparison] = []
    evaluation_id = import_outputs(engine(), wanted, compared=comparisons.append)
    with write_session(engine()) as database:
        audited(database, "evaluation.import", str(evaluation_id), model=wanted.model, benchmark=wanted.benchmark)
    stated = comparisons[0].document() if comparisons else None
    return answer({"evaluation": evaluation_id, "stated": stated}, status=201)


_PER_QUESTION: Final = arguments.flag("per_question", "Also the metrics of each question, by its external id.")
_WITHOUT_FLAGGED: Final = arguments.flag(
    "without_flagged", "Only questions whose options neither refer to each other nor are sorted numbers."
)


@get(
    "/evaluations/<evaluation_id>/metrics",
    documents.EvaluationMetrics,
    tag="results",
    query=(_PER_QUESTION, _WITHOUT_FLAGGED),
)
def evaluation_metric_values(evaluation_id: str) -> Response:
    """Every metric of an evaluation by name, as `shuffleboard metrics` prints them; null where undefined."""
    number = parameters.identifier("evaluation", evaluation_id)
    return answer(
        evaluation_metrics(
            session(),
            number,
            without_flagged=_WITHOUT_FLAGGED.read(request.args),
            per_question=_PER_QUESTION.read(request.args),
        )
    )


@get("/evaluations/<evaluation_id>/verification", documents.Verification, tag="results", scope="maintain")
def verification(evaluation_id: str) -> Response:
    """Computes anew what is stored of a sealed evaluation and lists what does not match, as `shuffleboard verify` does.

    This takes as long as the evaluation is large.
    """
    # numpy comes with it.
    from registry.verification import verify_evaluation

    return answer(verify_evaluation(session(), parameters.identifier("evaluation", evaluation_id)))


# Suites and boards


@change(
    "POST",
    "/suites",
    documents.ImportedSuite,
    tag="boards",
    scope="maintain",
    body=SuiteDefinition,
    statuses={201: "Loaded.", 200: "The same definition is there already."},
)
def load_suite(body: SuiteDefinition) -> Response:
    """Loads a suite: the keys of its TOML file as JSON. A changed definition is a new version of its name."""
    with write_session(engine()) as database:
        row, new = import_suite(database, body)
        document = {"suite": row.name, "version": row.version, "digest": row.digest, "new": new}
        audited(database, "suite.import", f"{row.name}@{row.version}", new=new)
    return answer(document, status=201 if new else 200)


@change(
    "POST",
    "/boards",
    documents.ImportedBoard,
    tag="boards",
    scope="maintain",
    body=BoardDefinition,
    statuses={201: "Loaded.", 200: "The same definition is there already."},
)
def load_board(body: BoardDefinition) -> Response:
    """Loads a board, on the newest versions of its benchmarks: the keys of its TOML file as JSON."""
    with write_session(engine()) as database:
        row, new = import_board(database, body)
        document = {"board": row.name, "version": row.version, "digest": row.digest, "new": new}
        audited(database, "board.import", f"{row.name}@{row.version}", new=new)
    # numpy comes with it, which nothing else here needs.
    from registry.boards.snapshots import refresh_boards

    refresh_boards(engine())
    return answer(document, status=201 if new else 200)
