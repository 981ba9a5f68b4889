"""Estimates the size of a site and the time to write it from a few files of each kind, before anything is written."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.lookups import find_sealed
from registry.sealed import folder
from registry.sealed.archiving import copy
from registry.tables import Archive, BenchmarkVersion, Evaluation, Question
from web.publishing.places import Scope
from web.publishing.queries import FILES, MORE
from web.publishing.rewriting import rewrite
from web.urls.paging import QUESTIONS_PER_PAGE

SAMPLES: Final = 3
"""Number of files of each kind that are generated to measure them."""


@dataclass(frozen=True)
class Expected:
    """Estimated size of a site. seconds: the time to write the whole site."""

    files: int
    bytes: int
    seconds: float


@dataclass
class _Sum:
    files: int = 0
    bytes: float = 0.0
    seconds: float = 0.0

    def add(self, files: int, bytes_: float, seconds: float) -> None:
        """Add a number of files with their mean size and time."""
        self.files += files
        self.bytes += files * bytes_
        self.seconds += files * seconds


def estimate_site(app: Flask, session: Session, scope: Scope, evaluation_ids: Sequence[int]) -> Expected:
    """Estimate the site of a board. app: the website with the site's own pages."""
    sums, client = _Sum(), app.test_client()
    _measure(client, f"/boards/{scope.board}")  # the first page of a process takes longer than the others
    single = ("/query", "/metrics-guide", f"/api/v1/boards/{scope.board}", f"/boards/{scope.board}/pairs")
    for address in (*single, *[f"/boards/{scope.board}"] * SAMPLES):
        sums.add(1, *_measure(client, address))
    questions = _list_questions(session, evaluation_ids)
    models, benchmarks = sorted(scope.models), sorted(scope.benchmarks)
    of_each: list[tuple[Sequence[object], Callable[[object], str]]] = [
        (questions, "/questions/{}".format),
        (evaluation_ids, "/evaluations/{}".format),
        (evaluation_ids, "/evaluations/{}/provenance".format),
        (models, "/models/{}".format),
        (models, "/api/v1/models/{}".format),
        (benchmarks, "/api/v1/benchmarks/{}".format),
        (benchmarks * max(1, round(len(questions) / QUESTIONS_PER_PAGE / len(benchmarks))), "/benchmarks/{}".format),
    ]
    for subjects, address_of in of_each:
        chosen = _choose(subjects)
        measured = [_measure(client, address_of(subject)) for subject in chosen]
        sums.add(len(subjects), *(sum(column) / len(measured) for column in zip(*measured, strict=True)))
    _add_folders(sums, session, evaluation_ids)
    sums.files += len(FILES) + len(MORE)
    static = Path(str(app.blueprints["site"].static_folder))
    sizes = [path.stat().st_size for path in static.rglob("*") if path.is_file()]
    sums.add(len(sizes), sum(sizes) / len(sizes), 0.0)
    return Expected(sums.files, round(sums.bytes), sums.seconds)


def _measure(client: FlaskClient, address: str) -> tuple[float, float]:
    """Return the size of a page on the site in bytes, and the seconds that it takes."""
    began = time.monotonic()
    with client.get(address) as response:
        body = response.get_data()
        if response.mimetype == "text/html":
            body = rewrite(body.decode(), lambda target: target).encode()
    return float(len(body)), time.monotonic() - began


def _choose(subjects: Sequence[object]) -> list[object]:
    """Return a few of the subjects, spread from the first to the last."""
    most = min(SAMPLES, len(subjects))
    return [subjects[place * (len(subjects) - 1) // max(1, most - 1)] for place in range(most)]


def _list_questions(session: Session, evaluation_ids: Sequence[int]) -> list[int]:
    versions = select(Evaluation.benchmark_version_id).where(is_in(Evaluation.id, evaluation_ids))
    query = select(Question.id).join(BenchmarkVersion).where(BenchmarkVersion.id.in_(versions)).order_by(Question.id)
    return list(session.scalars(query))


def _add_folders(found: _Sum, session: Session, evaluation_ids: Sequence[int]) -> None:
    """Add the folders of the evaluations: the known size of an archived one, else a size estimated from its prompts."""
    query = select(Evaluation.id, Evaluation.prompts, Archive.size).outerjoin(Archive)
    rows = session.execute(query.where(is_in(Evaluation.id, evaluation_ids)).order_by(Evaluation.prompts)).all()
    number, prompts, _ = rows[len(rows) // 2]
    began = time.monotonic()
    with TemporaryDirectory(prefix="shuffleboard-publish-") as scratch:
        copy(session, find_sealed(session, number), Path(scratch) / "sample")
        size = sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file())
    seconds = time.monotonic() - began
    for _, of_one, archive_size in rows:
        share = of_one / prompts
        found.add(
            len(folder.FILES), (archive_size or size * share) / len(folder.FILES), seconds * share / len(folder.FILES)
        )
