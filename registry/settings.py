"""Settings: read once from the environment, then frozen."""

from functools import lru_cache
from pathlib import Path

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from registry.errors import UsageError


class Settings(BaseSettings):
    """What a deployment chooses. Every field is read from `SHUFFLEBOARD_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="SHUFFLEBOARD_", frozen=True, env_ignore_empty=True)

    home: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("shuffleboard")),
        description="Data directory: the SQLite database and converted model files.",
    )
    database_url: str = Field(default="", description="SQLAlchemy URL; empty: SQLite under the data directory.")
    broker_url: str = Field(default="", description="Redis URL for Celery; empty: workers poll the database.")
    lease_seconds: float = Field(
        default=60.0, gt=0, description="A shard whose worker is silent this long is given to another."
    )
    poll_seconds: float = Field(default=1.0, gt=0, description="How often an idle worker looks into the database.")
    reconcile_seconds: float = Field(
        default=30.0, gt=0, description="How often lost hints are sent again and finished evaluations sealed."
    )
    endpoints: str = Field(default="", description="TOML file of the endpoints that models may be on; empty: none.")
    endpoint_top_logprobs: int = Field(
        default=20, ge=1, description="How many of the most probable tokens an endpoint is asked for."
    )
    endpoint_in_flight: int = Field(default=4, ge=1, le=256, description="Requests that wait for an answer at once.")
    endpoint_requests_per_second: float = Field(
        default=0.0, ge=0, description="Most requests that a worker begins in a second; 0: no limit."
    )
    endpoint_connect_seconds: float = Field(default=10.0, gt=0, description="How long connecting may take.")
    endpoint_read_seconds: float = Field(
        default=120.0, gt=0, description="How long an answer may keep silent, and how long it may take to arrive."
    )
    endpoint_attempts: int = Field(default=6, ge=1, description="How often a request is made before it has failed.")
    endpoint_wait_seconds: float = Field(
        default=60.0, gt=0, description="The longest wait between two attempts; a server that asks for more has failed."
    )
    public_url: str = Field(
        default="", description="Where others reach the website, such as https://board.example.org: links, cookies."
    )
    trusted_proxies: int = Field(
        default=0, ge=0, le=10, description="Reverse proxies in front of the website whose X-Forwarded headers hold."
    )
    secret_key_file: Path | None = Field(
        default=None, description="File with the key that signs cookies; default: one made in the data directory."
    )
    anonymous_reading: bool = Field(default=True, description="Whether anyone may read what is public.")
    anonymous_sql: bool = Field(default=False, description="Whether anyone may use the SQL page, over what is public.")
    rate_limits: bool = Field(default=True, description="Whether clients that ask too much are told to wait.")
    reader_url: str = Field(
        default="", description="PostgreSQL URL of the role that reads what is public; empty: its queries are refused."
    )
    member_reader_url: str = Field(
        default="", description="PostgreSQL URL of the role that reads what members see; empty: theirs are refused."
    )
    sql_rows: int = Field(default=10_000, ge=1, le=1_000_000, description="Most rows of an answer on the SQL page.")
    sql_seconds: float = Field(default=10.0, gt=0, le=600, description="How long a query of the SQL page may take.")
    sql_bytes: int = Field(default=5_000_000, ge=1000, description="Most bytes of an answer on the SQL page.")
    sql_cell_characters: int = Field(default=20_000, ge=10, description="Where a longer cell of an answer is cut.")
    private_webhooks: str = Field(
        default="", description="Hosts, separated by commas, that webhooks may be on although they are private."
    )
    log_level: str = Field(default="info", description="debug, info, warning or error.")

    def resolved_database_url(self) -> str:
        """The database URL in force; PostgreSQL URLs are given the psycopg 3 driver."""
        url = self.database_url or f"sqlite:///{self.home.expanduser().resolve() / 'shuffleboard.db'}"
        for prefix in ("postgresql://", "postgres://"):
            if url.startswith(prefix):
                return "postgresql+psycopg://" + url.removeprefix(prefix)
        return url


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """The settings of this process.

    Raises UsageError that names the variable when one cannot be read.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "SHUFFLEBOARD_" + str(first["loc"][0]).upper()
        raise UsageError(f"{name}={first['input']!r}: {first['msg']}; correct or unset the variable") from None
