"""Whatever is asked for, the API answers as its OpenAPI document says: schemathesis asks for all sorts of things."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from tests.web.conftest import Site
from web.api.openapi import document

CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.unsupported_method,
]


@pytest.fixture(scope="session")
def api(sqlite_registry: Site) -> Any:
    """The document, with what to put into paths: numbers made up are of nothing."""
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", sqlite_registry.client.application)
    seeded = sqlite_registry.seeded
    digest = sqlite_registry.client.get("/api/v1/boards/main").json["digest"]
    there = {
        "evaluation_id": [*seeded.evaluations.values(), seeded.secret_evaluation],
        "question_id": [*seeded.questions.values(), seeded.secret_question],
        "model": ["alpha", "slow", "nobody"],
        "benchmark": ["capitals", "secret"],
        "board": ["main", "nothing"],
        "suite": ["orders", "robustness-core"],
        "digest": [digest],
    }

    @schema.hook
    def map_path_parameters(_context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        """Every other path is of something that is there."""
        if not path_parameters:
            return path_parameters
        number = len(str(path_parameters))
        if number % 4 == 0:
            return path_parameters
        return {name: there[name][number % len(there[name])] for name in path_parameters}

    return schema


def _ask(api: Any, path: str, mode: schemathesis.GenerationMode) -> set[int]:
    """Asks for a path again and again; returns the statuses that were answered."""
    answered = set()

    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path]["GET"].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        answered.add(case.call_and_validate(checks=CHECKS).status_code)

    ask()
    return answered


PATHS = document()["paths"]
WITH_PARAMETERS = [path for path in PATHS if {item["in"] for item in PATHS[path]["get"]["parameters"]} != {"header"}]


@pytest.mark.parametrize("path", PATHS)
def test_what_the_document_allows_is_answered_as_it_says(api: Any, path: str) -> None:
    assert 200 in _ask(api, path, schemathesis.GenerationMode.POSITIVE)


@pytest.mark.parametrize("path", WITH_PARAMETERS)
def test_what_the_document_forbids_is_a_documented_problem(api: Any, path: str) -> None:
    assert _ask(api, path, schemathesis.GenerationMode.NEGATIVE) & {400, 404}
