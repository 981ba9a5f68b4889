"""Hostile uploads, which are refused with 4xx while pages are served."""

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient

from registry import isolated
from registry.db import get_engine
from tests.conftest import FilledDatabases
from tests.hostile import bulk
from tests.hostile.doors import BENCHMARK, IMPORTERS, MODEL, fill
from tests.hostile.values import JSON_VALUES, with_value
from tests.web.accounts import add_account, bearer, token_of
from web import create_app

OUTPUTS = f"/api/v1/evaluations/import?model={MODEL}&benchmark={BENCHMARK}&variants=imported"
BENCHMARKS = "/api/v1/benchmarks?name=hostile"
LINES, DOCUMENT, ARCHIVE, PARQUET = (
    "application/x-ndjson",
    "application/json",
    "application/zip",
    "application/vnd.apache.parquet",
)
UPLOADS = {
    "the outputs contract": (OUTPUTS, LINES),
    "Every Eval Ever": (OUTPUTS, LINES),
    "Inspect's document": (OUTPUTS, DOCUMENT),
    "Inspect's sample": (OUTPUTS, ARCHIVE),
    "a benchmark": (BENCHMARKS, LINES),
    "a benchmark's table": (BENCHMARKS, "text/csv"),
}
"""Importer → the address and the type of its uploads."""
WORST = (
    "1,000 lists",
    "100,000 lists",
    "a number of 5,000 digits",
    "10^30",
    "2^63 - 1",
    "half a surrogate pair",
    "NUL",
    "NaN",
)


def post(client: FlaskClient, headers: dict[str, str], address: str, content: bytes, kind: str) -> tuple[int, Any]:
    answer = client.post(address, data=content, content_type=kind, headers=headers)
    return answer.status_code, answer.json


def fill_site(url: str) -> tuple[FlaskClient, dict[str, str]]:
    add_account(get_engine(url), "maintainer", "maintainer")
    return create_app(database_url=url).test_client(), bearer(token_of(get_engine(url), "maintainer"))


@pytest.mark.long_on("postgresql")
def test_hostile_uploads_are_answered_with_4xx_and_honest_ones_are_stored(
    filled_databases: FilledDatabases, tmp_path: Path
) -> None:
    with filled_databases.copy(fill, tmp_path) as (url, _):
        client, headers = fill_site(url)
        for number, (name, (address, kind)) in enumerate(UPLOADS.items()):
            importer = IMPORTERS[name]
            place = next(key for key in importer.document if key not in ("version", "status", "eval"))
            for value in WORST[number % 4 :: 4]:
                path = importer.write(tmp_path, with_value(importer.document, (place,), JSON_VALUES[value]))
                status, body = post(client, headers, address, path.read_bytes(), kind)
                assert status in (201, 422), (name, value, body)
            path = importer.write(tmp_path, json.dumps(importer.document))
            assert post(client, headers, address, path.read_bytes(), kind)[0] == 201, name
        question = {"id": ["q"], "subject": ["s"], "question": ["?"], "options": [["a", "b"]], "answer": [0]}
        pq.write_table(pa.table(question), tmp_path / "b.parquet")
        content = (tmp_path / "b.parquet").read_bytes()
        assert post(client, headers, BENCHMARKS, content, PARQUET)[0] == 201
        get_engine(url).dispose()


@pytest.mark.one_engine
def test_pages_are_answered_while_a_file_is_read(
    filled_databases: FilledDatabases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check with a call of C that blocks all threads of the reading process for two seconds."""
    run = isolated.run

    def slowly(job: isolated.Job, _order: object) -> Any:
        return run(isolated.Job("tests.support.isolated_jobs:match", seconds=2.0), "a" * 60 + "!")

    monkeypatch.setattr(isolated, "run", slowly)
    with filled_databases.copy(fill, tmp_path) as (url, _):
        client, headers = fill_site(url)
        answers: list[tuple[int, Any]] = []
        upload = threading.Thread(target=lambda: answers.append(post(client, headers, BENCHMARKS, b"{}\n", LINES)))
        second_client = client.application.test_client()
        upload.start()
        answered = 0
        while upload.is_alive():
            assert second_client.get("/models").status_code == 200
            answered += 1
        upload.join()
        assert answered > 1
        assert answers[0][0] == 422
        assert "longer than 2 s" in answers[0][1]["detail"]
        get_engine(url).dispose()


@pytest.mark.long
@pytest.mark.one_engine
@pytest.mark.parametrize("name", bulk.LOGS)
def test_sixty_megabytes_of_tiny_values_are_refused_within_half_a_gigabyte(
    filled_databases: FilledDatabases, tmp_path: Path, name: str
) -> None:
    path = bulk.LOGS[name](tmp_path, bulk.MEGABYTES << 20)
    kinds = {".json": DOCUMENT, ".jsonl": LINES, ".csv": "text/csv", ".eval": ARCHIVE}
    with filled_databases.copy(fill, tmp_path) as (url, _):
        client, headers = fill_site(url)
        status, body = post(client, headers, OUTPUTS, path.read_bytes()[: 64 << 20], kinds[path.suffix])
        assert status == 422, body
        get_engine(url).dispose()
