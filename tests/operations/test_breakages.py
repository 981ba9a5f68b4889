"""Deployments broken in the ways of real mistakes, which `doctor` reports with the right remedy in ten seconds."""

import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from sqlalchemy import make_url

from registry.db import get_engine
from tests.support.commands import shuffleboard
from tests.support.population import queue_evaluation
from tests.support.services import RedisServer, S3Server, free_port

SECONDS: Final = 10.0


@dataclass
class Broken:
    """A deployment that a test breaks: its settings by name, and the options of `doctor`."""

    url: str
    home: Path
    request: pytest.FixtureRequest
    settings: dict[str, object] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)

    def file(self, name: str, content: str = "", mode: int = 0o600) -> Path:
        path = self.home / name
        path.write_text(content)
        path.chmod(mode)
        return path

    def hanging(self) -> str:
        """Return the address of a server that accepts connections and never answers."""
        return str(self.request.getfixturevalue("hanging"))

    def postgresql(self, **changes: Any) -> None:
        url = make_url(self.url)
        query = changes.pop("query", {})
        self.settings["database_url"] = url.set(**changes).update_query_dict(query).render_as_string(False)


Plant = Callable[[Broken], None]
BREAKAGES: Final[list[Any]] = []


def broken(engine: str, check: str, found: str, remedy: str, *, long: bool = True) -> Callable[[Plant], Plant]:
    """Return a decorator that registers a breakage.

    check: the name of its check; empty: no check can run, and the output is one line.
    """

    def keep(plant: Plant) -> Plant:
        marks = [pytest.mark.long] * long
        BREAKAGES.append(pytest.param(engine, plant, check, found, remedy, id=plant.__name__, marks=marks))
        return plant

    return keep


def setting(name: str, value: object, check: str, found: str, remedy: str, *, id: str, long: bool = True) -> None:  # noqa: A002
    """Register a breakage by a wrong value of a setting, in which `{home}` is the data directory."""

    def plant(here: Broken) -> None:
        here.settings[name] = str(value).format(home=here.home, port=free_port())

    BREAKAGES.append(pytest.param("sqlite", plant, check, found, remedy, id=id, marks=[pytest.mark.long] * long))


URL = "SHUFFLEBOARD_DATABASE_URL"

# Names and values of settings
setting(
    "databse_url", "sqlite:///x", "settings", "DATABSE_URL", f"write {URL} instead", id="misspelt-database", long=False
)
setting("public_uri", "https://x", "settings", "PUBLIC_URI", "write SHUFFLEBOARD_PUBLIC_URL", id="misspelt-public-url")
setting("brokerurl", "redis://x", "settings", "BROKERURL", "write SHUFFLEBOARD_BROKER_URL", id="misspelt-broker")
setting("signing_kez", "x", "settings", "SIGNING_KEZ", "write SHUFFLEBOARD_SIGNING_KEY", id="misspelt-key")
setting("colour_of_the_sky", "blue", "settings", "COLOUR", "unset SHUFFLEBOARD_COLOUR", id="no-such-setting")
setting("lease_seconds", "a minute", "", "LEASE_SECONDS='a minute'", "correct or unset", id="no-number")
setting("lease_seconds", "-1", "", "LEASE_SECONDS='-1'", "correct or unset", id="a-negative-lease")
setting("log_level", "loud", "", "LOG_LEVEL='loud'", "use debug, info", id="no-log-level")
setting("anonymous_sql", "perhaps", "", "ANONYMOUS_SQL='perhaps'", "correct or unset", id="no-truth-value")
setting("database_url", "mysql://x/y", "", f"{URL} is not", "correct or unset", id="another-engine")
setting(
    "database_url_file", "/nowhere/url", "", "URL_FILE=/nowhere/url: cannot be read", "correct the path", id="no-secret"
)
setting(
    "broker_url_file", "/dev/null", "", "BROKER_URL_FILE=/dev/null: is empty", "write the value", id="an-empty-secret"
)
setting(
    "public_url", "board.example.org", "public address", "no URL with a scheme", "https://", id="no-scheme", long=False
)
setting("public_url", "htps://board.example.org", "public address", "no URL", "https://", id="a-wrong-scheme")
setting("public_url", "http://board.example.org", "public address", "without TLS", "reverse proxy", id="no-tls")

# Files that settings name
setting(
    "prices",
    "/nowhere.toml",
    "prices",
    "nowhere.toml: cannot be read",
    "SHUFFLEBOARD_PRICES",
    id="no-prices",
    long=False,
)
setting(
    "endpoints",
    "/nowhere.toml",
    "endpoints",
    "nowhere.toml: cannot be read",
    "SHUFFLEBOARD_ENDPOINTS",
    id="no-endpoints",
)
setting(
    "signing_key", "/nowhere.pem", "signing key", "nowhere.pem: no such file", "chain key new", id="no-key", long=False
)
setting("secret_key_file", "/nowhere", "secret key", "no such file", "32 random bytes", id="no-secret-key")
setting("harness_python", "/nowhere/python", "files", "nowhere/python", "correct the path", id="no-harness")

# Places of archives
setting(
    "archives",
    "/dev/null/archives",
    "archives",
    "/dev/null",
    "SHUFFLEBOARD_ARCHIVES to a folder",
    id="a-file-as-folder",
)
setting(
    "archives",
    "/proc/archives",
    "archives",
    "/proc/archives",
    "SHUFFLEBOARD_ARCHIVES to a folder",
    id="in-proc",
    long=False,
)
setting("archives", "ftp://x/y", "archives", "neither a folder nor s3", "correct|permission", id="a-store-of-no-kind")
setting("archives", "s3://", "archives", "names no bucket", "bucket|permission", id="a-store-without-bucket")

# Other servers
setting("broker_url", "redis://127.0.0.1:{port}/0", "broker", "does not answer", "start Redis", id="no-redis")
setting("broker_url", "http://127.0.0.1/0", "broker", "not a Redis URL", "BROKER_URL", id="no-redis-url")
setting("broker_url", "redis://redis.invalid/0", "broker", "does not answer", "check URL", id="no-such-redis")
setting(
    "broker_url",
    "rediss://127.0.0.1/0?ssl_ca_certs=/no.pem",
    "broker",
    "no.pem: no such file",
    "BROKER_URL",
    id="no-ca",
)
setting("home", "/dev/null", "data directory|database|", "/dev/null", "HOME|folder", id="a-file-as-home")


@broken("sqlite", "database", "no such file", "db upgrade")
def no_database(here: Broken) -> None:
    here.settings["database_url"] = f"sqlite:///{here.home}/none.db"


@broken("sqlite", "database", "not a database", "restore a backup")
def a_database_that_is_something_else(here: Broken) -> None:
    here.settings["database_url"] = f"sqlite:///{here.file('notes.db', 'nothing of a database ' * 100)}"


@broken("sqlite", "database", "unable to open", f"correct {URL}")
def a_folder_as_database(here: Broken) -> None:
    here.settings["database_url"] = f"sqlite:///{here.home}"


@broken("sqlite", "writing", "mode 444", "chmod 600", long=False)
def a_read_only_database_file(here: Broken) -> None:
    Path(str(make_url(here.url).database)).chmod(0o444)


@broken("sqlite", "schema", "empty; migrations to run", "db upgrade")
def an_empty_database(here: Broken) -> None:
    here.settings["database_url"] = f"sqlite:///{here.file('empty.db')}"


@broken("sqlite", "prices", "not valid TOML|prices.toml", "correct SHUFFLEBOARD_PRICES")
def prices_that_are_no_toml(here: Broken) -> None:
    here.settings["prices"] = here.file("prices.toml", "[openai\n")


@broken("sqlite", "prices", "needs as_of", "correct SHUFFLEBOARD_PRICES")
def prices_without_a_date(here: Broken) -> None:
    here.settings["prices"] = here.file("prices.toml", 'currency = "USD"\n')


@broken("sqlite", "endpoints", "not valid TOML", "SHUFFLEBOARD_ENDPOINTS")
def endpoints_that_are_no_toml(here: Broken) -> None:
    here.settings["endpoints"] = here.file("endpoints.toml", "[served\n")


@broken("sqlite", "signing key", "others than its owner may read", "chmod 600 .*key.pem", long=False)
def a_signing_key_for_everyone(here: Broken) -> None:
    here.settings["signing_key"] = here.file("key.pem", "key", 0o644)


@broken("sqlite", "signing key", "is not an Ed25519 private key", "put the right key back")
def a_signing_key_that_is_none(here: Broken) -> None:
    here.settings["signing_key"] = here.file("key.pem", "key")


@broken("sqlite", "secret key", "others may read", "chmod 600")
def a_secret_key_for_everyone(here: Broken) -> None:
    here.file("secret.key", "0" * 64, 0o644)


@broken("sqlite", "archives", "GiB are free", "free space")
def a_full_place_of_archives(here: Broken) -> None:
    (here.home / "archives").mkdir()
    here.options = ["--free-gib", "1000000000"]


@broken("sqlite", "archives", "only one of", "set both|permission")
def half_of_a_store_s_keys(here: Broken) -> None:
    here.settings |= {"archives": "s3://results", "archives_access_key": "a"}


def in_store(here: Broken, **changes: object) -> None:
    server: S3Server = here.request.getfixturevalue("store")
    here.settings |= {
        "archives": "s3://results",
        "archives_endpoint": server.url,
        "archives_region": "eu-central-1",
        "archives_access_key": server.ACCESS_KEY,
        "archives_secret_key": server.SECRET_KEY,
    } | changes


@broken("sqlite", "archives", "s3://nowhere", "make bucket nowhere")
def a_bucket_that_is_not_there(here: Broken) -> None:
    in_store(here, archives="s3://nowhere/archives")


@broken("sqlite", "archives", "s3://results", "secret key|correct .*SECRET_KEY")
def a_wrong_secret_of_a_store(here: Broken) -> None:
    in_store(here, archives_secret_key="wrong")


@broken("sqlite", "archives", "s3://results", "start the store|let this host reach it")
def a_store_that_is_down(here: Broken) -> None:
    in_store(here, archives_endpoint=f"http://127.0.0.1:{free_port()}")


@broken("sqlite", "archives", "s3://results|no answer within", "start the store|accepts connections")
def a_store_that_hangs(here: Broken) -> None:
    in_store(here, archives_endpoint=f"http://{here.hanging()}")


@broken("sqlite", "broker", "does not answer|no answer", "start Redis|accepts connections")
def a_redis_that_hangs(here: Broken) -> None:
    here.settings["broker_url"] = f"redis://{here.hanging()}/0"


@broken("sqlite", "broker", "does not answer .*username-password|WRONGPASS|NOAUTH", "password")
def a_redis_with_another_password(here: Broken) -> None:
    server: RedisServer = here.request.getfixturevalue("private_redis_server")
    from redis import Redis

    with closing(Redis.from_url(server.url)) as client:
        client.config_set("requirepass", "right")
    here.settings["broker_url"] = server.url.replace("redis://", "redis://:wrong@")


@broken("sqlite", "single sign-on", "id.invalid|roles", "correct|OIDC")
def a_provider_that_is_not_there(here: Broken) -> None:
    roles = here.file("roles.toml", '[[rule]]\nclaim = "groups"\nequals = "admins"\nrole = "administrator"\n')
    here.settings |= {"oidc_issuer": "https://id.invalid", "oidc_client_id": "x", "oidc_roles": roles}
    here.settings["public_url"] = "https://board.example.org"


# PostgreSQL


@broken(
    "postgresql", "database", 'role "nobody_here" does not exist', "make the role nobody_here .*db roles", long=False
)
def a_role_that_is_not_there(here: Broken) -> None:
    here.postgresql(username="nobody_here")


@broken("postgresql", "database", 'database "nothing_here" does not exist', "createdb nothing_here")
def a_database_that_is_not_there(here: Broken) -> None:
    here.postgresql(database="nothing_here")


@broken("postgresql", "database", "Connection refused|connection failed", "start PostgreSQL")
def a_server_that_is_down(here: Broken) -> None:
    here.postgresql(port=free_port())


@broken("postgresql", "database", "db.invalid", "correct the host")
def a_host_that_is_not_there(here: Broken) -> None:
    here.postgresql(host="db.invalid")


@broken("postgresql", "database", "timeout|no answer within", "check host and port|accepts connections")
def a_server_that_hangs(here: Broken) -> None:
    host, port = here.hanging().split(":")
    here.postgresql(host=host, port=int(port))


@broken("postgresql", "database", "SSL", "sslmode")
def a_server_without_tls(here: Broken) -> None:
    here.postgresql(query={"sslmode": "require"})


@broken("postgresql", "writing", "read-only transaction", "default_transaction_read_only")
def a_database_that_only_reads(here: Broken) -> None:
    with psycopg.connect(
        make_url(here.url).set(drivername="postgresql").render_as_string(False), autocommit=True
    ) as it:
        it.execute(f'ALTER DATABASE "{make_url(here.url).database}" SET default_transaction_read_only = on')


@pytest.fixture
def hanging() -> Iterator[str]:
    """Yield host:port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server, closing_all() as kept:

        def accept() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def closing_all() -> Iterator[list[socket.socket]]:
    kept: list[socket.socket] = []
    yield kept
    for connection in kept:
        connection.close()


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with S3Server("results") as started:
        yield started


def doctor(*options: object, **settings: Any) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run `doctor`; return the finished process and its seconds."""
    begun = time.monotonic()
    report = shuffleboard("doctor", *options, status=None, **settings)
    return report, time.monotonic() - begun


@pytest.mark.parametrize(("engine_name", "plant", "check", "found", "remedy"), BREAKAGES)
def test_a_broken_deployment_is_named_with_its_remedy_in_under_ten_seconds(
    engine_name: str,
    plant: Plant,
    check: str,
    found: str,
    remedy: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    url: str = request.getfixturevalue(f"{engine_name}_database")
    home = tmp_path / "home"
    home.mkdir()
    queue_evaluation(get_engine(url), tmp_path)
    get_engine(url).dispose()
    deployment = Broken(url, home, request)
    plant(deployment)
    settings: dict[str, Any] = {"home": home, "database_url": url} | deployment.settings
    if "database_url_file" in settings or settings["home"] == "/dev/null":
        del settings["database_url"]
    report, took = doctor("--json", *deployment.options, **settings)
    assert "Traceback" not in report.stderr
    named: Any = json.loads(report.stdout or "null")
    if named:
        faults = {one["name"]: one for one in named["checks"] if one["status"] != "ok"}
        assert faults.keys() & set(check.split("|")), faults
        (fault,) = [one for name, one in faults.items() if name in check.split("|")]
        said_found, said_remedy = fault["found"], fault["remedy"]
    else:
        assert check.split("|")[-1] == "", report.stderr
        assert report.returncode in (1, 2)
        said_found = said_remedy = report.stderr
    assert re.search(found, said_found), said_found
    assert re.search(remedy, said_remedy), said_remedy
    if took >= SECONDS:  # a busy machine may have spent some of them on checks without a finding
        (order := tmp_path / "order").mkdir()
        took = min(doctor(*deployment.options, **settings)[1] - doctor(home=order)[1] for _ in range(3))
        assert took < SECONDS
