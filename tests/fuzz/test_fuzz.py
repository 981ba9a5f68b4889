"""A short run of `python -m tests.fuzz`, with requests drawn by a seed."""

from pathlib import Path

import pytest

from tests.conftest import FilledDatabases
from tests.fuzz.doors import Fault, Fuzz, fill, site

FEW = 75
MANY = 600


@pytest.mark.parametrize(
    ("filled_databases", "seed", "requests"),
    [
        ("sqlite", 1, FEW),
        ("postgresql", 2, FEW),
        pytest.param("sqlite", 3, MANY, marks=pytest.mark.long),
        pytest.param("postgresql", 4, MANY, marks=pytest.mark.long),
    ],
    indirect=["filled_databases"],
)
def test_no_door_answers_a_hostile_value_with_a_server_error(
    filled_databases: FilledDatabases, seed: int, requests: int, tmp_path: Path
) -> None:
    with filled_databases.copy(fill, tmp_path) as (url, right):
        fuzz = Fuzz(site(url, tmp_path), right, seed)
        assert [str(fault) for fault in fuzz.run(requests) if not _ask_of_no_reader(fault, url)] == []


def _ask_of_no_reader(fault: Fault, url: str) -> bool:
    """Return whether this is the answer of the SQL page on PostgreSQL without a role for readers, as in this test."""
    return (
        url.startswith("postgresql") and fault.status == 503 and fault.door.endpoint.startswith(("sql.", "api.query"))
    )
