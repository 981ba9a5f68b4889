"""Ten wrong keys planted among 400 real questions are found in the queue, corrected, and every number follows."""

import csv
import gzip
import json
import random

import pytest
from sqlalchemy import select

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.reading import snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.errata.marks import import_errata
from registry.errata.versions import FORMAT
from registry.exchange.outputs.importer import import_columns
from registry.lookups import find_version
from registry.scores.corrections import WITH_CORRECTED_KEYS, scope_of
from registry.studies.items import item_document, item_source
from registry.tables import Evaluation
from registry.verification import verify_all
from tests.outputs.conftest import DATA, registry
from tests.proof.test_errata import stored

__all__ = ["registry"]

pytestmark = [pytest.mark.long, pytest.mark.one_engine]
LETTERS = "ABCDEFGHIJ"


def planted(folder):
    """400 questions that at least half of the models have right, ten with a wrong key; the right keys; the answers."""
    draw = random.Random(11)
    with gzip.open(DATA / "mmlu_pro_predictions.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        heading, *rows = csv.reader(stream)
    with gzip.open(DATA / "mmlu_pro.jsonl.gz", "rt", encoding="utf-8") as stream:
        questions = {one["id"]: one for one in map(json.loads, stream)}
    chosen = draw.sample([row for row in rows if row[0] in questions], 400)
    known = [row for row in chosen if 2 * sum(cell == row[3] for cell in row[4:]) >= len(row[4:])]
    wrong, right = {}, {}
    for row in draw.sample(known, 10):
        answer, options = LETTERS.index(row[3]), len(questions[row[0]]["options"])
        right[row[0]] = answer
        wrong[row[0]] = (answer + draw.randrange(1, options)) % options
    table = folder / "answers.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([[heading[0], *heading[4:]], *([row[0], *row[4:]] for row in chosen)])
    asked = [questions[row[0]] for row in chosen]
    return [one | {"answer": wrong.get(one["id"], one["answer"])} for one in asked], asked, right, table


def evaluations_of(session, benchmark):
    version = find_version(session, benchmark)
    found = session.scalars(select(Evaluation).filter_by(benchmark_version_id=version.id))
    return {one.model_revision.model.name: one.id for one in found}


def test_planted_keys_are_found_corrected_and_the_numbers_are_those_of_the_corrected_file(registry, tmp_path):
    planted_file, real_file, right, table = planted(tmp_path)
    registry.benchmark("planted", planted_file)
    import_columns(registry.engine, table, benchmark="planted")
    with write_session(registry.engine) as session:
        asked = session.scalars(select(Evaluation).limit(1)).one()
        variants = asked.variant_set.name
        suite = {
            "name": "once",
            "protocols": [asked.protocol.name],
            "shots": asked.protocol.shots,
            "variants": [variants],
            "tasks": [{"benchmark": "planted"}],
        }
        import_suite(session, SuiteDefinition.model_validate(suite))
        keys = ("as-published", "with-corrected-keys")
        import_board(session, BoardDefinition(name="b", suite="once", columns=(f"accuracy@{variants}",), errata=keys))
        queue = item_document(session, item_source(session, find_version(session, "planted")))["items"]
        assert verify_all(session)["ok"]
    first = {item["external_id"] for item in queue[:40]}
    assert len(first & right.keys()) >= 8  # of 200 such draws the least is 7, the mean 9.5
    assert all(item["reasons"] for item in queue[:40])
    with write_session(registry.engine) as session:
        version = find_version(session, "planted")
        errata, _ = import_errata(
            session,
            "planted",
            {
                "format": FORMAT,
                "content_digest": version.content_digest,
                "errata": [
                    {"question": name, "status": "corrected-key", "answer": answer, "note": "planted"}
                    for name, answer in right.items()
                ],
            },
        )
        number = errata.number
    refresh_boards(registry.engine)
    registry.benchmark("real", real_file)
    import_columns(registry.engine, table, benchmark="real")
    with read_session(registry.engine) as session:
        document = snapshot_as_of(session, "b").document
        corrected, real = evaluations_of(session, "planted"), evaluations_of(session, "real")
        assert corrected.keys() == real.keys()
        for model, evaluation in corrected.items():
            found = stored(session, evaluation, scope_of(WITH_CORRECTED_KEYS, number))
            expected = stored(session, real[model], "all")
            assert found.keys() == expected.keys()
            for name in expected:
                assert found[name] == pytest.approx(expected[name], abs=1e-12), (model, name)
            values = next(row["values"] for row in document["rows"] if row["model"] == model)
            assert [value["value"] for value in values.values()] == pytest.approx(
                [stored(session, evaluation, "all")["accuracy"][0], expected["accuracy"][0]]
            )
        assert document["errata"][0]["errata_version"] == number
        report = verify_all(session)
        assert report["ok"], report["problems"]
