"""`shuffleboard demo`: recorded answers of real models, then a small model that is scored while you watch."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlencode

import click
from sqlalchemy import Engine, text

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.reading import snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.db import read_session, write_session
from registry.errors import ShuffleboardError, UsageError
from registry.metrics import METRICS
from registry.metrics.catalogue import HEADLINES
from registry.operations.opening import engine_of
from registry.packages import install_command
from registry.proposals import propose
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from registry.verdicts.wording import share
from shuffleboard.cli.common import note, settings_of
from shuffleboard.cli.evaluations import wait_until_complete
from shuffleboard.cli.models import inspect_here
from shuffleboard.cli.tables import print_table
from shuffleboard.packaged import SMOLLM2, find_packaged_file
from shuffleboard.recorded import BOARD, FOLDER, MMLU_PRO, PROTOCOL, SHOTS, Story, import_recorded, make_board

LIVE: Final = "everyday"
LIVE_MODEL: Final = "SmolLM2-135M-Instruct"
LIVE_PROTOCOLS: Final = ("symbols", "hybrid", "cloze")
LOCAL: Final = ("127.0.0.1", "localhost", "::1")
QUERY: Final = """SELECT benchmark, model, variants, accuracy, right_twice_across_orders
FROM leaderboard
ORDER BY accuracy DESC"""


@click.command()
@click.option("--recorded", is_flag=True, help="Only the recorded answers: nothing is scored, and no torch is needed.")
@click.option("--exit", "exit_after", is_flag=True, help="Serve nothing, and exit when all is done.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to serve on.")
@click.option(
    "--install", default=None, help="Command that installs the packages of a worker, run while the page is served."
)
def demo(recorded: bool, exit_after: bool, host: str, port: int, install: str | None) -> None:
    """Show how much the order of options matters: recorded answers of real models, then one scored while you watch.

    Imports the answers that ship with the package, prints a board with its conclusion, and serves it. Then a worker
    puts twelve questions to SmolLM2-135M-Instruct, and the page follows. Everything is in one SQLite file, which the
    next run uses again.
    """
    settings = settings_of()
    if not recorded:
        _require_packages(settings, with_torch=install is None)
    if not exit_after:
        _require_port(host, port)
    engine = engine_of(settings)
    note(f"data directory: {settings.home.expanduser()}")
    note("importing the recorded answers that ship with the package")
    story = import_recorded(engine)
    ids = [] if recorded else _queue_live(engine, settings)
    _print_recorded(engine, story)
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    with contextlib.nullcontext() if exit_after else _serve(host, port) as server:
        if ids:
            try:
                _run_live(engine, settings, ids, install)
            except ShuffleboardError as error:
                if server is None:
                    raise
                note(f"{error}\nThe recorded answers are still served.")
        _print_end(base, story, serving=server is not None)
        if server is not None:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop it
                server.wait()


def _require_packages(settings: Settings, *, with_torch: bool) -> None:
    """Raise an error that names missing packages, before anything else happens."""
    for module in ("gguf", "torch") if with_torch else ("gguf",):
        if find_spec(module) is None:
            raise UsageError(
                f"{module} is not installed, which scoring a model needs; {install_command(module)}, or see recorded "
                f"answers only: {propose('demo', '--recorded')}"
            )
    find_packaged_file(SMOLLM2, settings.home.expanduser())


def _require_port(host: str, port: int) -> None:
    from shuffleboard.cli.serve import listen

    listen(host, port).close()


# The recorded answers


def _print_recorded(engine: Engine, story: Story) -> None:
    with read_session(engine) as session:
        rows = snapshot_as_of(session, BOARD).document["rows"]
    _print_shares("model", "Model", [(row["model"], *_shares(row["values"])) for row in rows])
    best, worst = next(iter(story.once)), list(story.once)[-1]
    _say(story.sentence)
    _say(
        f"{len(story.once)} more models were asked {story.sampled} questions of MMLU-Pro once each: from "
        f"{share(story.once[best])} ({best}) to {share(story.once[worst])} ({worst}). How much of that would "
        "survive reordering has not been tested."
    )


def _shares(values: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return accuracy in two orders and accuracy from a board's row."""
    return values["right_twice_across_orders@imported"]["value"], values["accuracy@imported"]["value"]


def _print_shares(key: str, heading: str, rows: Sequence[tuple[str, float | None, float | None]]) -> None:
    """Print a small table that fits any terminal; undefined values are a dash."""
    headings = {key: heading, "two": METRICS["right_twice_across_orders"].label, "right": METRICS["accuracy"].label}
    shown = [{key: name, "two": _share(two), "right": _share(right)} for name, two, right in rows]
    click.echo()
    print_table(shown, headings, "")


def _share(value: float | None) -> str:
    return "–" if value is None else share(value)


def _say(sentences: str) -> None:
    """Print a paragraph on stdout, as wide as the terminal."""
    click.echo()
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    click.echo(textwrap.fill(sentences, width, break_long_words=False, break_on_hyphens=False))


# The model that is scored while you watch


def _queue_live(engine: Engine, settings: Settings) -> list[int]:
    """Register the model and queue its board's evaluations."""
    path = find_packaged_file(SMOLLM2, settings.home.expanduser())
    request = RevisionRequest("gguf", str(path)).checked()
    files = inspect_here(request, settings)
    description = {
        "family": SMOLLM2.family,
        "developer": SMOLLM2.developer,
        "parameters": SMOLLM2.parameters,
        "licence": SMOLLM2.licence,
    }
    with write_session(engine) as session:
        import_benchmark(
            session, read_benchmark(FOLDER / "everyday.jsonl"), name=LIVE, licence="CC0-1.0", source="Shuffleboard"
        )
        add_revision(session, LIVE_MODEL, request, description, files)
    make_board(
        engine,
        {"name": LIVE, "variants": ["cyclic"], "protocols": list(LIVE_PROTOCOLS), "tasks": [{"benchmark": LIVE}]},
        {
            "title": "Naming a letter, or saying the answer",
            "text": "Twelve questions that a child can answer, in every rotation of their options.",
            # Without a list of options there is no order of options.
            "columns": [*(f"{HEADLINES[0]}@cyclic/{name}" for name in ("symbols", "hybrid")), "accuracy@cyclic/cloze"],
            "sort": f"{HEADLINES[0]}@cyclic/hybrid",
        },
    )
    refresh_boards(engine)
    with write_session(engine) as session:
        requests = [EvaluationRequest(LIVE_MODEL, LIVE, "cyclic", protocol) for protocol in LIVE_PROTOCOLS]
        return [submit(session, request)[0].id for request in requests]


def _run_live(engine: Engine, settings: Settings, ids: list[int], install: str | None) -> None:
    if install is not None:
        note("installing what a worker needs; the page is served meanwhile")
        done = subprocess.run(shlex.split(install), stdout=sys.stderr, check=False)  # noqa: S603 - the user's command
        if done.returncode:
            raise UsageError(f"{install}: ended with status {done.returncode}, so that no model can be scored")
    note(f"scoring {LIVE_MODEL}")
    wait_until_complete(engine, settings, ids)
    refresh_boards(engine)
    with read_session(engine) as session:
        rows = session.execute(
            text(
                "SELECT protocol, accuracy, right_twice_across_orders AS two FROM leaderboard "
                "WHERE model = :model AND benchmark = :name"
            ),
            {"model": LIVE_MODEL, "name": LIVE},
        )
        values = {row.protocol: row for row in rows}
    results = [(name, values[name].two, values[name].accuracy) for name in LIVE_PROTOCOLS]
    _print_shares("protocol", "Asked by", results)
    letters, texts = values["symbols"], values["cloze"]
    _say(
        f"{LIVE_MODEL}, asked just now: {share(letters.accuracy)} of twelve everyday questions are right by letter, "
        f"and {share(letters.two)} in both of two orders of the options. Asked without a list of options (cloze), "
        f"{share(texts.accuracy)} are right. That prompt is the same in every order, so nothing is known about two. "
        "Twelve questions are an example, not a measurement."
    )


# The server


@contextmanager
def _serve(host: str, port: int) -> "Iterator[subprocess.Popen[bytes]]":
    """Start the website in a separate process. Visitors on this machine may use the SQL page without signing in."""
    environment = {"SHUFFLEBOARD_ANONYMOUS_SQL": "true"} if host in LOCAL else {}
    command = [sys.executable, "-m", "shuffleboard.cli", "serve", "--host", host, "--port", str(port)]
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the server is stopped, too
    server = subprocess.Popen(command, env=environment | os.environ)  # noqa: S603 - our own command
    try:
        yield server
    finally:
        server.terminate()
        server.wait()


def _print_end(base: str, story: Story, *, serving: bool) -> None:
    links: dict[str, Any] = {
        "The board": f"{base}/boards/{BOARD}",
        "A question that flips": f"{base}/evaluations/{story.orders}/questions/{story.question}",
        "Ask with SQL": f"{base}/sql?{urlencode({'q': QUERY})}",
    }
    click.echo()
    for name, link in links.items():
        click.echo(f"{name + ':':24}{link}")
    _say(
        "Your own answers: a CSV file with the column question_id and a column of letters for each model. This puts "
        f"them on the board {base}/boards/{MMLU_PRO}:"
    )
    options = ("--benchmark", MMLU_PRO, "--protocol", PROTOCOL, "--shots", SHOTS)
    click.echo(f"  {propose('evaluations import', 'answers.csv', *options)}")
    if not serving:
        note(f"nothing is served now: {propose('serve')}")
