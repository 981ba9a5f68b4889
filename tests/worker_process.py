"""A worker process with the fake scorer, for tests that kill and stop real processes.

    python -m tests.worker_process [--until-idle] [--seconds-per-prompt S]

Like `shuffleboard worker`: pulls tasks from Redis when SHUFFLEBOARD_BROKER_URL is set, polls the database otherwise.
Its worker id goes to stdout once it is at work, its log to stderr.
"""

import argparse
import signal

from registry.cli.common import engine_of, settings_of
from tests.fake_scorer import FakeScorer
from workers.loop import WorkerLoop


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until-idle", action="store_true")
    parser.add_argument("--seconds-per-prompt", type=float, default=0.0)
    arguments = parser.parse_args()
    settings = settings_of()
    scorer = FakeScorer(seconds_per_prompt=arguments.seconds_per_prompt)
    loop = WorkerLoop(engine_of(settings), settings, scorer, ["cpu"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stopping.set())
    loop.start()
    print(loop.id, flush=True)
    try:
        if settings.broker_url:
            from workers.app import run_worker

            run_worker(settings, loop)
        else:
            loop.run(until_idle=arguments.until_idle)
    finally:
        loop.stop()


if __name__ == "__main__":
    main()
