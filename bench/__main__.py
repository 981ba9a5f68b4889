"""Runs benches: `python -m bench NAME [OPTIONS]` runs one, `python -m bench --all` runs each and stores its result.

A bench is a module `bench_NAME.py` that prints its figures in Markdown; its docstring describes its method and its
options. `--all` runs each with the options below, in a separate process, and writes its output into results/NAME.md,
with its command, the day and the machine. Without arguments, the names are listed.
"""

import os
import platform
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

BENCH: Final = Path(__file__).resolve().parent
EVERY_MONTH: Final[dict[str, tuple[str, ...]]] = {
    "archives": ("--predictions", "200000", "--share", "0.3", "--verify"),
    "chance": ("200",),
    "clusters": ("500",),
    "coverage": ("1000",),
    "db": ("--sizes", "1,5", "--requests", "11"),
    "fleet": (),
    "gpu": (),
    "import": (),
    "order_loss": ("400",),
    "pairs": ("500",),
    "peers": (),
    "power": ("1000",),
    "ranks": ("500",),
    "sample": (),
    "selections": (),
    "small_tasks": ("100",),
    "soak": (),
    "sql": ("--evaluations", "1000", "--predictions", "2000000"),
    "statistics": (),
    "upgrade": ("--predictions", "2000000"),
    "web": (),
    "workers": (),
}
"""Name → the options of the monthly run."""


def command(name: str, options: tuple[str, ...]) -> list[str]:
    """Return the arguments of Python that run a bench."""
    return ["-m", f"bench.bench_{name}", *options]


def keep(name: str) -> str | None:
    """Run a bench and store its result; return the reason if it failed, else None."""
    arguments = command(name, EVERY_MONTH[name])
    started = time.monotonic()
    ran = subprocess.run([sys.executable, *arguments], cwd=BENCH.parent, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return (ran.stderr.strip() or f"status {ran.returncode}").splitlines()[-1]
    machine = f"{os.cpu_count()} cores of {platform.machine()}, load {os.getloadavg()[0]:.1f}"
    heading = f"# {name}\n\n`python {shlex.join(arguments)}`, {datetime.now(UTC):%Y-%m-%d}, {machine}, "
    text = f"{heading}{time.monotonic() - started:.0f} s\n\n{ran.stdout.strip()}\n"
    (BENCH / "results").mkdir(exist_ok=True)
    (BENCH / "results" / f"{name}.md").write_text(text, encoding="utf-8")
    return None


def main(arguments: list[str]) -> int:
    """Run the benches that the arguments name."""
    match arguments:
        case ["--all", *names]:
            failed = {name: why for name in names or EVERY_MONTH if (why := keep(name)) is not None}
            for name, why in failed.items():
                print(f"{name}: {why}", file=sys.stderr)
            return 1 if failed else 0
        case [name, *options] if name in EVERY_MONTH:
            return subprocess.run([sys.executable, *command(name, tuple(options))], check=False).returncode
        case [name, *_] if name not in {"-h", "--help"}:
            print(f"{name} is no bench; there are {', '.join(EVERY_MONTH)}", file=sys.stderr)
            return 2
    print(__doc__)
    print("\n".join(EVERY_MONTH))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
