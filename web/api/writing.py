"""The command line's changes over the API: models, benchmarks, evaluations, suites, boards."""

from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from flask import Response, request, url_for
from pydantic import Field
from sqlalchemy.orm import Session

from registry.benchmarks.store import set_visibility
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import check_hub_name
from registry.boards.wanted import ToEstimate, Wanted
from registry.db import MAX_INTEGER, pick, read_session, utc_text, write_session
from registry.errors import ModelError, UsageError
from registry.fields import Between, OneOf
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_evaluation
from registry.names import split_reference
from registry.people import accounts
from registry.proposals import propose
from registry.queue.estimate import estimates
from registry.queue.evaluations import move
from registry.revisions.store import RevisionRequest, add_revision
from registry.tables import VISIBILITIES, ModelRevision
from web.api import answers, bodies
from web.api.operations import View, answer, change, get
from web.api.paths import BenchmarkName, EvaluationId
from web.api.uploads import Upload
from web.orders import run_order
from web.serving.responses import session
from web.shown.studies import cluster_intervals, repeat_noise
from web.urls.parameters import Name, NoiseFrom, Papers, Query, Text, YesOrNo, shorten
from web.who.identity import engine, viewer

_LINES: Final = {
    "application/x-ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
BENCHMARK_FILE: Final = Upload({**_LINES, "application/vnd.apache.parquet": ".parquet"}, optional=("fewshot",))
OUTPUTS_FILE: Final = Upload({**_LINES, "application/json": ".json", "application/zip": ".eval"})
_MODEL: Final = ("kind", "state", "dtype", "quantisation")
_DESCRIPTION: Final = ("family", "developer", "parameters", "licence", "released", "url")


def audit_change(database: Session, action: str, target: str, **details: Any) -> None:
    """Add an event to the audit trail in the transaction of the change."""
    accounts.record(database, viewer(), action, target, address=request.remote_addr, details=details or None)


# Models


@change(
    "POST",
    "/models",
    answers.RegisteredModel,
    tag="registry",
    scope="maintain",
    statuses={201: "Registered.", 200: "The same revision is there already."},
    conflicts=True,
)
def add_model(body: bodies.ModelBody) -> Response:
    """Register a model revision; a worker hashes its files, or checks its endpoint, before it can be used.

    Files and folders are registered on the command line of the machine that has them: a location is never a path here.
    """
    if body.kind == "huggingface":
        check_hub_name(body.location or "")
        if body.adapter is not None:
            check_hub_name(split_reference(body.adapter)[0])
    elif body.kind == "external" and body.location is not None:
        raise UsageError("an external model has no location; its page belongs in url")
    if body.url is not None and not body.url.startswith(("https://", "http://")):
        raise UsageError(f"url {shorten(body.url)}: give an http or https address")
    wanted = RevisionRequest(
        body.kind, body.location, body.revision, body.dtype, body.quantisation, body.adapter, body.merged, body.key
    )
    with write_session(engine()) as database:
        row, new = add_revision(database, body.name, wanted, {key: getattr(body, key) for key in _DESCRIPTION})
        document = _model(row) | {"added": new}
        audit_change(database, "model.add", f"{body.name}@{row.number}", added=new)
    return answer(document, status=201 if new else 200)


def _model(row: ModelRevision) -> dict[str, Any]:
    return pick(row, _MODEL) | {
        "model": row.model.name,
        "revision": row.number,
        "url": url_for("pages.model", model=row.model.name),
    }


# Benchmarks


class BenchmarkQuery(Query):
    """The description of an uploaded benchmark file."""

    name: Annotated[Name, Field(description="Name in the registry.")]
    version: Text | None = Field(None, description="Name of this content. Default: the start of its digest.")
    split: Text | None = Field(None, description="Which lines are questions, where the file marks several splits.")
    language: Text | None = Field(None, description="Language of the questions (ISO 639). Default: en.")
    licence: Text | None = Field(None, description="Licence of the questions, such as MIT.")
    source: Text | None = Field(None, description="Where the questions come from.")
    shuffle_options: Annotated[int, Between(0, MAX_INTEGER)] | None = Field(
        None, description="Seed, for benchmarks whose answer always comes first."
    )
    visibility: Annotated[str, OneOf(VISIBILITIES)] | None = Field(
        None, description="Who may see it. Default: as the newest version, public for the first."
    )


@change(
    "POST",
    "/benchmarks",
    answers.ImportedBenchmark,
    tag="registry",
    scope="maintain",
    upload=BENCHMARK_FILE,
    statuses={201: "Imported.", 200: "The same content is there already."},
)
def import_benchmark_file(query: BenchmarkQuery, files: dict[str, Path]) -> Response:
    """Import a benchmark from a file: JSON Lines, CSV or Parquet, checked as a whole before anything is stored."""
    document = run_order(
        "benchmark",
        query.model_dump()
        | {
            "file": str(files["file"]),
            "fewshot": str(files["fewshot"]) if "fewshot" in files else None,
            "language": query.language or "en",
        },
    )
    return answer(document, status=201 if document["imported"] else 200)


@change(
    "PATCH",
    "/benchmarks/<benchmark>",
    answers.ChangedVisibility,
    tag="registry",
    scope="maintain",
    statuses={200: "Changed."},
)
def change_visibility(benchmark: BenchmarkName, body: bodies.VisibilityBody) -> Response:
    """Change the visibility of a benchmark and all its results: everyone, members, or only maintainers.

    With `public_from` it applies until the given moment; from then on everyone may see it.
    """
    reference = benchmark if body.version is None else f"{benchmark}@{body.version}"
    with write_session(engine()) as database:
        versions = [row.version for row in set_visibility(database, reference, body.visibility, body.public_from)]
        public_from = None if body.public_from is None else utc_text(body.public_from)
        shown = {"visibility": body.visibility, "public_from": public_from}
        audit_change(database, "benchmark.visibility", reference, **shown)
    return answer({"benchmark": benchmark, **shown, "versions": versions})


# Evaluations


@change(
    "POST",
    "/evaluations",
    answers.AskedEvaluations,
    tag="results",
    scope="maintain",
    statuses={201: "Queued, as far as it was not there.", 200: "All of it is there already."},
    conflicts=True,
)
def submit_evaluations(body: Wanted) -> Response:
    """Queue a model on a benchmark under a set of variants, or all evaluations that a suite or a board lacks.

    The same specification is one evaluation: a repeated request returns the existing one.
    """
    plan = body.plan(requester=viewer().name)
    with write_session(engine()) as database:
        queued = plan(database)
        ids = [evaluation.id for evaluation, _ in queued]
        new = [evaluation.id for evaluation, is_new in queued if is_new]
        audit_change(database, "evaluation.submit", body.model, evaluations=ids[:100], new=len(new))
    return answer({"evaluations": ids, "new": new}, status=201 if new else 200)


@change(
    "POST",
    "/evaluations/estimate",
    answers.Estimate,
    tag="results",
    scope="maintain",
    statuses={200: "What it would cost; nothing is queued."},
    conflicts=True,
)
def estimate_evaluations(body: ToEstimate) -> Response:
    """Estimate the cost of the same evaluations; nothing is queued. Unknown values are null, with the reason.

    With a precision, the smallest sample that reaches it is found first, and the cost is that of the sample.
    """
    with read_session(engine()) as database:
        wanted, needed = body.with_sample(database)
    return answer(estimates(engine(), wanted.plan(), body.queue, _no_tokeniser) | needed)


def _no_tokeniser(_revision: ModelRevision) -> NoReturn:
    raise ModelError(
        f"the website has no tokenizers; `{propose('evaluations estimate')}` counts tokens where a worker runs"
    )


_MOVES: Final = {
    "pause": ("Paused.", "Pauses an evaluation; shards that are being scored finish."),
    "resume": ("Going on.", "Resumes a paused evaluation."),
    "cancel": ("Cancelled.", "Cancels an evaluation; what is stored stays."),
    "retry": ("Queued again.", "Queues the parked and cancelled shards of an evaluation again."),
}


def _mover(action: str) -> View:
    def moved(evaluation_id: EvaluationId) -> Response:
        with write_session(engine()) as database:
            state = move(database, evaluation_id, action).state
            audit_change(database, f"evaluation.{action}", str(evaluation_id), state=state)
        return answer({"evaluation": evaluation_id, "state": state})

    moved.__name__, moved.__doc__ = f"{action}_evaluation", _MOVES[action][1]
    return moved


for _action, (_done, _) in _MOVES.items():
    change(
        "POST",
        f"/evaluations/<evaluation_id>/{_action}",
        answers.EvaluationState,
        tag="results",
        scope="maintain",
        statuses={200: _done},
        conflicts=True,
    )(_mover(_action))


class OutputsQuery(Query):
    """The description of uploaded outputs."""

    model: Annotated[
        Text, Field(min_length=1, description="Model NAME that the outputs are of, registered as external.")
    ]
    benchmark: Annotated[Text, Field(min_length=1, description="Benchmark NAME, or NAME@VERSION.")]
    variants: Annotated[Text, Field(min_length=1, description="Kind of variants shown, or imported for any orders.")]
    protocol: Text | None = Field(
        None, description="How the model was asked. Default: symbols, or recorded where nobody knows."
    )
    shots: Annotated[int, Between(0, 1000), Field(description="Few-shot examples it was shown.")] = 0
    select: Text | None = Field(None, description="Variant types of IBM/cat's layout.")
    column: Text | None = Field(None, description="The model's column in a table of letters.")
    stated: Annotated[str, OneOf(("check", "ignore"))] = Field(
        "check", description="`ignore`: import answers although the log's own scores contradict them."
    )


@change(
    "POST",
    "/evaluations/import",
    answers.ImportedOutputs,
    tag="results",
    scope="maintain",
    upload=OUTPUTS_FILE,
    statuses={201: "Imported and sealed."},
    conflicts=True,
)
def import_outputs_file(query: OutputsQuery, files: dict[str, Path]) -> Response:
    """Import recorded outputs; a repeated import creates a new replicate. The whole file is checked first.

    A log that contradicts its own scores, or the benchmark's key, is refused; the error has its `contradictions`, or
    the `keys`.
    """
    order = query.model_dump() | {"file": str(files["file"]), "requester": viewer().name}
    return answer(run_order("outputs", order), status=201)


@change(
    "POST",
    "/evaluations/<evaluation_id>/replay",
    answers.Replay,
    tag="results",
    scope="maintain",
    statuses={201: "Made and sealed.", 200: "The same replay is there already."},
    conflicts=True,
)
def replay_evaluation(evaluation_id: EvaluationId, body: bodies.ReplayBody) -> Response:
    """Create a new evaluation from stored answers, with other keys or another reading; no model is called."""
    order = {"evaluation": evaluation_id, **body.model_dump(), "requester": viewer().name}
    document = run_order("replay", order)
    return answer({key: document[key] for key in ("evaluation", "source")}, status=201 if document["new"] else 200)


class MetricsQuery(Query):
    """Options for an evaluation's metrics."""

    per_question: Annotated[YesOrNo, Field(description="Also the metrics of each question, by its external id.")] = "no"
    without_flagged: Annotated[
        YesOrNo,
        Field(description="Only questions whose options neither refer to each other nor are sorted numbers."),
    ] = "no"
    noise_from: NoiseFrom = None
    papers: Papers = "no"


@get("/evaluations/<evaluation_id>/metrics", answers.EvaluationMetrics, tag="results", conflicts=True)
def evaluation_metric_values(evaluation_id: EvaluationId, query: MetricsQuery) -> Response:
    """Return an evaluation's metrics by name, as `shuffleboard evaluations metrics` prints them; null if undefined."""
    values = evaluation_metrics(
        session(),
        evaluation_id,
        without_flagged=query.without_flagged == "yes",
        per_question=query.per_question == "yes",
        papers=query.papers == "yes",
    )
    noise = repeat_noise(evaluation_id, query.noise_from)
    seal = find_evaluation(session(), evaluation_id).seal
    return answer(values | {"noise": noise, "clustered": cluster_intervals(evaluation_id, seal)})


@get("/evaluations/<evaluation_id>/verification", answers.Verification, tag="results", scope="maintain")
def verification(evaluation_id: EvaluationId) -> Response:
    """Recompute a sealed evaluation from its answers and list the differences, as `shuffleboard verify` does.

    The time grows with the size of the evaluation.
    """
    # It imports numpy.
    from registry.sealed.verification import verify_evaluation

    return answer(verify_evaluation(session(), evaluation_id))


# Suites and boards


@change(
    "POST",
    "/suites",
    answers.ImportedSuite,
    tag="boards",
    scope="maintain",
    statuses={201: "Loaded.", 200: "The same definition is there already."},
)
def load_suite(body: SuiteDefinition) -> Response:
    """Load a suite: the keys of its TOML file as JSON. A changed definition creates a new version of the suite."""
    with write_session(engine()) as database:
        row, new = import_suite(database, body)
        document = {"suite": row.name, "new": new} | pick(row, ("version", "digest"))
        audit_change(database, "suite.import", f"{row.name}@{row.version}", new=new)
    return answer(document, status=201 if new else 200)


@change(
    "POST",
    "/boards",
    answers.ImportedBoard,
    tag="boards",
    scope="maintain",
    statuses={201: "Loaded.", 200: "The same definition is there already."},
)
def load_board(body: BoardDefinition) -> Response:
    """Load a board, on the newest versions of its benchmarks: the keys of its TOML file as JSON."""
    with write_session(engine()) as database:
        row, new = import_board(database, body)
        document = {"board": row.name, "new": new} | pick(row, ("version", "digest"))
        audit_change(database, "board.import", f"{row.name}@{row.version}", new=new)
    # It imports numpy, which nothing else here needs.
    from registry.boards.snapshots import refresh_boards

    refresh_boards(engine())
    return answer(document, status=201 if new else 200)
