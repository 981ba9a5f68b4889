"""Models: descriptions, names in any case, new names, and equal weights under two names."""

import pytest

from registry.db import get_engine, read_session, write_session
from registry.lookups import find_revision
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision, model_identity
from tests.support.commands import shuffleboard, shuffleboard_json

pytestmark = pytest.mark.one_engine


def test_a_registered_model_is_described_and_the_command_says_what_changed(sqlite_database: str) -> None:
    with write_session(get_engine(sqlite_database)) as session:
        add_revision(session, "m", RevisionRequest("external"))
    where = {"database_url": sqlite_database}
    alone = shuffleboard("models", "add", "m", "--family", "Qwen", "--parameters", "8000000", **where).stdout
    assert alone == "m; family is now Qwen; parameters is now 8000000\n"
    with_kind = shuffleboard("models", "add", "m", "--kind", "external", "--family", "Qwen2", **where).stdout
    assert with_kind == "m@1 is already registered; ready; family is now Qwen2\n"
    again = shuffleboard_json("models", "add", "m", "--family", "Qwen2", **where)
    assert (again["added"], again["updated"], again["family"], again["parameters"]) == (False, [], "Qwen2", 8000000)
    unknown = shuffleboard("models", "add", "n", "--family", "Qwen", status=1, **where)
    assert "no model 'n'" in unknown.stderr


def test_a_name_is_found_in_any_case_and_keeps_its_own(sqlite_database: str) -> None:
    where = {"database_url": sqlite_database}
    shuffleboard("models", "add", "GPT-4o", "--kind", "external", **where)
    again = shuffleboard("models", "add", "gpt-4o", "--kind", "external", "--revision", "2024-08-06", **where)
    assert again.stdout == "GPT-4o@2 registered; ready\n"
    assert shuffleboard_json("models", "show", "gpt-4O@1", **where)["name"] == "GPT-4o"
    listed = shuffleboard_json("models", "list", **where)["models"]
    assert [(row["name"], row["revision"]) for row in listed] == [("GPT-4o", 1), ("GPT-4o", 2)]


def test_a_renamed_model_is_found_by_both_names_and_keeps_its_identity(sqlite_database: str) -> None:
    where = {"database_url": sqlite_database}
    for name in ("run-17", "other"):
        shuffleboard("models", "add", name, "--kind", "external", **where)
    with read_session(get_engine(sqlite_database)) as session:
        before = model_identity(find_revision(session, "run-17"))
    renamed = shuffleboard("models", "rename", "run-17", "Llama-9B", **where)
    assert renamed.stdout == "run-17 is now called Llama-9B\n"
    for name in ("run-17", "llama-9b"):
        assert shuffleboard_json("models", "show", name, **where)["name"] == "Llama-9B"
    with read_session(get_engine(sqlite_database)) as session:
        assert model_identity(find_revision(session, "Llama-9B")) == before
    for taken, message in (("OTHER", "is the name"), ("run-17", "was an earlier name")):
        refused = shuffleboard(
            "models", "rename", "other" if taken == "run-17" else "Llama-9B", taken, status=2, **where
        )
        assert message in refused.stderr, refused.stderr
    back = shuffleboard_json("models", "rename", "Llama-9B", "run-17", **where)
    assert (back["model"], back["earlier_names"]) == ("run-17", ["run-17", "Llama-9B"])


def test_equal_weights_under_two_names_are_named(sqlite_database: str) -> None:
    files = ModelFiles("a" * 64, "b" * 64, None, "0" * 40)
    with write_session(get_engine(sqlite_database)) as session:
        for name in ("one", "two"):
            add_revision(session, name, RevisionRequest("huggingface", f"owner/{name}"), files=files)
    assert shuffleboard_json("models", "show", "one", database_url=sqlite_database)["twins"] == ["two@1"]
    assert "two@1" in shuffleboard("models", "show", "one", database_url=sqlite_database).stdout
