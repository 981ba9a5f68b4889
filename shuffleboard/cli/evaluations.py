"""`shuffleboard evaluations`."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_args, get_origin
from urllib.parse import urlencode

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from sqlalchemy import Engine, select

from registry.boards.definition import part_of_suite
from registry.boards.wanted import ToEstimate, Wanted, contradiction
from registry.db import read_session, write_session
from registry.errors import ContradictionError, QueueError, UsageError
from registry.fields import OneOf
from registry.files.absent import no_such_file
from registry.files.manifests import MANIFEST
from registry.leaderboard.costs import cost_document
from registry.leaderboard.selection import evaluation_conditions
from registry.lookups import find_evaluation
from registry.names import plural
from registry.operations.opening import engine_of
from registry.prompting.variants import VARIANT_KINDS, parse_variants
from registry.proposals import propose
from registry.queue.claims import live_workers
from registry.queue.estimate import Tokenise, estimates
from registry.queue.evaluations import move
from registry.queue.progress import DOING, Progress, import_progress, progress_of, progress_of_several, wait_for
from registry.schema.audiences import AUDIENCES, Audience
from registry.settings import Settings
from registry.tables import EVALUATION_STATES, Evaluation, ModelRevision
from shuffleboard.cli.address import page_address
from shuffleboard.cli.common import (
    GivenFile,
    budget_option,
    json_option,
    note,
    print_document,
    print_json,
    settings_of,
    tell,
    wants_json,
)
from shuffleboard.cli.estimates import print_estimate
from shuffleboard.cli.files import require_kind
from shuffleboard.cli.groups import Group, Where
from shuffleboard.cli.models import register_of_hub
from shuffleboard.cli.selecting import filter_options, nothing_matches, selection_of
from shuffleboard.cli.tables import parse_headings, print_table, show, table_options

if TYPE_CHECKING:
    from registry.sealed.archiving import Moved

W = TypeVar("W", bound=Wanted)

NO_WORKER = f"no live worker: start one with '{propose('worker')}'"


@click.group(
    cls=Group,
    lazily={
        "metrics": "shuffleboard.cli.reports:metrics",
        "provenance": "shuffleboard.cli.proof:provenance",
        "replay": "shuffleboard.cli.replaying:replay_command",
    },
)
def evaluations() -> None:
    """Submit, import, watch and read evaluations."""


DEFAULT_VARIANTS: Final = "cyclic"
"""Default variants: every option once at every position."""
VARIANTS_HELP = (
    f"Kind of variants: {', '.join(VARIANT_KINDS)}; repeats=N asks each prompt N times.  "
    "[KIND:parameter=value,parameter=value]"
)

_HELP: Final = {
    "model": "Model NAME, NAME@REVISION, or OWNER/NAME of one on the hub.",
    "variants": f"{VARIANTS_HELP}  [default: {DEFAULT_VARIANTS}]",
    "benchmark": "Benchmark NAME, or NAME@VERSION; with --suite, the benchmark for its *; may be repeated.",
    "subjects": "Only this subject; may be repeated.",
}
"""Help texts of options that differ from the API's descriptions of the same fields."""
_SPELLED: Final = {"benchmarks": "--benchmark", "subjects": "--subject"}


def _option_of(name: str) -> str:
    """Return the option for a field of `Wanted`."""
    return _SPELLED.get(name, "--" + name.replace("_", "-"))


def _asks(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the fields of `Wanted`, except the options of `--budget`."""
    for name, field in reversed(Wanted.model_fields.items()):
        if name not in ("benchmarks", "budget"):
            command = _option(name, field)(command)
    return command


def _option(name: str, field: FieldInfo) -> Callable[[Callable[..., None]], Callable[..., None]]:
    kind: Any = field.annotation
    if NoneType in get_args(kind):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    constraints = [*field.metadata, *getattr(kind, "__metadata__", ())]
    kind = getattr(kind, "__origin__", kind) if get_origin(kind) is Annotated else kind
    several = name == "benchmark" or get_origin(kind) is list
    choices = next((constraint.choices for constraint in constraints if isinstance(constraint, OneOf)), None)
    taken = click.Choice(choices) if choices else {int: int, float: float}.get(kind, str)
    shows_default = name in ("priority", "queue")
    return click.option(
        _option_of(name),
        name,
        type=None if kind is bool else taken,
        is_flag=kind is bool,
        multiple=several,
        required=field.is_required(),
        default=field.default if shows_default or kind is bool else None,
        show_default=shows_default,
        help=_HELP.get(name, field.description),
    )


def _read_options(asked: Mapping[str, Any], model: type[W]) -> W:
    """Read the options that `_asks` added as a model. Raises UsageError if they contradict each other."""
    values = {name: value for name, value in asked.items() if value not in (None, ())}
    benchmarks = values.pop("benchmark", ())
    if values.get("suite") is not None and values.get("board") is None:
        values["benchmarks"] = list(benchmarks)
    elif len(benchmarks) > 1:
        raise UsageError(f"{len(benchmarks)} times --benchmark: give one, or --suite, or --board")
    elif benchmarks:
        values["benchmark"] = benchmarks[0]
    if "subjects" in values:
        values["subjects"] = list(values["subjects"])
    if "benchmark" in values and "board" not in values:
        values.setdefault("variants", DEFAULT_VARIANTS)
    if message := contradiction(values, _option_of):
        raise UsageError(message)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(f"{_option_of(str(first['loc'][0]))} {first['input']!r:.60}: {first['msg']}") from None


@evaluations.command("submit")
@_asks
@budget_option("The most that each evaluation may cost, if a provider charges; it is paused when that is reached.")
@click.option("--wait", is_flag=True, help="Wait until it is complete, with a progress bar.")
@json_option
def submit_command(
    wait: bool,
    **asked: Any,
) -> None:
    """Queue MODEL on BENCHMARK under a set of variants; prints {"evaluation": ID}.

    With --suite or --board, everything still missing is queued, and {"evaluations": [ID, …]} printed; for a suite on
    any benchmarks, --benchmark names them. --suite with --limit tries a suite on its first questions: they are a
    suite and a board NAME-first-LIMIT; with --sample they are NAME-sample-N. A model OWNER/NAME that is not
    registered is fetched from the hub and registered as NAME. A specification is evaluated once: submitting it
    again shows the existing evaluation. With --wait and no worker running, the default setup starts one for as long
    as there is work.
    """
    settings = settings_of()
    wanted = _read_options(asked, Wanted)
    plan = wanted.plan(read_files=True)
    several = bool(wanted.suite or wanted.board)
    engine = engine_of(settings)
    register_of_hub(engine, settings, wanted.model)
    with write_session(engine) as session:
        queued = plan(session)
        ids = [evaluation.id for evaluation, _ in queued]
        submitted = [(evaluation.id, evaluation.prompts, new, evaluation.state) for evaluation, new in queued]
    for evaluation_id, prompts, new, state in submitted:
        existing = f"evaluation {evaluation_id} already has this specification"
        if new:
            note(f"evaluation {evaluation_id}: {plural(prompts, 'prompt')} queued")
        elif state not in REMEDIES:
            note(existing + ("" if several else "; --replicate scores it again"))
        elif several or not wait:  # if this one is to be waited for, the wait below ends at once with the same result
            note(f"{existing} and is {state}{_remedy(state, evaluation_id)}")
    if wait:
        wait_until_complete(engine, settings, ids)
    if wanted.suite and (name := part_of_suite(wanted.suite, wanted.limit, wanted.sample, wanted.seed)) is not None:
        note(f"suite {name}; its board: {propose('leaderboard', '--board', name)}")
    print_json({"evaluations": ids} if several else {"evaluation": ids[0]})


@evaluations.command("estimate")
@_asks
@_option("precision", ToEstimate.model_fields["precision"])
@table_options
@json_option
def estimate_command(**asked: Any) -> None:
    """Estimate the cost of `submit` with the same options; nothing is queued.

    Prompts are counted, tokens are counted on a sample of them with the model's tokenizer, and seconds follow from
    the measured rate of the model's finished shards on that kind of device. For a model of a
    provider, the cost follows from the price list: as its earlier answers came out, and at most. If something cannot be
    estimated, it is null, with the reason. With --precision you see which --sample reaches it, for accuracy and the
    metric that boards rank by, and the cost of that sample. The number of questions follows from a pilot, the newest
    sealed evaluation of the same model, benchmark and protocol, or else from the worst case.
    """
    settings = settings_of()
    to_estimate = _read_options(asked, ToEstimate)

    engines: list[dict[str, Any]] = []

    def tokeniser(revision: ModelRevision) -> Tokenise:
        from workers.choice import choices, room
        from workers.tokenizer import tokenizer_of

        home = settings.home.expanduser()
        named = {"model": revision.model.name, "revision": revision.number, "dtype": revision.dtype}
        chosen = choices(revision, home)["cpu" if wanted.queue == "cpu" else "gpu"]
        engines.append(named | asdict(chosen) | asdict(room(revision, home)))
        return tokenizer_of(revision, home)

    with read_session(engine_of(settings)) as session:
        wanted, needed = to_estimate.with_sample(session, read_files=True)
    document = estimates(engine_of(settings), wanted.plan(read_files=True), wanted.queue, tokeniser)
    document |= {"queue": wanted.queue, "max_workers": wanted.max_workers, "engines": list(engines)}
    document |= needed
    if print_document(document):
        return
    print_estimate(document)


def wait_until_complete(engine: Engine, settings: Settings, ids: list[int]) -> None:
    """Show progress until all evaluations are complete, starting a worker if there is neither a broker nor a worker.

    Raises QueueError if one of them fails, is cancelled or is paused.
    """
    with read_session(engine) as session:
        workers = live_workers(session)
    helper = None
    # A failed, cancelled or paused evaluation needs a command first, not a worker.
    if not workers and not all(progress.finished for progress in _progress(engine, ids)):
        if settings.broker_url:
            note(f"{NO_WORKER}; waiting")
        else:
            note("no worker is running: starting one for this work")
            helper = start_worker()
    try:
        states = wait_for(engine, ids, helper)
    except KeyboardInterrupt:
        _say_what_is_kept(engine, ids, alone=helper is not None or not workers)
        sys.exit(INTERRUPTED)
    finally:
        if helper is not None:
            helper.end()
    for progress in states:
        if not progress.complete:
            reason = f": {progress.error}" if progress.error else ""
            if not progress.finished:
                reason = "; its worker exited, see its messages above"
            state = progress.state if progress.finished else "not complete"
            remedy = _remedy(progress.state, progress.evaluation_id)
            raise QueueError(f"evaluation {progress.evaluation_id} is {state}{reason}{remedy}")


STARTING: Final = "the worker is starting"
"""Shown until the worker reports a step: importing its packages takes a minute on a slow disk."""
INTERRUPTED: Final = 130
"""The exit status after Ctrl-C in shells."""
REMEDIES: Final = {
    "cancelled": ("evaluations retry", "; {} queues it again"),
    "failed": ("evaluations retry", "; once that is put right: {}"),
    "paused": ("evaluations resume", "; {} goes on"),
}
"""Remedies for evaluations that ended without being complete, by state."""


def _remedy(state: str, evaluation_id: int) -> str:
    if state not in REMEDIES:
        return ""
    action, text = REMEDIES[state]
    return text.format(propose(action, evaluation_id))


def _say_what_is_kept(engine: Engine, ids: Sequence[int], *, alone: bool) -> None:
    """Print, after Ctrl-C, how much is stored, and the command that continues. alone: whether no worker scores it."""
    states = _progress(engine, ids)
    done, total = sum(progress.prompts_done for progress in states), sum(progress.prompts for progress in states)
    rest = ", and the rest stays queued" if done < total else ""
    note(f"Interrupted. {done:,} of {plural(total, 'prompt')} are stored{rest}.")
    if all(progress.state == "complete" for progress in states):
        return
    if alone:
        note(f"To go on: {propose('worker', '--until-idle')}")
    else:
        note(f"A worker goes on with it. To watch: {propose('evaluations show', ids[0], '--watch')}")
    note(f"To give it up: {propose('evaluations cancel', ids[0])}")


def start_worker() -> "Helper":
    """Start a worker process that ends when there is no work; quiet, since the progress bar already shows its steps."""
    quiet = {**os.environ, "SHUFFLEBOARD_LOG_LEVEL": os.environ.get("SHUFFLEBOARD_LOG_LEVEL", "error")}
    handle, doing = tempfile.mkstemp(prefix="shuffleboard-doing-")
    os.close(handle)
    Path(doing).write_text(STARTING, encoding="utf-8")
    command = [sys.executable, "-m", "shuffleboard.cli", "worker", "--until-idle"]
    return Helper(command, doing, env=quiet | {DOING: doing})


class Helper(subprocess.Popen[bytes]):
    """A worker process of this command, which reports its steps before scoring in the file `doing`."""

    def __init__(self, command: Sequence[str], doing: str, *, env: dict[str, str]) -> None:
        self.doing = doing
        super().__init__(command, env=env)

    def end(self) -> None:
        """End the process and remove its file."""
        self.terminate()
        self.wait()
        Path(self.doing).unlink(missing_ok=True)


def _progress(engine: Engine, ids: Sequence[int]) -> list[Progress]:
    with read_session(engine) as session:
        return [progress_of(session, evaluation_id) for evaluation_id in ids]


@evaluations.command("import")
@click.argument("file", type=GivenFile())
@click.option("--model", default=None, help="Model NAME that produced the outputs; register it with --kind external.")
@click.option("--benchmark", default=None, help="Benchmark NAME, or NAME@VERSION.")
@click.option(
    "--variants",
    default=None,
    help="Kind of variants shown; `imported` for arbitrary orders.  [default for a table of letters: original]",
)
@click.option(
    "--protocol",
    default=None,
    help="How the model was asked.  [default: symbols; for tables of letters and logs of texts: recorded]",
)
@click.option("--shots", type=int, default=0, show_default=True, help="Few-shot examples it was given.")
@click.option(
    "--select", default=None, help="Variant types of IBM/cat's layout, such as standard_MC:0,standard_MC_shuffled."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    help="Only this column of a table of letters; may be repeated.  [default: all; each is named after its column]",
)
@click.option(
    "--stated",
    type=click.Choice(("check", "ignore")),
    default="check",
    show_default=True,
    help="Refuse a log whose own scores contradict its answers, or import it all the same.",
)
@click.option("--all-columns", is_flag=True, help="All columns of a table of letters, as without --model and --column.")
@json_option
def import_command(
    file: Path,
    model: str | None,
    benchmark: str | None,
    variants: str | None,
    protocol: str | None,
    shots: int,
    select: str | None,
    columns: tuple[str, ...],
    stated: str,
    all_columns: bool,
) -> None:
    """Import recorded outputs from FILE; prints {"evaluation": ID}.

    A table of letters prints {"evaluations": [ID, …], "models": [NAME, …]}, in the order of its columns.

    \b
    One JSON object per prompt:
      {"question_id": "q1", "variant": 0, "order": [2, 0, 1], "position": 1}

    order[p] is the option shown at position p, position the answered one (null: no valid answer). Optional:
    probabilities, logprobs, logprobs_without_question, text. Also recognised: logs of other programs, such as
    lm-evaluation-harness (--log_samples), HELM (run folders), Inspect AI (.eval, .json), OpenCompass, lighteval, Every
    Eval Ever and IBM/cat. Of a CSV table of letters with one column per model, all are imported, or with --model one.
    The whole file is checked before anything is stored; importing again makes a new replicate. The log's own scores and
    right options are compared with ours: a log that contradicts them is not imported, and --json lists its
    "contradictions". With answers missing, nothing is stored, and the error names the first.

    A folder that `evaluations export` wrote needs no options: its evaluation is stored with its seal, provided that the
    seal can be reproduced. If the registry has the evaluation already, its number is printed and nothing is stored.
    """  # noqa: D301
    if not file.exists():
        raise no_such_file(file)
    require_kind(file, "evaluations import")
    if (file / MANIFEST).is_file():
        if columns or all_columns or any(value is not None for value in (model, benchmark, variants, select)):
            raise UsageError("an exported evaluation describes its own contents; leave out all options")
        _import_folder(engine_of(settings_of()), file)
        return
    from registry.logs.formats.table import is_table_of_columns
    from registry.logs.imports.importer import ImportRequest, import_outputs
    from registry.logs.imports.stated import Comparison

    settings = settings_of()
    engine = engine_of(settings)
    table = file.is_file() and is_table_of_columns(file)
    if all_columns and (model is not None or columns or not table):
        why = (
            "is for tables of letters; this file is none" if not table else "and --model or --column exclude each other"
        )
        raise UsageError(f"--all-columns {why}")
    if table:
        variants = variants or "original"
        if model is None:
            if select is not None:
                raise UsageError("--select is for IBM/cat's layout; this file is a table of letters")
            asked_alike = {"variants": variants, "protocol": protocol, "shots": shots}
            _import_table(engine, settings, file, benchmark, columns=columns, **asked_alike)
            return
    if model is None or benchmark is None or variants is None:
        raise UsageError(_lacking(file, model, benchmark, variants))
    if len(columns) > 1:
        raise UsageError("--model takes one --column; without it, columns name their models")
    variant_set = parse_variants(variants, read_files=True)
    request = ImportRequest(
        file,
        model,
        benchmark,
        variant_set,
        protocol,
        shots,
        select,
        columns[0] if columns else None,
        stated == "ignore",
    )
    comparisons: list[Comparison] = []
    with import_progress() as report, _contradictions_printed():
        evaluation_id = import_outputs(engine, request, report, comparisons.append)
    document: dict[str, Any] = {"evaluation": evaluation_id}
    for comparison in comparisons:
        for sentence in comparison.sentences():
            note(sentence)
        document["stated"] = comparison.document()
    print_json(document)
    _say_where(engine, settings, [evaluation_id])


def _lacking(file: Path, model: str | None, benchmark: str | None, variants: str | None) -> str:
    """Return a message that names the missing options of an import, and the complete command."""
    options = {"--model": model, "--benchmark": benchmark, "--variants": variants}
    lacking = [option for option, value in options.items() if value is None]
    words = [word for option, value in options.items() for word in (option, value or option.strip("-").upper())]
    named = " and ".join([", ".join(lacking[:-1]), lacking[-1]] if len(lacking) > 1 else lacking)
    return (
        f"{file}: {named} {'are' if len(lacking) > 1 else 'is'} missing; the whole command: "
        f"{propose('evaluations import', file, *words)}"
    )


@contextmanager
def _contradictions_printed() -> Iterator[None]:
    """Print the contradictions of a refused log as JSON, for programs."""
    try:
        yield
    except ContradictionError as error:
        print_json(error.details)
        raise


def _import_folder(engine: Engine, folder: Path) -> None:
    """Import an exported evaluation."""
    from registry.sealed.importing import import_evaluation

    evaluation_id, new = import_evaluation(engine, folder)
    if not new:
        note(f"evaluation {evaluation_id} has this seal already; nothing was imported")
    print_json({"evaluation": evaluation_id})


def _import_table(engine: Engine, settings: Settings, file: Path, benchmark: str | None, **asked: Any) -> None:
    """Import each column as the outputs of a model."""
    from registry.logs.imports.importer import import_columns

    if benchmark is None:
        raise UsageError("a table of letters needs --benchmark; its columns name the models")
    with import_progress() as report, _contradictions_printed():
        imported = import_columns(engine, file, benchmark=benchmark, report=report, **asked)
    print_json({"evaluations": list(imported.values()), "models": list(imported)})
    _say_where(engine, settings, list(imported.values()))


def _say_where(engine: Engine, settings: Settings, ids: Sequence[int]) -> None:
    """Print the address of the page with an import."""
    page = f"/evaluations/{ids[0]}"
    if len(ids) > 1:
        with read_session(engine) as session:
            name = find_evaluation(session, ids[0]).benchmark_version.benchmark.name
        page = f"/?{urlencode({'benchmark': name})}"
    note(f"complete; see {page_address(settings, page)}")


@evaluations.command("list")
@filter_options
@click.option("--state", type=click.Choice(EVALUATION_STATES), default=None, help="Only evaluations in this state.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="At most this many, the newest.")
@table_options
@json_option
def list_command(state: str | None, limit: int | None, **filters: str | None) -> None:
    """List evaluations with their progress, newest first."""
    with read_session(engine_of(settings_of())) as session:
        query = select(Evaluation).where(*evaluation_conditions(session, selection_of(session, **filters)))
        if state is not None:
            query = query.where(Evaluation.state == state)
        listed = session.scalars(query.order_by(Evaluation.id.desc()).limit(limit)).all()
        empty = "" if listed else nothing_matches(session, filters | {"state": state})
        progress = progress_of_several(session, [evaluation.id for evaluation in listed])
        rows = [
            {
                "evaluation": evaluation.id,
                "evaluation_id": evaluation.id,
                "model": evaluation.model_revision.model.name,
                "revision": evaluation.model_revision.number,
                "benchmark": evaluation.benchmark_version.benchmark.name,
                "benchmark_version": evaluation.benchmark_version.version,
                "protocol": evaluation.protocol.name,
                "shots": evaluation.protocol.shots,
                "variants": evaluation.variant_set.name,
                "replicate": evaluation.replicate,
                "state": evaluation.state,
                "prompts_done": progress[evaluation.id].prompts_done,
                "prompts": evaluation.prompts,
                "no_worker": progress[evaluation.id].no_worker,
            }
            for evaluation in listed
        ]
    if print_document({"evaluations": rows}):
        return
    headings = parse_headings(
        "evaluation: ID, model, revision: Rev., benchmark, protocol, shots, variants, replicate: Repl., state, "
        "prompts_done: Done, prompts"
    )
    more = {"benchmark_version": "Version", "no_worker": "No worker"}
    shown = [row | {"state": "waiting" if row["no_worker"] else row["state"]} for row in rows]
    print_table(shown, headings, empty, more=more, drop=("replicate", "revision", "shots", "prompts", "prompts_done"))
    waiting = [str(row["evaluation"]) for row in rows if row["no_worker"]]
    if waiting:
        note(f"{NO_WORKER}; evaluation {', '.join(waiting)} waits")


@evaluations.command("show")
@click.argument("evaluation_id", type=int)
@click.option("--watch", is_flag=True, help="Follow until it is complete.")
@json_option
def show_command(evaluation_id: int, watch: bool) -> None:
    """Show an evaluation's state and progress."""
    settings = settings_of()
    engine = engine_of(settings)
    progress = _progress(engine, [evaluation_id])[0]
    if watch and not progress.finished:
        progress = wait_for(engine, [evaluation_id], None)[0]
    with read_session(engine) as session:
        cost = cost_document(session, evaluation_id, settings)
        about = _describe(find_evaluation(session, evaluation_id))
    if print_document(progress.document() | about | {"cost": cost}):
        return
    for key, value in about.items():
        click.echo(f"{key:18} {value}")
    stated = progress.document()
    if progress.no_worker:
        stated["state"] = "waiting for a worker"
    for key, value in stated.items():
        if key != "waits":
            click.echo(f"{key.replace('_', ' '):18} {'–' if value is None else value}")
    for wait in progress.waits:
        since = "" if wait.since is None else f" since {show(wait.since)}"
        until = "" if wait.until is None else f" at {show(wait.until)}"
        note(f"it {wait.what}{since}: {wait.reason}; {wait.ends}{until}")
    if cost is not None:
        _print_cost(cost)
    if progress.no_worker:
        note(NO_WORKER)


def _print_cost(cost: Mapping[str, Any]) -> None:
    amount = "–" if cost["cost"] is None else f"{cost['cost']:.4f} {cost['currency']}"
    click.echo(f"{'cost':18} {amount}")
    for key in ("refused", "filtered", "cut_off"):
        click.echo(f"{key.replace('_', ' '):18} {cost[key]}")
    if len(cost["models"]) > 1:
        note(f"the model changed while it was asked: {', '.join(str(row['served_model']) for row in cost['models'])}")


def _describe(evaluation: Evaluation) -> dict[str, Any]:
    """Return the names of an evaluation's model, benchmark, variants and protocol."""
    revision, version, protocol = evaluation.model_revision, evaluation.benchmark_version, evaluation.protocol
    return {
        "model": f"{revision.model.name}@{revision.number}",
        "benchmark": f"{version.benchmark.name}@{version.version}",
        "protocol": protocol.name,
        "shots": protocol.shots,
        "variants": evaluation.variant_set.name,
        "replicate": evaluation.replicate,
    }


def _action(name: str, summary: str) -> None:
    @evaluations.command(name, help=summary)
    @click.argument("evaluation_id", type=int)
    @json_option
    def command(evaluation_id: int) -> None:
        with write_session(engine_of(settings_of())) as session:
            state = move(session, evaluation_id, name).state
        document: dict[str, Any] = {"evaluation": evaluation_id, "state": state}
        tell(document, f"evaluation {evaluation_id} is {state}")


@evaluations.command("export")
@click.argument("evaluation_id", type=int)
@click.option(
    "--to", "--out", "out", cls=Where, type=click.Path(path_type=Path), required=True, help="New folder to write."
)
@click.option(
    "--audience",
    type=click.Choice(AUDIENCES),
    default="public",
    show_default=True,
    help="Whose benchmarks may be included, with their questions.",
)
@json_option
def export_command(evaluation_id: int, out: Path, audience: str) -> None:
    """Write one sealed evaluation as a folder, which another registry imports with the same seal.

    Parquet tables of questions, predictions, texts and metrics, with everything else that the seal covers, the chain
    of the registry, its signed head if there is a key, and a manifest with the SHA-256 of every file. `evaluations
    import DIR` reads it; `verify --public KEY DIR` checks it.
    """
    from registry.sealed.exporting import export_evaluation

    settings = settings_of()
    document = export_evaluation(engine_of(settings), settings, evaluation_id, out, cast("Audience", audience))
    if print_document(document):
        return
    click.echo(f"{out}: {len(document['files'])} files, seal {document['seal']}")


@evaluations.command("withdraw")
@click.argument("evaluation_id", type=int)
@click.option("--reason", required=True, help="Why; shown wherever the evaluation is.")
@json_option
def withdraw_command(evaluation_id: int, reason: str) -> None:
    """Withdraw a sealed evaluation: it no longer counts.

    Its page and numbers stay, under a banner. It is removed from the leaderboard and the boards, and results that
    were copied from it are flagged.
    """
    from registry.sealed.withdrawals import copies_of, withdraw

    engine = engine_of(settings_of())
    with write_session(engine) as session:
        withdraw(session, evaluation_id, reason)
        copies = copies_of(session, evaluation_id)
    _withdrawn(engine, evaluation_id, "withdrawn", copies)


@evaluations.command("supersede")
@click.argument("evaluation_id", type=int)
@click.option("--by", type=int, required=True, help="The evaluation that replaces it.")
@click.option("--reason", required=True, help="Why; shown wherever the evaluation is.")
@json_option
def supersede_command(evaluation_id: int, by: int, reason: str) -> None:
    """Replace this evaluation with another sealed one of the same model and benchmark."""
    from registry.sealed.withdrawals import copies_of, supersede

    engine = engine_of(settings_of())
    with write_session(engine) as session:
        supersede(session, evaluation_id, by, reason)
        copies = copies_of(session, evaluation_id)
    _withdrawn(engine, evaluation_id, "superseded", copies)


def _withdrawn(engine: Engine, evaluation_id: int, kind: str, copies: list[int]) -> None:
    from registry.boards.snapshots import refresh_boards

    boards = refresh_boards(engine)
    if print_document({"evaluation": evaluation_id, "state": kind, "copied_by": copies, "boards": boards}):
        return
    click.echo(f"evaluation {evaluation_id} is {kind}")
    if boards:
        note(f"boards brought up to date: {', '.join(boards)}")
    if copies:
        note(f"flagged, since they contain copies of its results: {', '.join(map(str, copies))}")


@evaluations.command("archive")
@click.argument("ids", type=int, nargs=-1, metavar="[ID]...")
@click.option("--board", default=None, help="Those that this board shows.")
@click.option("--older-than", "days", type=int, default=None, metavar="DAYS", help="Those sealed so many days ago.")
@click.option("--larger-than", type=int, default=None, metavar="N", help="Those of more than N prompts.")
@click.option(
    "--to",
    "--out",
    "to",
    cls=Where,
    default="",
    metavar="URL",
    help="A folder or s3://bucket/prefix.  [default: SHUFFLEBOARD_ARCHIVES]",
)
@click.option("--dry-run", is_flag=True, help="List evaluations that would be archived; move nothing.")
@json_option
def archive_command(
    ids: tuple[int, ...],
    board: str | None,
    days: int | None,
    larger_than: int | None,
    to: str,
    dry_run: bool,
) -> None:
    """Delete the predictions and texts of sealed evaluations from the database; their folders keep them.

    A folder that is not in place is written first. Boards, metrics, `verify` and the SQL page go on as before.
    Pages and exports of single answers name the command that brings them back, `evaluations restore`. Give evaluations,
    or options, which all apply; archived ones are left as they are.
    """
    from registry.files.stores import store_at
    from registry.sealed.archiving import Policy, Shared, archive, choose_evaluations, plan, remove_parts

    engine = engine_of(settings_of())
    with read_session(engine) as session:
        listed = choose_evaluations(session, Policy(ids, board, days, larger_than))
        if dry_run:
            _print_moved(plan(session, listed, to), "would be archived", dry_run=True)
            return
    for url in remove_parts(store_at(to)):
        note(f"removed {url}, left unfinished by an archiving that was ended")
    shared = Shared()
    archived = (archive(engine, number, to, shared) for number in listed)
    _print_moved(filter(None, archived), "archived", dry_run=False)


@evaluations.command("restore")
@click.argument("ids", type=int, nargs=-1, required=True, metavar="ID...")
@json_option
def restore_command(ids: tuple[int, ...]) -> None:
    """Bring archived predictions and texts back into the database, bit for bit; their folders are kept."""
    from registry.sealed.archiving import restore

    engine = engine_of(settings_of())
    restored = (restore(engine, number) for number in ids)
    _print_moved(filter(None, restored), "restored", dry_run=False)


def _print_moved(moved: Iterable["Moved"], verb: str, *, dry_run: bool) -> None:
    """Print each evaluation as soon as it has moved, so that an interrupted command has named all moved ones."""
    if wants_json():
        print_json({"dry_run": dry_run, "evaluations": [asdict(item) for item in moved]})
        return
    evaluations = predictions = 0
    for row in moved:
        evaluations, predictions = evaluations + 1, predictions + row.predictions
        size = "" if row.size is None else f", {row.size} bytes"
        click.echo(f"evaluation {row.evaluation_id}: {row.predictions} predictions, {row.texts} texts{size}, {row.url}")
    click.echo(f"{verb}: {predictions} predictions of {evaluations} evaluations")


_action("pause", "Start no further shard; those being scored finish.")
_action("resume", "Resume a paused evaluation.")
_action("cancel", "Cancel an evaluation; stored answers stay.")
_action("retry", "Queue the parked and cancelled shards of an evaluation again, their counts at zero.")
