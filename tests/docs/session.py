"""A page of the documentation as its reader follows it: one folder, one registry, its blocks in their order.

A page can contain these comments, each on a line right before a block:

    <!-- file: NAME -->                   the block is written to that file
    <!-- not run: REASON -->              it is not run; its commands have to exist all the same
    <!-- runs until stopped: URL -->      its last command is a server: it goes on until the page ends, and the next
    block
                                          comes when the URL answers. Other text is awaited in its output
    <!-- prints -->                       the block before it printed these lines, in this order
    <!-- typed: TEXT -->                  the answer to each of its questions
    <!-- database: ENGINE -->             it is run if the page's registry is on that engine

and anywhere, for the rest of the page:

    <!-- setup: NAME, NAME -->            functions of tests/docs/setups.py prepare the registry
    <!-- database: ENGINE and ENGINE -->  at the top: the page is followed on each of them; by default on sqlite

Blocks of `sh`, `console`, `python` and `sql` (`sql duckdb`) run. In `console` a line that begins with `$ ` is a
command,
the lines up to the next are its whole output, and a command that shows an error has to fail. `…` in shown output
matches anything, on a line of its own any lines. `make TARGET` must be in the Makefile. Every other block with a
language has to parse.

Hosts that a page names are replaced by servers of the tests: db.example.org and redis.example.org, and the addresses
of its own servers. Nothing beyond this machine is reached.
"""

import csv
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml
from sqlalchemy import Engine, text

from registry.db import get_engine, read_session
from tests.docs.pages import DOCS, ROOT, Block, blocks, comments, pages
from tests.support import services

RUN: Final = ("sh", "console", "python", "sql")
SHOWN: Final = (
    *("", "text", "mermaid", "{toctree}"),
    *("json", "jsonl", "toml", "yaml", "csv"),
    *("dockerfile", "ini", "nginx", "html", "http", "r", "diff"),
)
"""Languages of blocks that do not run; blocks in the languages of the second line are parsed."""
BLOCK_S: Final = 600.0
SERVER_S: Final = 180.0
STOP_S: Final = 15.0
NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that does not exist, so that programs that connect to other hosts fail at once."""

# Exported variables and the folder persist from block to block, as in one terminal; an error names its command.
PROLOGUE: Final = """\
unset BASH_ENV
[ -f "$BLOCK_STATE" ] && . "$BLOCK_STATE"
set -aEeuo pipefail
trap 'echo "$LINENO $BASH_COMMAND" >"$BLOCK_FAILED"' ERR
trap 'declare -px >"$BLOCK_STATE"; printf "cd %q\\n" "$PWD" >>"$BLOCK_STATE"' EXIT
"""


@dataclass(frozen=True)
class Setup:
    """A comment that names functions of `tests.docs.setups` to call."""

    names: tuple[str, ...]
    line: int


def steps(page: Path) -> list[Setup | Block]:
    """Return the setups and blocks of a page, in order."""
    collected: list[Setup | Block] = list(blocks(page))
    for line, comment in comments(page):
        key, _, value = comment.partition(": ")
        if key == "setup":
            collected.append(Setup(tuple(name.strip() for name in value.split(",")), line))
    return sorted(collected, key=lambda step: step.line)


def read_text(block: Block, key: str) -> str | None:
    """Return the value of `key` in the comments before a block; empty for a key without value, None without the key."""
    for comment in block.comments:
        name, _, value = comment.partition(":")
        if name == key:
            return value.strip()
    return None


def engines(page: Path) -> list[str]:
    """Return the engines on which a page is followed."""
    before_blocks = {block.line - 1 - k for block in blocks(page) for k in range(len(block.comments))}
    named = [
        comment.partition(": ")[2]
        for line, comment in comments(page)
        if comment.startswith("database: ") and line not in before_blocks
    ]
    assert len(named) <= 1, f"{page}: says twice what database it is about"
    names = named[0].split(" and ") if named else ["sqlite"]
    assert set(names) <= {"sqlite", "postgresql"}, f"{page}: no engine {names}"
    return names


def list_followed(*, guides: bool) -> list[tuple[str, str]]:
    """Return the paths of the pages that contain something to run, each with an engine.

    guides: whether to return the tutorial and pages in subfolders of docs/, or all other pages.
    """
    chosen = [
        page
        for page in pages()
        if steps(page) and guides == (page.name == "tutorial.md" or page.parent not in (DOCS, ROOT))
    ]
    return [(str(page.relative_to(ROOT)), engine) for page in chosen for engine in engines(page)]


def check_parses(block: Block) -> None:
    """Raise an error if a block does not parse in its language."""
    if block.language == "jsonl" or (read_text(block, "file") or "").endswith(".jsonl"):
        for line in block.text.splitlines():
            json.loads(line)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))
    elif block.language == "csv":
        widths = {len(row) for row in csv.reader(block.text.splitlines(), strict=True)}
        assert len(widths) == 1, f"rows of {sorted(widths)} cells"


@dataclass
class Servers:
    """Resources that sessions share: programs, and servers that are started when a page needs them."""

    programs: tuple[Path, ...]
    """Folders of programs, before those of the environment that runs the tests."""
    python: Path
    """Program that replaces Python on pages."""
    postgresql: Callable[[], str]
    """Makes a database `shuffleboard` with the schema on the documentation's server, and returns its host and port."""
    redis: Callable[[], str]
    """Starts or empties the documentation's Redis, and returns its host and port."""


@dataclass
class Session:
    """A page that is being followed."""

    page: Path
    folder: Path
    """The folder in which the reader works."""
    engine_name: str
    servers: Servers
    sqlite_template: Path
    fixture: Callable[[str], Any]
    """Returns a fixture by its name, for setups."""
    private: Path
    """The folder for the tests' own files."""
    printed: str | None = ""
    """The output of the block before; None if that block was not run."""
    ports: dict[str, int] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)
    """Resources that setups opened, which are closed when the page ends."""
    _running: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    _started: int = 0
    _databases: str = ""
    _broker: str = ""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        self.private.mkdir(parents=True)
        folders = (
            *self.servers.programs,
            Path(sys.executable).parent,
            os.environ["PATH"],
            services.postgresql_programs(),
        )
        kept = ("LANG", "LC_ALL", "TMPDIR", "TZ")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment |= {
            "PATH": ":".join(map(str, folders)),
            "HOME": str(self.folder),
            "SHUFFLEBOARD_HOME": str(self.home),
            "http_proxy": NOWHERE,
            "https_proxy": NOWHERE,
            "all_proxy": NOWHERE,
            "no_proxy": "127.0.0.1,localhost",
            "HF_HUB_OFFLINE": "1",
            "PIP_NO_INDEX": "1",
            "COLUMNS": "120",
            "OMP_NUM_THREADS": "1",
        }
        if self.engine_name == "sqlite":
            shutil.copyfile(self.sqlite_template, self.home / "shuffleboard.db")
        else:
            self._databases = self.servers.postgresql()
            self.environment["SHUFFLEBOARD_DATABASE_URL"] = self.url
        for block in blocks(self.page):
            url = read_text(block, "runs until stopped")
            if url and "://" in url:
                self.port_of(url)

    @property
    def home(self) -> Path:
        """Return the data directory."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """Return the URL of the page's registry."""
        if self.engine_name == "sqlite":
            return f"sqlite:///{self.home / 'shuffleboard.db'}"
        return f"postgresql://postgres@{self._databases}/shuffleboard"

    @property
    def engine(self) -> Engine:
        """Return an engine on the page's registry, for setups."""
        return get_engine(self.url.replace("postgresql://", "postgresql+psycopg://"))

    def port_of(self, url: str) -> int:
        """Return the port of the test's server that replaces the page's server at `url`."""
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        if origin not in self.ports:
            self.ports[origin] = services.free_port()
        return self.ports[origin]

    def here(self, shown: str) -> str:
        """Return a text of the page in which the page's servers are replaced by the tests' servers."""
        for origin, port in self.ports.items():
            shown = re.sub(rf"{re.escape(origin)}(?![\w:])", f"http://127.0.0.1:{port}", shown)
            written = urlsplit(origin).port
            if written is not None:
                shown = re.sub(rf"\b{written}\b", str(port), shown)
        if "db.example.org" in shown:
            self._databases = self._databases or self.servers.postgresql()
            host, _, port_there = self._databases.partition(":")
            shown = shown.replace("host=db.example.org", f"host={host} port={port_there}")
            shown = re.sub(r"db\.example\.org(:5432)?", self._databases, shown)
        shown = shown.replace("0.0.0.0", "127.0.0.1")  # the tests' servers must be reachable from this machine only
        if "redis.example.org" in shown:
            self._broker = self._broker or self.servers.redis()
            shown = re.sub(r"redis\.example\.org(:6379)?", self._broker, shown)
        return shown

    # Following a page

    def follow(self) -> None:
        """Run all setups and blocks of the page."""
        from tests.docs import setups

        ahead = steps(self.page)
        for number, step in enumerate(ahead):
            following = ahead[number + 1] if number + 1 < len(ahead) else None
            if isinstance(step, Setup):
                for name in step.names:
                    prepare = getattr(setups, name, None)
                    assert prepare is not None, f"{self._place(step.line)}: tests/docs/setups.py has no {name}"
                    prepare(self)
            else:
                self._take(step)
                refused = re.search(r'"status":\s*[45]\d\d\b', self.printed or "")
                shown = step.text if read_text(step, "prints") is not None else getattr(following, "text", "")
                if refused and refused[0] not in shown:
                    self._fail(step, step.text, f"is refused by the server ({refused[0]})")

    def _take(self, block: Block) -> None:
        name = read_text(block, "file")
        if read_text(block, "prints") is not None:
            if self.printed is not None:
                self._check_printed(block)
        elif read_text(block, "not run") is not None or read_text(block, "database") not in (None, self.engine_name):
            self.printed = None  # its output is not checked either
        elif name is not None:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.here(block.text), encoding="utf-8")
        elif block.language == "sh":
            self._shell(block)
        elif block.language == "console":
            self._console(block)
        elif block.language == "python":
            (self.folder / ".block.py").write_text(self.here(block.text), encoding="utf-8")
            self._command(block, "python .block.py")
        elif block.info == "sql duckdb":
            (self.private / "query.sql").write_text(block.text, encoding="utf-8")
            program = "import duckdb, sys; print(duckdb.sql(open(sys.argv[1]).read()))"
            self._command(block, f"python -c '{program}' {self.private / 'query.sql'}")
        elif block.language == "sql":
            self._query(block)

    def _shell(self, block: Block) -> None:
        script = re.sub(r"^make .*$", ":", block.text, flags=re.MULTILINE)  # looked up, not run
        until = read_text(block, "runs until stopped")
        if until is None:
            self._command(block, script)
            return
        if "://" in until and not re.search(r"shuffleboard serve.*--port", script):
            script = re.sub(r"(shuffleboard serve)\b", rf"\1 --port {self.port_of(until)}", script)
        self._server(block, script, until)

    def _console(self, block: Block) -> None:
        """Run each command separately and compare its output with the lines below it."""
        for command, shown in console_commands(block.text):
            fails = any(re.match(r"Error\b", line) for line in shown)
            self._command(block, command, fails=fails)
            if shown and not matches([self.here(line) for line in shown], (self.printed or "").splitlines()):
                self._fail(block, command, "prints something else than the page shows")

    def _query(self, block: Block) -> None:
        # A colon within a literal would be read as a parameter.
        statement = text(block.text.strip().rstrip(";").replace(":", "\\:"))
        try:
            with read_session(self.engine) as session:
                rows = session.execute(statement).all()
        except Exception as error:  # noqa: BLE001 - whatever it is, the message names the block
            self.printed = str(error)
            self._fail(block, block.text, "is refused")
        self.printed = "".join("|".join("" if value is None else str(value) for value in row) + "\n" for row in rows)

    def _check_printed(self, block: Block) -> None:
        shown, printed = self.here(block.text), self.printed or ""
        if block.language == "json":
            with suppress(ValueError):
                shown = json.dumps(json.loads(shown), indent=1, ensure_ascii=False)
            start = re.search(r"^[{\[]", printed, re.MULTILINE)
            if start:
                with suppress(ValueError):
                    document, _ = json.JSONDecoder().raw_decode(printed[start.start() :])
                    printed = json.dumps(document, indent=1, ensure_ascii=False)
        lines = [line.rstrip(", ") for line in printed.splitlines()]
        for line in shown.splitlines():
            wanted = pattern(line.rstrip(", "))
            rest = iter(lines)
            if line.strip() not in ("", "…") and not any(wanted.fullmatch(squeeze(other)) for other in rest):
                self._fail(block, line, "was not printed, or not in this order, by the block before")
            if line.strip() not in ("", "…"):
                lines = list(rest)

    # Processes

    def _command(self, block: Block, script: str, *, fails: bool = False) -> None:
        """Run a script and wait for its end."""
        hands, keyboard = pty.openpty()
        typed = read_text(block, "typed")
        try:
            process, output = self._start(script, keyboard if typed else None)
            deadline = time.monotonic() + BLOCK_S
            while process.poll() is None and time.monotonic() < deadline:
                if typed:
                    os.write(hands, f"{typed}\n".encode())  # repeatedly: text typed before a question is lost
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.2 if typed else BLOCK_S)
        finally:
            os.close(hands)
            os.close(keyboard)
        status = process.poll()
        self.printed = output.read_text(encoding="utf-8", errors="replace")
        if status is None:
            self._fail(block, script, f"did not end within {BLOCK_S:.0f} s")
        if (status != 0) != fails:
            failed = self.private / "failed"
            line, _, command = failed.read_text().strip().partition(" ") if failed.exists() else ("0", "", script)
            self._fail(block, command, f"ends with status {status}", int(line))

    def _server(self, block: Block, script: str, until: str) -> None:
        """Start a process that runs until the page ends; return when it answers, or has printed `until`."""
        process, output = self._start(script)
        deadline = time.monotonic() + SERVER_S
        while not (answers(self.here(until)) if "://" in until else until in output.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                self.printed = output.read_text(errors="replace")
                ended = "has ended" if process.poll() is not None else f"is not there after {SERVER_S:.0f} s"
                self._fail(block, script, f"{ended}: waited for {until}")
            time.sleep(0.05)
        self.printed = output.read_text(errors="replace")

    def serve(self, *urls: str) -> None:
        """Serve the page's registry at the page's addresses, for setups."""
        port = self.port_of(urls[0])
        for url in urls:
            self.ports["{0.scheme}://{0.netloc}".format(urlsplit(url))] = port
        self._server(Block("sh", ""), f"shuffleboard serve --port {port}", f"{urls[0]}/readyz")

    def _start(self, script: str, keyboard: int | None = None) -> tuple["subprocess.Popen[bytes]", Path]:
        self._started += 1
        prologue, path, output = (
            self.private / name for name in ("prologue", f"{self._started}.sh", f"{self._started}.txt")
        )
        prologue.write_text(PROLOGUE, encoding="utf-8")
        path.write_text(self.here(script), encoding="utf-8")
        (self.private / "failed").unlink(missing_ok=True)
        state = {"BASH_ENV": prologue, "BLOCK_STATE": self.private / "state", "BLOCK_FAILED": self.private / "failed"}
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", path],
                cwd=self.folder,
                env=self.environment | {name: str(value) for name, value in state.items()},
                stdin=subprocess.DEVNULL if keyboard is None else keyboard,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        return process, output

    def stop(self) -> None:
        """Stop every started process as the page's reader would."""
        for process in self._running:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while any(group_lives(process) for process in self._running) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._kill()

    def _kill(self) -> None:
        for process in self._running:
            _signal_group(process, signal.SIGKILL)
            process.wait()
        self._running.clear()

    def close(self) -> None:
        """Kill all processes of this page, since the website takes two seconds to stop cleanly."""
        self._kill()
        self.resources.close()
        self.engine.dispose()

    def _place(self, line: int) -> str:
        return f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page.name}:{line}"

    def _fail(self, block: Block, command: str, what: str, line: int = 0) -> None:
        """Fail the test.

        line: the line of the block, from 1; 0 for the whole block.
        """
        pytest.fail(
            f"{self._place(block.line + line)} ({self.engine_name}): {what}\n\n{command.rstrip()}\n\n"
            f"--- printed:\n{shorten(self.printed or '')}",
            pytrace=False,
        )


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def group_lives(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether any process of a block's group is alive."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def answers(url: str) -> bool:
    """Return whether a server answers at the URL, with any status."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code != HTTPStatus.SERVICE_UNAVAILABLE
    except (OSError, ValueError):
        return False
    return True


def console_commands(shown: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a console block, each with its output lines."""
    command: list[str] = []
    lines: list[str] = []
    for line in shown.splitlines():
        if command and not lines and command[-1].endswith("\\"):
            command.append(line.removeprefix("> "))
        elif line.startswith("$ "):
            if command:
                yield "\n".join(command), lines
            command, lines = [line.removeprefix("$ ")], []
        else:
            lines.append(line)
    if command:
        yield "\n".join(command), lines


def shorten(printed: str, most: int = 5000) -> str:
    """Return a text, without its middle if the text is long."""
    return printed if len(printed) <= most else f"{printed[: most // 2]}\n…\n{printed[-most // 2 :]}"


def squeeze(line: str) -> str:
    """Return a line with each run of spaces replaced by one space."""
    return re.sub(r"\s+", " ", line).strip()


def pattern(line: str) -> re.Pattern[str]:
    """Return the pattern that a line of a page represents."""
    return re.compile(".*".join(re.escape(part) for part in squeeze(line).split("…")))


def matches(shown: list[str], printed: list[str]) -> bool:
    """Return whether the printed lines match the lines shown, apart from empty lines."""
    printed = [squeeze(line) for line in printed if line.strip()]
    shown = [line for line in shown if line.strip()]
    reached = {0}  # number of printed lines that have been matched
    for line in shown:
        if line.strip() == "…":
            reached = set(range(min(reached), len(printed) + 1)) if reached else reached
        else:
            wanted = pattern(line)
            reached = {n + 1 for n in reached if n < len(printed) and wanted.fullmatch(printed[n])}
    return len(printed) in reached


def make_lines(block: Block) -> list[str]:
    """Return the lines of a block that call make."""
    return [line.strip() for line in block.text.splitlines() if re.match(r"(\$ )?make ", line.strip())]
