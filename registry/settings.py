"""Settings, read from environment variables and from the files that they name."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from registry.errors import UsageError

ENVIRONMENT: Final = "SHUFFLEBOARD_"
"""Prefix of the names of all environment variables."""
_ENCODED: Final = ENVIRONMENT.encode()


class Settings(BaseSettings):
    """The settings of a deployment. Every field is read from `SHUFFLEBOARD_<FIELD>`.

    `get_settings` also reads a field from the file that `SHUFFLEBOARD_<FIELD>_FILE` names. Use a file for a password,
    since many tools show environment variables.
    """

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT, frozen=True, env_ignore_empty=True)

    home: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("shuffleboard")),
        description="Data directory: the SQLite database and converted model files.",
    )
    database_url: str = Field(
        default="",
        description=(
            "postgresql://user:password@host/name or sqlite:////path/file.db; empty: SQLite in the data directory."
        ),
    )
    direct_database_url: str = Field(
        default="",
        description=(
            "postgresql:// URL of the same database past a connection pooler, for `db backup` and `db restore`; empty: "
            "the database URL."
        ),
    )
    database_read_url: str = Field(
        default="",
        description=(
            "postgresql:// URL of a replica, from which the website reads pages for visitors who are not signed in; "
            "empty: the database URL."
        ),
    )
    database_wait_seconds: float = Field(
        default=60.0,
        ge=0,
        description="How long a worker, beat or website that is started waits for PostgreSQL to answer.",
    )
    archives: str = Field(
        default="",
        description=(
            "Where the folders of sealed evaluations are: a place that all hosts share, or s3://bucket/prefix; empty: "
            "`archives` in the data directory."
        ),
    )
    archives_access_key: str = Field(
        default="", description="Access key of the S3-compatible store; empty: as the AWS tools find theirs."
    )
    archives_secret_key: str = Field(default="", description="Its secret key; empty: as the AWS tools find theirs.")
    archives_endpoint: str = Field(
        default="",
        pattern=r"^(https?://[^/\s]+/?)?$",
        description="URL of an S3-compatible server, such as http://minio:9000; empty: Amazon's.",
    )
    archives_region: str = Field(default="", description="Region of the store; empty: the one that it is found in.")
    harness_python: str = Field(
        default="",
        description="Python with lm_eval, for `benchmarks import --harness-task`; empty: the command's own.",
    )
    url: str = Field(
        default="",
        description=(
            "Address of the registry that logs of Inspect are imported into when a task ends; empty: the database, if "
            "its URL is set."
        ),
    )
    token: str = Field(default="", description="Token of an account that may import there; empty: none.")
    broker_url: str = Field(
        default="",
        description=(
            "redis://host:6379/0, to notify many workers of new work at once; empty: workers poll the database."
        ),
    )
    unpacked_bytes: int = Field(
        default=1 << 30,
        ge=1 << 20,
        description=(
            "Largest size of an imported file when unpacked, in bytes; of a benchmark or a JSON document, which is "
            "held in memory, a quarter of it."
        ),
    )
    lease_seconds: float = Field(
        default=60.0, gt=0, description="After how long a silent worker's shard is given to another."
    )
    poll_seconds: float = Field(default=1.0, gt=0, description="How often an idle worker polls the database.")
    reconcile_seconds: float = Field(
        default=30.0, gt=0, description="How often lost hints are resent and complete evaluations sealed."
    )
    shard_seconds: float = Field(
        default=40.0,
        ge=0,
        description=(
            "How many seconds of work a worker takes at once, by the rate of its kind of device. It may be half to one "
            "and a half times as many, and less at the end of an evaluation; 0: as many prompts as were planned."
        ),
    )
    stall_min_seconds: float = Field(
        default=300.0,
        gt=0,
        description=(
            "After how long without progress a worker gives its shard up and exits, at least. Usually it is ten times "
            "the time that the shard takes at its model's measured rate."
        ),
    )
    stall_max_seconds: float = Field(
        default=3600.0,
        gt=0,
        description=(
            "The same at most, and while a model is loaded or its rate was never measured; never less than the minimum."
        ),
    )
    endpoints: str = Field(
        default="", description="TOML file of the endpoints that models may be served on; empty: none."
    )
    prices: str = Field(
        default="",
        description="TOML file of prices that stand before those of the list that ships; empty: none.",
    )
    keep_thoughts: bool = Field(
        default=True,
        description=(
            "Whether the thoughts of models are stored; false: only their digests and lengths, with the answers."
        ),
    )
    markers: str = Field(
        default="",
        description=(
            "TOML file of markers that models write around their thoughts, added to those that ship; empty: none."
        ),
    )
    endpoint_top_logprobs: int = Field(
        default=20, ge=1, description="How many of the most probable tokens to request from an endpoint."
    )
    endpoint_in_flight: int = Field(
        default=4, ge=1, le=256, description="How many requests a worker keeps open to an endpoint at once."
    )
    endpoint_in_flight_limit: int = Field(
        default=64,
        ge=1,
        le=256,
        description="How many it keeps open at most where the server shows its queue and nothing waits there.",
    )
    endpoint_requests_per_second: float = Field(
        default=0.0, ge=0, description="How many requests a worker may start per second; 0: no limit."
    )
    endpoint_connect_seconds: float = Field(
        default=10.0, gt=0, description="How long connecting to an endpoint may take."
    )
    endpoint_read_seconds: float = Field(
        default=120.0,
        gt=0,
        description=(
            "How long an endpoint may stay silent, and how long an answer that it does not stream may take to arrive."
        ),
    )
    endpoint_attempts: int = Field(
        default=6, ge=1, description="How often a request is tried before it counts as failed."
    )
    endpoint_wait_seconds: float = Field(
        default=60.0,
        gt=0,
        description="The longest wait between two attempts; a server that asks for more counts as failed.",
    )
    endpoint_batch_poll_seconds: float = Field(
        default=60.0, gt=0, description="How often a provider is asked whether a batch has ended."
    )
    public_url: str = Field(
        default="",
        description=(
            "Public URL of the website, such as https://board.example.org: for links in feeds; "
            "with https, cookies are sent over https only."
        ),
    )
    documentation_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="URL of the documentation, which the website's footer links to; empty: no link.",
    )
    source_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="URL of the source code, which the website's footer links to; empty: no link.",
    )
    trusted_proxies: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Reverse proxies in front of the website whose X-Forwarded-For and -Proto headers are trusted.",
    )
    secret_key_file: Path | None = Field(
        default=None,
        description=(
            "File with the key that signs cookies, the same for every web host; empty: one created in the data "
            "directory."
        ),
    )
    signing_key: Path | None = Field(
        default=None,
        description=(
            "File with the private key that signs the chain's head; empty: chain-key.pem in the data directory, if it "
            "is there."
        ),
    )
    anonymous_reading: bool = Field(
        default=True,
        description="Whether anonymous visitors may read public data; false: only signed-in users and tokens.",
    )
    anonymous_sql: bool = Field(
        default=True,
        description="Whether anonymous visitors may use the SQL page, over public data; false: only with an account.",
    )
    session_idle_hours: float = Field(
        default=12.0, gt=0, description="After how long without a request a browser must sign in again."
    )
    session_hours: float = Field(
        default=168.0, gt=0, description="How long after signing in a browser must do so again in any case."
    )
    password_sign_in: bool = Field(
        default=True,
        description="Whether accounts may sign in with a password; false: only through the provider of single sign-on.",
    )
    oidc_issuer: str = Field(
        default="",
        description=(
            "Issuer of the OpenID Connect provider that people may sign in through, exactly as the provider writes it, "
            "such as https://id.example.org/realms/main; empty: no single sign-on."
        ),
    )
    oidc_name: str = Field(
        default="single sign-on",
        description="Name of the provider, for the button on the sign-in page.",
    )
    oidc_client_id: str = Field(
        default="", description="Client id that the provider knows the website by; empty: no single sign-on."
    )
    oidc_client_secret: str = Field(
        default="",
        repr=False,
        description="Client secret that belongs to it; best read from a file; empty: a public client, which has none.",
    )
    oidc_scopes: str = Field(
        default="openid profile",
        description="Scopes that the provider is asked for, separated by blanks; openid must be one of them.",
    )
    oidc_roles: str = Field(
        default="", description="TOML file that says which claims give which role; empty: no single sign-on."
    )
    rate_limits: bool = Field(
        default=True,
        description=(
            "Whether clients that send too many requests must wait; counted in Redis where there is a broker, else in "
            "each process."
        ),
    )
    sql_rows: int = Field(default=10_000, ge=1, le=1_000_000, description="Row limit of a result on the SQL page.")
    sql_seconds: float = Field(default=5.0, gt=0, le=600, description="Time limit of a query on the SQL page.")
    sql_bytes: int = Field(default=5_000_000, ge=1000, description="Size limit of a result on the SQL page, in bytes.")
    sql_at_once: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Queries of the SQL page that a process of the website runs at once; 0: half as many as there "
        "are cores, at least 2 and at most 4.",
    )
    sql_refresh_seconds: float = Field(
        default=60.0,
        ge=0,
        le=86400,
        description="How old answers of the SQL page may be; while people ask, files are written after half of it.",
    )
    sql_cell_characters: int = Field(default=20_000, ge=10, description="Length at which a cell of a result is cut.")
    log_level: str = Field(default="info", description="debug, info, warning or error.")

    def resolve_database_url(self) -> str:
        """Return the database URL in force; PostgreSQL URLs get the psycopg 3 driver."""
        return _with_driver(self.database_url or f"sqlite:///{self.home.expanduser().resolve() / 'shuffleboard.db'}")

    def resolve_direct_url(self) -> str:
        """Return the URL that bypasses a connection pooler, for PostgreSQL's own client programs."""
        return _with_driver(self.direct_database_url) or self.resolve_database_url()

    def resolve_read_url(self) -> str:
        """Return the URL of the database from which visitors' pages are read."""
        return _with_driver(self.database_read_url) or self.resolve_database_url()


def _with_driver(url: str) -> str:
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def get_settings() -> Settings:
    """Return the settings of this process, read again only if one of their variables has changed.

    Raises UsageError, naming the variable and its file, for an invalid value, a file that cannot be read, and a field
    that is set in both ways.
    """
    # This is called often, so other variables are not even decoded.
    names = [name for name in os.environb if name.upper().startswith(_ENCODED)]
    return _settings_of(frozenset((name, os.environb[name]) for name in names))


@lru_cache(maxsize=1)
def _settings_of(variables: frozenset[tuple[bytes, bytes]]) -> Settings:
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in variables}
    files = _list_named_files(environment)
    try:
        return Settings(**{field: _contents(environment, field, path) for field, path in files.items()})
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        if field in files:  # a file's content may be secret
            message = f"{_variable(field)}_FILE={files[field]}: {first['msg']}; correct the file"
        else:
            message = f"{_variable(field)}={first['input']!r}: {first['msg']}; correct or unset the variable"
        raise UsageError(message) from None


def _variable(field: str) -> str:
    return f"{ENVIRONMENT}{field.upper()}"


def _list_named_files(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the file of each field whose value is in a file."""
    named = {field: environment.get(f"{_variable(field)}_FILE", "") for field in Settings.model_fields}
    return {field: path for field, path in named.items() if path}


def _contents(environment: Mapping[str, str], field: str, path: str) -> Any:
    """Return the text of a setting's file, without the blanks and line ends around it."""
    name = f"{_variable(field)}_FILE"
    if environment.get(_variable(field)):
        raise UsageError(f"both {_variable(field)} and {name} are set; unset one of them")
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(
            f"{name}={path}: cannot be read ({error.strerror}); correct the path or its permissions"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{name}={path}: not text in UTF-8; write the value into it, and nothing else") from None
    if not text:
        raise UsageError(f"{name}={path}: is empty; write the value into it, or unset the variable")
    return text
