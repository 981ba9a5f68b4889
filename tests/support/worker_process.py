"""A worker process with the fake scorer, for tests that kill and stop real processes.

    python -m tests.support.worker_process [--until-idle] [--seconds-per-prompt S] [--trip POINT:COUNT:SIGNAL] …

Like `shuffleboard worker`: pulls tasks from Redis when SHUFFLEBOARD_BROKER_URL is set, polls the database otherwise.
Its worker id goes to stdout once it is at work, then a line `loaded ID` for each model it loads; its log to stderr.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from registry.operations.opening import engine_when_reachable
from shuffleboard.cli.common import settings_of
from tests.chaos import trips
from tests.support.fake_scorer import FakeScorer, fake_logprobs
from workers.loop import WorkerLoop
from workers.stopping import leave_in_time, stop_on_signals


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until-idle", action="store_true")
    parser.add_argument("--seconds-per-prompt", type=float, default=0.0)
    parser.add_argument("--gate", type=Path, help="a file without which it stands before its next prompt")
    parser.add_argument("--trip", help=f"POINT:COUNT:SIGNAL, points: {', '.join(trips.POINTS)}")
    parser.add_argument("--history", type=Path, help="a folder of migrations to take for this code's own")
    parser.add_argument("--page-limit", help="a file that holds SQLite's max_page_count, or is not there")
    parser.add_argument("--wrong-numbers", action="store_true", help="score so that its results can be told")
    parser.add_argument("--without-fence", action="store_true", help="break the queue, to see that tests notice")
    parser.add_argument("--without-generation", action="store_true", help="likewise")
    parser.add_argument("--celery-ends", action="store_true", help="let Celery end by itself")
    arguments = parser.parse_args(words)
    if arguments.history:
        trips.follow(arguments.history)
    settings = settings_of()
    engine = engine_when_reachable(settings)
    scorer = FakeScorer(
        seconds_per_prompt=arguments.seconds_per_prompt,
        after_load=lambda model_revision_id: print("loaded", model_revision_id, flush=True),
    )
    if arguments.gate:
        scorer.before_prompt = lambda _: stand_before(arguments.gate)
    if arguments.wrong_numbers:
        scorer.logprobs = lambda prompt: fake_logprobs(prompt)[::-1]
    loop = WorkerLoop(engine, settings, scorer, ["cpu"])
    if arguments.trip:
        trips.set_trip(arguments.trip, scorer, loop)
    if arguments.page_limit:
        trips.limit_pages(engine, arguments.page_limit)
    if arguments.without_fence:
        trips.remove_fence()
    if arguments.without_generation:
        trips.remove_generation()
    stop_on_signals(loop)
    leave_in_time(loop)
    loop.start()
    print(loop.id, flush=True)
    try:
        if settings.broker_url:
            from workers.celery import run_worker

            if arguments.celery_ends:
                trips.end_celery()
            run_worker(loop)
        else:
            loop.run(until_idle=arguments.until_idle)
    finally:
        loop.stop()
    if loop.exit_status:
        sys.exit(loop.exit_status)


def stand_before(gate: Path) -> None:
    """Wait until the file exists."""
    while not gate.exists():
        time.sleep(0.02)


def run_worker(words: Sequence[str], environment: Mapping[str, str], said: Path, log: Path) -> None:
    """Run `main` in a forked process, whose server has loaded the modules."""
    _take_over(environment, said, log)
    main(words)


def run_command(
    words: Sequence[str], environment: Mapping[str, str], said: Path, log: Path, history: Path | None = None
) -> None:
    """Run `shuffleboard WORDS` in a forked process.

    history: a folder of migrations that replaces the code's own.
    """
    from shuffleboard.cli import main as command_line

    _take_over(environment, said, log)
    if history is not None:
        trips.follow(history)
    sys.argv = ["shuffleboard", *words]
    command_line()


def run_celery(words: Sequence[str], environment: Mapping[str, str], said: Path, log: Path) -> None:
    """Run `celery -A workers.celery WORDS` in a forked process, with the fake scorer in its workers."""
    from celery.bin.celery import main as celery

    from workers import starting

    _take_over(environment, said, log)
    scorer = FakeScorer()
    scorer.before_prompt = lambda _: stand_before(Path(os.environ["GATE"]))
    starting.TransformersScorer = lambda *_, **__: scorer
    sys.argv = ["celery", "-A", "workers.celery", *words]
    sys.exit(celery())


def _take_over(environment: Mapping[str, str], said: Path, log: Path) -> None:
    """Set the environment, stdout and stderr of this forked process."""
    os.environ.clear()
    os.environ.update(environment)
    for path, descriptor in ((said, 1), (log, 2)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)


if __name__ == "__main__":
    main()
