"""The API's answers to many kinds of requests by schemathesis, compared with its OpenAPI document."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from registry.boards.submissions import ModelRequest, request_submission
from registry.db import get_engine, write_session
from registry.people.accounts import ROLES, create_account, find_account, scopes_of, viewer_of_account
from registry.schema.audiences import dispose
from registry.settings import Settings
from tests.support.marks import long_but
from tests.web.accounts import bearer, token_of
from tests.web.conftest import Site
from web import create_app
from web.api import OPERATIONS
from web.api.operations import Operation

# A file left open by an aborted form is closed when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore:.*SpooledTemporaryFile:pytest.PytestUnraisableExceptionWarning")

CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.unsupported_method,
]
ANONYMOUS = "nobody"
WEAKEST = {
    scope: next(role for role in ROLES if scope in scopes_of(role)) for scope in ("sql", "submit", "maintain", "admin")
}
"""Scope to the lowest role that has it."""


@pytest.fixture(scope="module")
def api(sqlite_registry: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the document over a registry that no test changes."""
    with _open_schema(sqlite_registry, tmp_path_factory.mktemp("read")) as schema:
        yield schema


@pytest.fixture(scope="module")
def changing_api(sqlite_registry: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the document over a registry that tests may change in any way."""
    with _open_schema(sqlite_registry, tmp_path_factory.mktemp("written")) as schema:
        yield schema


@contextmanager
def _open_schema(sqlite_registry: Site, folder: Path) -> Iterator[Any]:
    """Yield the document over a copy of the registry, with values for paths: made-up numbers belong to nothing."""
    assert sqlite_registry.engine.url.database is not None
    with (
        closing(sqlite3.connect(sqlite_registry.engine.url.database)) as source,
        closing(sqlite3.connect(folder / "written.db")) as copy,
    ):
        source.backup(copy)
    url = f"sqlite:///{folder / 'written.db'}"
    engine = get_engine(url)
    # Who may use the SQL page without an account may save no query: the document has one scope for both.
    options = Settings(home=folder, rate_limits=False, anonymous_sql=False)
    with write_session(engine) as session:
        for role in ROLES:
            create_account(session, role, role)
        create_account(session, "somebody", "reader")
        asking = viewer_of_account(find_account(session, "submitter"))
        requests = [ModelRequest(hub="a/b", revision=f"r{number}") for number in range(3)]
        submissions = [
            request_submission(session, session, asking, requested, "orders", None, options)[0].id
            for requested in requests
        ]
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", create_app(options, database_url=url))
    seeded = sqlite_registry.seeded
    there = {
        "evaluation_id": [*seeded.evaluations.values(), seeded.secret_evaluation],
        "question_id": [*seeded.questions.values(), seeded.secret_question],
        "model": ["alpha", "slow", "nobody"],
        "benchmark": ["capitals", "secret"],
        "board": ["main", "nothing"],
        "suite": ["orders", "robustness-core"],
        "digest": [sqlite_registry.client.get("/api/v1/boards/main").json["digest"]],
        "submission_id": submissions,
        "other_id": [*seeded.evaluations.values()],
        # Never the account of the request's token: it would be disabled on the way.
        "account": ["somebody", "nobody"],
    }

    # Query parameters may name existing objects as well.
    named = {"a": [seeded.evaluations["alpha"]], "b": [seeded.evaluations["beta"], seeded.secret_evaluation]}

    @schema.hook
    def map_query(_context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
        if not query or len(str(query)) % 4 == 0:
            return query
        number = len(str(query))
        return {key: named[key][number % len(named[key])] if key in named else value for key, value in query.items()}

    @schema.hook
    def map_path_parameters(_context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        """Use an existing object in every other path."""
        if not path_parameters:
            return path_parameters
        number = len(str(path_parameters))
        if number % 4 == 0 and number > len("{'account': ''}") + 1:
            return path_parameters
        return {
            name: there[name][number % len(there[name])] if name in there else value
            for name, value in path_parameters.items()
        }

    schema.tokens = {role: bearer(token_of(engine, role)) for role in ROLES} | {ANONYMOUS: {}}
    yield schema
    dispose(engine)


def _ask(api: Any, operation: Operation, role: str, mode: schemathesis.GenerationMode, examples: int) -> set[int]:
    """Send many requests for an operation; return the statuses of the answers."""
    answered = set()
    path = _path(operation)

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path][operation.method].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.headers.pop("Authorization", None)
        response = case.call_and_validate(headers=api.tokens[role] | {"Accept-Encoding": "identity"}, checks=CHECKS)
        answered.add(response.status_code)

    ask()
    return answered


def _path(operation: Operation) -> str:
    return "/api/v1" + re.sub(r"<(\w+)>", r"{\1}", operation.rule)


def _has_something_to_get_wrong(operation: Operation) -> bool:
    return "<" in operation.rule or bool(operation.query.model_fields) or operation.body is not None


READS = [operation for operation in OPERATIONS if operation.method == "GET"]
WRITES = [operation for operation in OPERATIONS if operation.method != "GET"]
WITH_PARAMETERS = [operation for operation in OPERATIONS if _has_something_to_get_wrong(operation)]


TIMES = pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.long)])
"""Multiples of the number of requests that suffices to find a frequent fault."""


def names(operations: list[Operation]) -> list[str]:
    return [operation.name for operation in operations]


@TIMES
@pytest.mark.parametrize("operation", READS, ids=names(READS))
def test_what_the_document_allows_is_answered_as_it_says(api: Any, operation: Operation, times: int) -> None:
    role = WEAKEST.get(operation.scope, ANONYMOUS)
    answered = _ask(api, operation, role, schemathesis.GenerationMode.POSITIVE, 8 * times)
    if 200 not in answered:  # if several parameters have to exist
        answered |= _ask(api, operation, role, schemathesis.GenerationMode.POSITIVE, 120)
    assert 200 in answered


@TIMES
@pytest.mark.parametrize("operation", WRITES, ids=names(WRITES))
def test_what_is_sent_as_the_document_says_is_answered_so(changing_api: Any, operation: Operation, times: int) -> None:
    answered = _ask(changing_api, operation, WEAKEST[operation.scope], schemathesis.GenerationMode.POSITIVE, 4 * times)
    assert not answered & {401, 403, 415}


@TIMES
@pytest.mark.parametrize("operation", WITH_PARAMETERS, ids=names(WITH_PARAMETERS))
def test_what_the_document_forbids_is_a_documented_problem(changing_api: Any, operation: Operation, times: int) -> None:
    role = WEAKEST.get(operation.scope, ANONYMOUS)
    refusals = {400, 404, 415, 422}
    answered = _ask(changing_api, operation, role, schemathesis.GenerationMode.NEGATIVE, 5 * times)
    if not answered & refusals:  # if most made-up values are valid
        answered |= _ask(changing_api, operation, role, schemathesis.GenerationMode.NEGATIVE, 40)
    assert answered & refusals


@pytest.mark.parametrize("role", long_but((ANONYMOUS,), (ANONYMOUS, *ROLES)))
def test_no_role_meets_what_is_not_documented(changing_api: Any, role: str) -> None:
    scopes = {"read"} if role == ANONYMOUS else scopes_of(role)
    for operation in OPERATIONS:
        answered = _ask(changing_api, operation, role, schemathesis.GenerationMode.POSITIVE, 2)
        if operation.scope not in scopes:
            assert answered <= {401, 403}, operation.name
        else:
            assert not answered & {401, 403}, operation.name
