"""Injects faults into deployments and counts the consequences: `python -m tests.chaos`.

Exits with status 1 if a prediction was lost or stored twice, a shard was stuck or parked, or too few faults happened.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from registry.settings import Settings
from shuffleboard.cli.common import logging_to_stderr
from tests.chaos.comparison import Outcome
from tests.chaos.harness import Chaos
from tests.chaos.schedules import CLASSES, draw, real
from tests.chaos.servers import Servers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--schedules", type=int, default=23, help="how many are drawn, beside the real engine's")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--without-real", action="store_true", help="leave the real engine out")
    parser.add_argument("--least-faults", type=int, default=200)
    arguments = parser.parse_args()
    logging_to_stderr(Settings(log_level="error"))
    os.environ["SHUFFLEBOARD_SHARD_SECONDS"] = (
        "0"  # otherwise shards are joined according to measured rates, and the names of leaves contain them
    )
    schedules = [draw(seed) for seed in range(arguments.seed, arguments.seed + arguments.schedules)]
    if not arguments.without_real:
        schedules.append(real())
    begun = time.monotonic()
    outcomes = []
    folder = Path(tempfile.mkdtemp(prefix="shuffleboard-chaos-"))
    with Servers(folder) as servers:
        chaos = Chaos(servers)
        for schedule in schedules:
            outcomes.append(chaos.run(schedule))
            print(_line(outcomes[-1]), flush=True)
            for problem in outcomes[-1].problems:
                print(f"    {problem}", flush=True)
    faults = sum((outcome.faults for outcome in outcomes), Counter())
    _print_table(outcomes)
    lost, doubled = sum(outcome.lost for outcome in outcomes), sum(outcome.doubled for outcome in outcomes)
    stuck, parked = sum(outcome.stuck for outcome in outcomes), sum(outcome.parked for outcome in outcomes)
    print(
        f"\n{faults.total()} faults over {len(outcomes)} schedules in {time.monotonic() - begun:.0f} s: "
        f"{lost} lost, {doubled} doubled, {stuck} stuck, {parked} parked"
    )
    if not all(outcome.clean for outcome in outcomes):
        print(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    if faults.total() < arguments.least_faults:
        print(f"fewer than {arguments.least_faults} faults: this proves too little")
        return 1
    return 0


def _line(outcome: Outcome) -> str:
    verdict = "ok" if outcome.clean else "BROKEN"
    return (
        f"seed {outcome.schedule.seed:3}  {outcome.schedule.name:42}  {outcome.faults.total():3} faults  "
        f"{outcome.seconds:5.1f} s  {outcome.lost} lost  {outcome.doubled} doubled  {outcome.stuck} stuck  "
        f"{outcome.parked} parked  stood still {outcome.standstill:.1f} leases of {outcome.lease:.1f} s  {verdict}"
    )


def _print_table(outcomes: Sequence[Outcome]) -> None:
    """Print how often each kind and each class of fault happened, in a column for each kind of deployment."""
    columns: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        columns[outcome.schedule.servers] += outcome.faults
    kinds = sorted({kind for faults in columns.values() for kind in faults})
    rows = {kind: [faults[kind] for faults in columns.values()] for kind in kinds}
    for name, pattern in CLASSES.items():
        matching = [counts for kind, counts in rows.items() if kind in kinds and re.search(pattern, kind)]
        rows[f"ALL OF {name}"] = [sum(counts) for counts in zip(*matching, strict=True)] or [0] * len(columns)
    rows["ALL"] = [faults.total() for faults in columns.values()]
    width = max(map(len, rows))
    print(f"\n{'':{width}}  {'  '.join(columns)}")
    for name, counts in rows.items():
        cells = (f"{count:{len(column)}}" for count, column in zip(counts, columns, strict=True))
        print(f"{name:{width}}  {'  '.join(cells)}")


if __name__ == "__main__":
    sys.exit(main())
