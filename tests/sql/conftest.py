"""Fixtures for a registry on each engine with public evaluations, evaluations for members, and hidden evaluations."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

from registry.db import get_engine, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.revisions.store import RevisionRequest, add_revision
from registry.schema.audiences import Audience
from registry.schema.roles import RoleNames, apply_roles
from registry.settings import Settings
from registry.sql import NotReadyError, Queries, QueryResult
from tests.support import services
from tests.support.commands import eventually
from tests.support.population import add_benchmark, question, write_lines

VISIBILITIES = {"open": "public", "club": "members", "secret": "hidden"}
PASSWORD = "correct horse"  # must be quoted in a URL
PATIENCE_S = 600.0
"""Time limit of queries in tests of other properties, since the machine may be busy."""
LIMITS = {"sql_at_once": 4, "sql_seconds": PATIENCE_S, "rate_limits": False}


@dataclass(frozen=True)
class Asked:
    """A registry to query: the website's settings, and the URL of a role with all rights."""

    engine: str
    settings: Settings
    url: str
    names: RoleNames | None = None


def fill(engine: Engine, folder: Path) -> None:
    """Store an evaluation of four questions in all rotations for each visibility, whose texts name the benchmark."""
    with write_session(engine) as session:
        add_revision(session, "their-model", RevisionRequest("external"))
        for name, visibility in VISIBILITIES.items():
            lines = [
                question(number, id=f"{name}{number}") | {"options": [f"{name} {number}.{k}" for k in range(4)]}
                for number in range(4)
            ]
            add_benchmark(session, folder, lines, name).visibility = visibility
    for name in VISIBILITIES:
        rows = [
            {"question_id": f"{name}{number}", "variant": k, "order": [(p + k) % 4 for p in range(4)], "position": 0}
            for number in range(4)
            for k in range(4)
        ]
        import_outputs(engine, ImportRequest(write_lines(folder / f"{name}.out", rows), "their-model", name, "cyclic"))


@pytest.fixture(scope="session")
def sqlite_asked(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("asked")
    shutil.copyfile(sqlite_template, folder / "asked.db")
    url = f"sqlite:///{folder / 'asked.db'}"
    fill(get_engine(url), folder)
    yield Asked("sqlite", Settings(database_url=url, home=folder, **LIMITS), url)
    get_engine(url).dispose()


def run_query(settings: Settings, audience: Audience, sql: str, client: str = "someone") -> QueryResult:
    """Return the result of a query that runs as on the website."""
    queries = Queries(get_engine(settings.resolve_database_url()), settings)
    return queries.ask(audience, sql, client).result


def run_ready_query(settings: Settings, audience: Audience, sql: str) -> QueryResult:
    """Return the first result of a query, complete or not; while files are written, it is asked again."""
    answered: list[QueryResult] = []

    def is_answered() -> bool:
        with suppress(NotReadyError):
            answered.append(run_query(settings, audience, sql))
        return bool(answered)

    eventually(is_answered, "the files can be read")
    return answered[0]


def run_complete_query(settings: Settings, audience: Audience, sql: str) -> QueryResult:
    """Return the result of a query once the files of all sealed evaluations are written."""
    last: list[QueryResult] = []

    def is_complete() -> bool:
        last[:] = [run_ready_query(settings, audience, sql)]
        return not any("so far" in note for note in last[0].notes)

    eventually(is_complete, "the files of all sealed evaluations are written")
    return last[0]


def role_url(url: str, role: str) -> str:
    return make_url(url).set(username=role, password=PASSWORD).render_as_string(hide_password=False)


def libpq(url: str) -> str:
    """Return a SQLAlchemy URL in libpq's form."""
    return url.replace("+psycopg", "").replace(" ", "%20")


@pytest.fixture(scope="session")
def postgresql_asked(
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    postgresql_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Asked]:
    names = RoleNames(f"test_{uuid.uuid4().hex[:12]}")
    database = f"shuffleboard_test_{uuid.uuid4().hex}"
    services.copy_database(postgres_server.url, database, postgresql_template)
    url = postgres_server.database_url(database)
    engine = get_engine(url)
    folder = tmp_path_factory.mktemp("asked")
    fill(engine, folder)
    assert apply_roles(engine, names, dict.fromkeys(names.all, PASSWORD))
    settings = Settings(database_url=role_url(url, names.app), home=folder, **LIMITS)
    yield Asked("postgresql", settings, url, names)
    engine.dispose()
    get_engine(settings.resolve_database_url()).dispose()
    services.postgres_execute(
        postgres_server.url,
        f"DROP DATABASE {database} WITH (FORCE)",
        *(f"DROP ROLE {role}" for role in names.all),
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def asked(request: pytest.FixtureRequest) -> Asked:
    """Return a filled registry on each engine in turn; no query may change it."""
    registry: Asked = request.getfixturevalue(f"{request.param}_asked")
    return registry
