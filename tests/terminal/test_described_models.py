"""What is said of a model that is registered already is kept, and said again."""

import pytest

from registry.db import get_engine, write_session
from registry.revisions.store import RevisionRequest, add_revision
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
