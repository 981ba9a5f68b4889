"""Settings, the command line's texts, and the forms of small values."""

from pathlib import Path
from typing import Any

import pytest

from registry.errors import ShuffleboardError, UpgradedError, UsageError
from registry.exchange.tabular import spreadsheet_cell
from registry.queue.planning import SHARD_PROMPTS, PlannedQuestion, plan_shards
from registry.settings import Settings, get_settings
from shuffleboard.cli.tables import show


def test_every_setting_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SHUFFLEBOARD_LEASE_SECONDS", "2.5")
    settings = get_settings()
    assert (settings.home, settings.lease_seconds) == (tmp_path / "data", 2.5)
    assert get_settings() is settings
    monkeypatch.setenv("SHUFFLEBOARD_LEASE_SECONDS", "3")
    assert get_settings().lease_seconds == 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("postgresql://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgres://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+psycopg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("sqlite:///x.db", "sqlite:///x.db"),
    ],
)
def test_the_database_in_force(value: str, expected: str) -> None:
    assert Settings(database_url=value).resolve_database_url() == expected


def test_without_a_database_it_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    assert Settings(home=tmp_path).resolve_database_url() == f"sqlite:///{tmp_path / 'shuffleboard.db'}"


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_LEASE_SECONDS", "")
    assert get_settings().lease_seconds == Settings.model_fields["lease_seconds"].default


@pytest.mark.parametrize(
    ("name", "value"),
    [("LEASE_SECONDS", "soon"), ("LEASE_SECONDS", "-1"), ("POLL_SECONDS", "0"), ("RECONCILE_SECONDS", "x")],
)
def test_a_setting_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"SHUFFLEBOARD_{name}", value)
    with pytest.raises(UsageError, match=rf"SHUFFLEBOARD_{name}='{value}': .*; correct or unset the variable"):
        get_settings()


def test_a_setting_is_read_from_the_file_that_its_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (("DATABASE_URL", "postgresql://u:secret@h/d\n"), ("SQL_SECONDS", " 2.5\n\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.setenv(f"SHUFFLEBOARD_{name}_FILE", str(tmp_path / name))
    monkeypatch.setenv("SHUFFLEBOARD_BROKER_URL_FILE", "")  # counts as unset
    monkeypatch.setenv("SHUFFLEBOARD_SECRET_KEY_FILE", "/run/secrets/key")  # the path is the setting
    settings = get_settings()
    assert settings.resolve_database_url() == "postgresql+psycopg://u:secret@h/d"
    assert (settings.sql_seconds, settings.broker_url) == (2.5, "")
    assert settings.secret_key_file == Path("/run/secrets/key")


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (None, r"cannot be read \(No such file or directory\); correct the path or its permissions"),
        (b" \n", "is empty; write the value into it, or unset the variable"),
        (b"\xff\xfe", "not text in UTF-8; write the value into it, and nothing else"),
        (b"hunter2", "Input should be a valid number.*; correct the file"),
    ],
)
def test_a_file_without_its_setting_is_named_without_its_contents(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contents: bytes | None, reason: str
) -> None:
    path = tmp_path / "seconds"
    if contents is not None:
        path.write_bytes(contents)
    monkeypatch.setenv("SHUFFLEBOARD_LEASE_SECONDS_FILE", str(path))
    with pytest.raises(UsageError, match=rf"^SHUFFLEBOARD_LEASE_SECONDS_FILE={path}: {reason}$") as refused:
        get_settings()
    assert "hunter2" not in str(refused.value)


def test_a_setting_is_not_given_in_both_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("sqlite:///a.db", encoding="utf-8")
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL_FILE", str(tmp_path / "url"))
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", "sqlite:///b.db")
    with pytest.raises(UsageError, match="both SHUFFLEBOARD_DATABASE_URL and SHUFFLEBOARD_DATABASE_URL_FILE are set"):
        get_settings()


def test_no_setting_is_named_like_the_file_of_another() -> None:
    fields = set(Settings.model_fields)
    assert not {f"{field}_file" for field in fields} & fields


def test_settings_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        Settings().lease_seconds = 1.0  # type: ignore[misc]


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_every_error_says_what_it_is_and_has_a_documented_status() -> None:
    def tree(error: type[ShuffleboardError]) -> list[type[ShuffleboardError]]:
        return [error, *(descendant for child in error.__subclasses__() for descendant in tree(child))]

    for error in tree(ShuffleboardError):
        assert error.__doc__
        # 75: the database was upgraded, and a supervisor starts the process again.
        assert error.exit_status in ((75,) if error is UpgradedError else (1, 2))


# Output


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "–"), (True, "yes"), (False, "no"), (0.12345, "0.123"), (0.0, "0.000"), (3, "3"), ("text", "text")],
)
def test_values_as_people_read_them(value: object, expected: str) -> None:
    assert show(value) == expected


@pytest.mark.parametrize("value", ["=1+1", "+1", "-x", "@a", "\tx", "\rx"])
def test_a_cell_that_a_spreadsheet_would_run_is_disarmed(value: str) -> None:
    assert spreadsheet_cell(value) == "'" + value


@pytest.mark.parametrize("value", ["text", -1, -0.5, None, "1=1"])
def test_other_cells_stay_as_they_are(value: object) -> None:
    assert spreadsheet_cell(value) == value


# Shards


def plan(*groups: tuple[str | None, int, int]) -> list[PlannedQuestion]:
    """Return questions from (subject, number, variants of each)."""
    rows = [(subject, variants) for subject, count, variants in groups for _ in range(count)]
    return [PlannedQuestion(number, subject, 4, variants) for number, (subject, variants) in enumerate(rows)]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([("a", 3, 4)], [3], id="all in one"),
        pytest.param([("a", 40, 4)], [16, 16, 8], id="64 prompts a shard"),
        pytest.param([("a", 10, 4), ("b", 2, 4)], [10, 2], id="a half-full shard ends with its subject"),
        pytest.param([("a", 1, 4), ("b", 1, 4)] * 10, [8, 8, 4], id="alternating subjects share shards"),
        pytest.param([("a", 3, 24)], [2, 1], id="24 orders a question"),
        pytest.param([("a", 2, 720)], [1, 1], id="a question is never cut"),
        pytest.param([(None, 20, 4)], [16, 4], id="no subject"),
    ],
)
def test_shards(groups: list[Any], expected: list[int]) -> None:
    questions = plan(*groups)
    shards = list(plan_shards(questions))
    assert [len(shard) for shard in shards] == expected
    assert [question for shard in shards for question in shard] == questions
    for shard in shards:
        assert len(shard) == 1 or sum(question.n_variants for question in shard) <= SHARD_PROMPTS
