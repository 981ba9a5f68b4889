"""`shuffleboard benchmarks`."""

from pathlib import Path
from typing import Any

import click
from sqlalchemy import func, select

from registry.benchmarks.contract import BenchmarkFile
from registry.db import MAX_INTEGER, pick, read_session, utc_text, write_session
from registry.errors import UsageError
from registry.lookups import find_version
from registry.names import plural
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.tables import VISIBILITIES, Benchmark, BenchmarkVersion, Question
from shuffleboard.cli.common import GivenFile, json_option, note, print_document, settings_of, tell
from shuffleboard.cli.fetch import fetch_command, list_available
from shuffleboard.cli.files import require_kind
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import parse_headings, print_table, show, table_options


@click.group(cls=Group)
def benchmarks() -> None:
    """Fetch, import, generate, list and correct benchmarks."""


benchmarks.add_command(fetch_command)


@benchmarks.command("import")
@click.argument("file", type=GivenFile(), required=False)
@click.option("--harness-task", default=None, metavar="TASK", help="A task of lm-evaluation-harness instead of FILE.")
@click.option(
    "--include-path",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder of tasks of your own, for --harness-task.",
)
@click.option("--name", required=True, help="Name in the registry: letters, digits, '.', '_' and '-'.")
@click.option("--version", default=None, help="Name of this version. Default: the start of its digest.")
@click.option("--split", default=None, help="Which split holds the questions, if the file has several.")
@click.option("--fewshot", type=GivenFile(), default=None, help="File of few-shot examples.")
@click.option("--language", default="en", show_default=True, help="Language of the questions (ISO 639).")
@click.option("--licence", default=None, help="Licence of the questions, such as MIT.")
@click.option("--source", default=None, help="Source of the questions, such as a URL.")
@click.option(
    "--shuffle-options",
    type=click.IntRange(0, MAX_INTEGER),
    default=None,
    metavar="SEED",
    help="For benchmarks whose answer always comes first.",
)
@click.option("--strip-labels", is_flag=True, help="Drop labels that options begin with: A. Oslo.")
@click.option("--one-based", is_flag=True, help="Keys count from 1.")
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default=None,
    help="Who may see it.  [default: as the newest version; public for the first]",
)
@json_option
def import_command(
    file: Path | None,
    harness_task: str | None,
    include_path: Path | None,
    name: str,
    version: str | None,
    split: str | None,
    fewshot: Path | None,
    language: str,
    licence: str | None,
    source: str | None,
    shuffle_options: int | None,
    visibility: str | None,
    *,
    strip_labels: bool,
    one_based: bool,
) -> None:
    """Import a benchmark from FILE: .jsonl, .csv, .tsv (each may be packed, .gz), .xlsx or .parquet.

    \b
    One JSON object per line:
      {"id": "q1", "question": "…", "options": ["…", "…"], "answer": 0}

    `answer` is the 0-based index of the right option. Options may also be {"A": "…", "B": "…"}, with a letter as
    `answer`. Optional: "subject", "context", and "split" ("fewshot" lines
    form the pool of examples). The whole file is checked before anything is stored; identical content is stored only
    once. The questions of a run folder of HELM, or of a log of Inspect AI (.eval, .json), are read from it as well.
    """  # noqa: D301
    from registry.benchmarks.contract import read_benchmark
    from registry.benchmarks.store import import_benchmark
    from registry.logs.recognition import log_file, log_questions

    if (file is None) == (harness_task is None):
        raise UsageError("give a FILE of questions, or a task of lm-evaluation-harness with --harness-task")
    if file is None:
        content, task_source = _read_task(str(harness_task), include_path, fewshot or split, shuffle_options)
        source = source or task_source
    else:
        require_kind(file, "benchmarks import")
        log = log_file(file)
        content = read_benchmark(
            log or file,
            split=split,
            few_shot=fewshot,
            shuffle_seed=shuffle_options,
            strip_labels=strip_labels,
            one_based=one_based,
            documents=None if log is None else log_questions(log),
        )
    with write_session(engine_of(settings_of())) as session:
        row, new = import_benchmark(
            session,
            content,
            name=name,
            version=version,
            language=language,
            licence=licence,
            source=source,
            visibility=visibility,
        )
        document = _document(row)
    for warning in content.warnings:
        note(warning)
    _print_stored(document, new, "imported")


def _read_task(
    task: str, include_path: Path | None, unfit: object, shuffle_seed: int | None
) -> tuple[BenchmarkFile, str]:
    from registry.exchange.harness_tasks import harness_task

    if unfit:
        raise UsageError("--harness-task: the task says what its split and its few-shot examples are; leave them out")
    python = settings_of().harness_python or None
    return harness_task(task, include_path=include_path, python=python, shuffle_seed=shuffle_seed)


def _print_stored(document: dict[str, Any], new: bool, done: str) -> None:
    if print_document(document | {done: new}):
        return
    state = done if new else "already exists:"
    counts = f"{plural(document['questions'], 'question')}, {plural(document['few_shot_examples'], 'few-shot example')}"
    click.echo(f"{document['benchmark']}@{document['version']} {state} {counts}")


@benchmarks.group("generate")
def generate() -> None:
    """Generate a synthetic benchmark."""


@generate.command("nonsenseqa")
@click.option("--name", required=True, help="Name in the registry: letters, digits, '.', '_' and '-'.")
@click.option("--questions", type=int, default=1000, show_default=True, help="How many questions.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed gives other questions.")
@json_option
def nonsenseqa_command(name: str, questions: int, seed: int) -> None:
    """Generate NonsenseQA: questions and options of random English words.

    Four options, answers spread evenly over the positions, and a few-shot pool. There is nothing to know, so accuracy
    above
    25 % is a shortcut through labels, positions or examples. The same seed gives the same questions on every machine,
    and a smaller benchmark is the start of a larger one.
    """
    from registry.benchmarks.nonsenseqa import generate_nonsenseqa, nonsenseqa_source
    from registry.benchmarks.store import import_benchmark

    content = generate_nonsenseqa(questions, seed)
    with write_session(engine_of(settings_of())) as session:
        row, new = import_benchmark(session, content, name=name, licence="MIT", source=nonsenseqa_source(seed))
        document = _document(row)
    _print_stored(document, new, "generated")


def _document(row: BenchmarkVersion) -> dict[str, Any]:
    return {
        "name": row.benchmark.name,
        "benchmark": row.benchmark.name,
        **pick(row, ("version", "questions", "few_shot_examples", "language", "split", "licence", "source")),
        **pick(row, ("visibility", "public_from", "content_digest", "created_at")),
    }


@benchmarks.command("list")
@click.argument("word", required=False)
@click.option("--available", is_flag=True, help="Those that can be fetched by name, instead of those that are here.")
@click.option("--language", default=None, help="Only this language (ISO 639), such as de.")
@click.option("--licence", default=None, help="Only licences that contain this, such as CC-BY.")
@table_options
@json_option
def list_command(word: str | None, available: bool, language: str | None, licence: str | None) -> None:
    """List benchmarks and their versions, or with --available all that can be fetched; WORD narrows the list.

    \b
      shuffleboard benchmarks list --available
      shuffleboard benchmarks list --available mmlu --language de
    """  # noqa: D301
    if available:
        list_available(word, language, licence)
        return
    with read_session(engine_of(settings_of())) as session:
        query = select(BenchmarkVersion).join(Benchmark).order_by(Benchmark.name, BenchmarkVersion.id)
        if word is not None:
            query = query.where(Benchmark.name.icontains(word, autoescape=True))
        if language is not None:
            query = query.where(BenchmarkVersion.language == language)
        if licence is not None:
            query = query.where(BenchmarkVersion.licence.icontains(licence, autoescape=True))
        rows = [_document(row) for row in session.scalars(query)]
    if print_document({"benchmarks": rows}):
        return
    headings = parse_headings(
        "name: Benchmark, version, visibility: Seen by, questions, few_shot_examples: Few-shot, language, licence"
    )
    more = {name: name for name in ("split", "source", "public_from", "content_digest", "created_at")}
    empty = (
        f"no benchmark yet; import one: {propose('benchmarks import', 'FILE', '--name', 'NAME')}"
        if (word, language, licence) == (None, None, None)
        else "no benchmark here matches that; leave a filter out, or see --available"
    )
    print_table(rows, headings, empty, more=more, drop=("licence", "language", "few_shot_examples", "visibility"))


@benchmarks.command("visibility")
@click.argument("name")
@click.argument("visibility", type=click.Choice(VISIBILITIES))
@click.option(
    "--public-from",
    default=None,
    metavar="DATE",
    help="Everyone may see it from this date (its beginning) or time on; UTC if you give no zone.",
)
@json_option
def visibility_command(name: str, visibility: str, public_from: str | None) -> None:
    """Change who may see benchmark NAME (all versions, or NAME@VERSION) and everything measured on it.

    public: everyone; members: everyone with an account; hidden: only maintainers and the command line. With
    --public-from it becomes public on that date without a further command. Anything visible before may
    have been copied.
    """
    from registry.benchmarks.store import set_visibility
    from registry.people.accounts import OPERATOR, record
    from shuffleboard.cli.boards import parse_time

    with write_session(engine_of(settings_of())) as session:
        moment = parse_time(public_from, end=False)
        versions = [row.version for row in set_visibility(session, name, visibility, moment)]
        details = {"visibility": visibility, "public_from": None if moment is None else utc_text(moment)}
        record(session, OPERATOR, "benchmark.visibility", name, details=details)
    tell(
        {"benchmark": name.partition("@")[0], **details, "versions": versions},
        f"{name}: {visibility}{'' if moment is None else f', public from {moment:%Y-%m-%d %H:%M} UTC'} "
        f"({', '.join(versions)})",
    )


@benchmarks.command("show")
@click.argument("name")
@json_option
def show_command(name: str) -> None:
    """Show benchmark NAME (or NAME@VERSION): its subjects, option counts and flagged questions."""
    with read_session(engine_of(settings_of())) as session:
        row = find_version(session, name)
        of_version = (Question.benchmark_version_id == row.id, ~Question.few_shot)

        def counts(column: Any) -> dict[Any, int]:
            query = select(column, func.count()).where(*of_version).group_by(column).order_by(column)
            return {key: count for key, count in session.execute(query).all()}  # noqa: C416 - rows are not pairs

        document = _document(row) | {
            "subjects": counts(Question.subject),
            "options": counts(Question.n_options),
            "answers": counts(Question.answer),
            "refers_to_options": counts(Question.refers_to_options).get(True, 0),
            "sorted_numeric": counts(Question.sorted_numeric).get(True, 0),
        }
    if print_document(document):
        return
    for key, value in document.items():
        if key != "benchmark":  # its name in older versions
            shown = ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else show(value)
            click.echo(f"{key.replace('_', ' '):20} {shown or '–'}")
    note(
        "refers to options and sorted numeric: questions that reordering distorts; metrics exist with and without them"
    )
