"""Exported folders, verified with only the public key, and attacks on them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from registry import formats
from registry.chain import link_digest
from registry.db import get_engine
from registry.digests import sha256_file
from registry.errors import UsageError
from registry.exchange.exports import ExportRequest, export
from registry.files.manifests import MANIFEST
from registry.sealed.checking import Checked, Trust, check_by_key
from registry.sealed.exporting import export_evaluation
from registry.sealed.files import FILES, manifest_of, write_json
from registry.sealed.signing import new_key, read_key
from registry.sealed.statements import fingerprint, public_pem, read_statement, sign
from registry.settings import get_settings
from shuffleboard.cli import cli
from tests.conftest import FilledDatabases
from tests.proof.commands import run
from tests.proof.population import populate
from web.publishing import publish

SUMS = "SHA256SUMS"


class Published:
    """A registry's site, an exported evaluation with its tables, and the key that signed them."""

    def __init__(self, filled: FilledDatabases, folder: Path) -> None:
        self.folder = folder
        self.key_file = folder / "key" / "chain-key.pem"
        self.key, _ = new_key(self.key_file)
        private = read_key(self.key_file)
        self.private = private
        self.pem = folder / "key.pem"
        self.pem.write_text(public_pem(private.public_key()))
        (folder / "registry").mkdir()
        with filled.copy(populate, folder / "registry") as (url, population):
            settings = get_settings().model_copy(update={"database_url": url, "signing_key": self.key_file})
            engine = get_engine(url)
            run(engine, "benchmarks", "visibility", "bench", "public")
            self.done = publish(settings, "main", folder / "site")
            export_evaluation(engine, settings, population.evaluation, folder / "exported")
            export(engine, ExportRequest("parquet"), folder / "tables")
            engine.dispose()


@pytest.fixture(scope="module")
def published(filled_sqlite: FilledDatabases, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(filled_sqlite, tmp_path_factory.mktemp("exported"))


@pytest.fixture
def site(published: Published, tmp_path: Path) -> Path:
    """Return a copy that tests may damage by replacing files, but not by editing them, since they are hard links."""
    return Path(shutil.copytree(published.folder / "site", tmp_path / "site", copy_function=os.link))


def check(published: Published, path: Path, **expected: Any) -> Checked:
    return check_by_key(path, Trust([published.key], **expected))


def put(site: Path, name: str, content: bytes) -> None:
    """Write a file and update the checksums, as an attacker would."""
    (site / name).unlink(missing_ok=True)
    (site / name).write_bytes(content)
    digest = sha256_file(site / name)
    lines = (site / SUMS).read_text().splitlines()
    others = [line for line in lines if not line.endswith(f"  {name}")]
    (site / SUMS).unlink()
    (site / SUMS).write_text("".join(f"{line}\n" for line in sorted([*others, f"{digest}  {name}"])))


def rewrite_json(site: Path, name: str, change: Callable[[Any], Any]) -> None:
    document = json.loads((site / name).read_bytes())
    put(site, name, json.dumps(change(document) or document).encode())


def rewrite_rows(site: Path, name: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    table = pq.read_table(site / name)
    rows = table.to_pylist()
    change(rows)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), sink)
    put(site, name, sink.getvalue().to_pybytes())


CHAIN, BOARD, QUESTIONS = "proof/chain.json", "proof/board.json", "data/questions.parquet"
FOLDER = "data/evaluation_id=2"
PREDICTIONS, ASKED, METRICS = (
    f"{FOLDER}/{name}.parquet" for name in ("predictions", "evaluation_questions", "metrics")
)


def test_a_published_board_is_checked(published: Published, site: Path) -> None:
    report = check(published, site, board="main", max_age_days=1)
    assert report.problems == []
    assert "1 evaluation with 4 questions is as sealed" in report.facts
    assert any("pages" in text for text in report.unchecked)


def one_answer(_: Published, site: Path) -> None:
    rewrite_rows(site, PREDICTIONS, lambda rows: rows[5].update(correct=not rows[5]["correct"]))


def a_field_of_its_file(_: Published, site: Path) -> None:
    """Change a column that the benchmark's digest does not cover."""

    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["external_id"] == "q2").update(extra='{"page": 4}')

    rewrite_rows(site, QUESTIONS, change)


def one_question(_: Published, site: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["external_id"] == "q2").update(text="Another text?")

    rewrite_rows(site, QUESTIONS, change)


def one_example(_: Published, site: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["external_id"] == "q10").update(text="Another text?")

    rewrite_rows(site, QUESTIONS, change)


def a_metric(_: Published, site: Path) -> None:
    rewrite_rows(site, METRICS, lambda rows: rows[0].update(value=1.0))


def a_metric_and_its_digest(_: Published, site: Path) -> None:
    a_metric(_, site)

    def change(document: Any) -> None:
        document["files"]["metrics.parquet"]["sha256"] = sha256_file(site / METRICS)

    rewrite_json(site, f"{FOLDER}/evaluation.json", change)


def one_leaf(_: Published, site: Path) -> None:
    rewrite_rows(site, ASKED, lambda rows: next(row for row in rows if row["question"] == "q1").update(leaf="0" * 64))


def the_specification(_: Published, site: Path) -> None:
    rewrite_json(site, f"{FOLDER}/evaluation.json", lambda document: document["shards"][0].update(fence=7))


def a_chain_cut_short(_: Published, site: Path) -> None:
    rewrite_json(site, CHAIN, lambda document: document.update(links=document["links"][:2]))


def a_chain_made_anew(_: Published, site: Path) -> None:
    def change(document: Any) -> None:
        previous = "0" * 64
        for link in document["links"]:
            link |= {"previous": previous, "subject": "1" * 64 if link["position"] == 1 else link["subject"]}
            previous = link["digest"] = link_digest(_Link(link))

    rewrite_json(site, CHAIN, change)


class _Link:
    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__ = values | {"at": datetime.fromisoformat(values["at"])}


def a_signature_in_its_place(_: Published, site: Path) -> None:
    rewrite_json(site, CHAIN, lambda document: document["signatures"][0].update(signature="AAAA" * 21 + "AA=="))


def a_statement_in_its_place(_: Published, site: Path) -> None:
    def change(document: Any) -> None:
        signed = document["signatures"][0]
        signed["statement"] = signed["statement"].replace("T", "T", 1).replace('"length":4', '"length":3')

    rewrite_json(site, CHAIN, change)


def a_key_that_claims_to_be_the_other(published: Published, site: Path) -> None:
    """Sign as the attacker with the fingerprint of the registry's key."""
    path = site.parent / "attacker.pem"
    new_key(path)
    attacker = read_key(path)

    def change(document: Any) -> None:
        honest = read_statement(document["signatures"][0]["statement"])
        forged = sign(attacker, honest.head, honest.length, honest.at, honest.registry).document()
        text = forged["statement"].replace(fingerprint(attacker.public_key()), published.key)
        document["signatures"] = [forged | {"statement": text}]

    rewrite_json(site, CHAIN, change)


def another_key(_: Published, site: Path) -> None:
    path = site.parent / "attacker.pem"
    new_key(path)

    def change(document: Any) -> None:
        honest = read_statement(document["signatures"][0]["statement"])
        document["signatures"] = [sign(read_key(path), honest.head, honest.length, honest.at, "").document()]

    rewrite_json(site, CHAIN, change)


def no_signature(_: Published, site: Path) -> None:
    rewrite_json(site, CHAIN, lambda document: document.update(signatures=[]))


def another_board(_: Published, site: Path) -> None:
    rewrite_json(site, BOARD, lambda document: document["snapshot"].update(board="better"))


def a_better_value(_: Published, site: Path) -> None:
    def change(document: Any) -> None:
        document["snapshot"]["rows"][0]["values"]["worst_accuracy@cyclic"]["value"] = 1.0

    rewrite_json(site, BOARD, change)


def a_better_value_on_the_page(_: Published, site: Path) -> None:
    def change(document: Any) -> None:
        document["rows"][0]["values"]["worst_accuracy@cyclic"]["value"] = 1.0

    rewrite_json(site, "api/v1/boards/main.json", change)


def an_evaluation_that_is_gone(_: Published, site: Path) -> None:
    shutil.rmtree(site / FOLDER)
    sums = (site / SUMS).read_text()
    (site / SUMS).unlink()
    (site / SUMS).write_text("".join(line for line in sums.splitlines(keepends=True) if FOLDER not in line))


def a_page(_: Published, site: Path) -> None:
    (site / "index.html").unlink()
    (site / "index.html").write_text("The best model is mine.")


def a_way_out(_: Published, site: Path) -> None:
    sums = (site / SUMS).read_text()
    (site / SUMS).unlink()
    (site / SUMS).write_text(f"{'0' * 64}  ../../../etc/passwd\n{sums}")


def a_link(_: Published, site: Path) -> None:
    (site / PREDICTIONS).unlink()
    (site / PREDICTIONS).symlink_to("/dev/zero")


def a_folder_that_is_a_link(_: Published, site: Path) -> None:
    (site / "proof").rename(site.parent / "elsewhere")
    (site / "proof").symlink_to(site.parent / "elsewhere")


def a_link_that_nothing_lists(_: Published, site: Path) -> None:
    (site / "data" / "more").symlink_to("/")


def json_that_is_none(_: Published, site: Path) -> None:
    put(site, CHAIN, b'{"links": [')


def json_of_another_form(_: Published, site: Path) -> None:
    put(site, CHAIN, b'{"links": 3, "signatures": {}}')


def a_file_that_is_no_parquet(_: Published, site: Path) -> None:
    put(site, QUESTIONS, b"PAR1" + b"x" * 200 + b"PAR1")


@pytest.mark.parametrize(
    ("attack", "said", "questions"),
    [
        (one_answer, f"{PREDICTIONS}: is not the file that its evaluation.json lists", []),
        (one_question, "question q2 is not as it was sealed", ["q2"]),
        (one_example, "question q10 is not as it was sealed", ["q10"]),
        (a_field_of_its_file, "question q2 is not as it was sealed", ["q2"]),
        (a_metric, f"{METRICS}: is not the file that its evaluation.json lists", []),
        (a_metric_and_its_digest, "evaluation.json: is not one that the signed chain has", []),
        (one_leaf, f"{ASKED}: is not the file that its evaluation.json lists", []),
        (the_specification, f"{FOLDER}/evaluation.json: is not one that the signed chain has", []),
        (a_chain_cut_short, "the chain is cut short: the signed head is link 4, and the folder has 2", []),
        (a_chain_made_anew, "the chain is not the one that was signed: link 4 is", []),
        (a_signature_in_its_place, "the signature does not match its statement", []),
        (a_statement_in_its_place, "the signature does not match its statement", []),
        (a_key_that_claims_to_be_the_other, "the signature does not match its statement", []),
        (another_key, "the chain is signed by another key: by ", []),
        (no_signature, "the chain is not signed", []),
        (another_board, "the board 'better' is not one that this registry made", []),
        (a_better_value, "the board 'main' is not one that this registry made", []),
        (a_better_value_on_the_page, "api/v1/boards/main.json: says something else than the signed snapshot", []),
        (an_evaluation_that_is_gone, "not in the folder", []),
        (a_page, "index.html: is not the file that SHA256SUMS lists", []),
        (a_way_out, "the file '../../../etc/passwd' is outside the folder; it is refused", []),
        (a_link, f"{PREDICTIONS}: is a link", []),
        (a_folder_that_is_a_link, "is a link", []),
        (a_link_that_nothing_lists, "data/more: is a link", []),
        (json_that_is_none, "proof/chain.json: cannot be read as JSON", []),
        (json_of_another_form, "the chain: states no number of its chain format", []),
        (a_file_that_is_no_parquet, "questions.parquet: cannot be read as Parquet", []),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_attack_is_named(
    published: Published, site: Path, attack: Callable[[Published, Path], None], said: str, questions: list[str]
) -> None:
    attack(published, site)
    report = check(published, site)
    assert any(said in problem for problem in report.problems), report.problems
    assert report.questions == questions
    assert not any("as sealed" in fact for fact in report.facts) or "api" in said


@pytest.mark.parametrize("name", [PREDICTIONS, ASKED, METRICS, f"{FOLDER}/evaluation.json"])
def test_a_byte_of_a_folder_is_named_by_its_file(published: Published, site: Path, name: str) -> None:
    content = (site / name).read_bytes()
    for place in range(4, len(content), len(content) // 5):
        put(site, name, with_another_byte(content, place))
        report = check(published, site)
        assert any(name in problem for problem in report.problems), place
        assert not any("as sealed" in fact for fact in report.facts)


def with_another_byte(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]


def test_an_old_signature_is_called_old_and_a_newer_head_is_missed(published: Published, site: Path) -> None:
    later = datetime.now(UTC) + timedelta(days=20)
    report = check_by_key(site, Trust([published.key], max_age_days=7), later)
    assert report.problems[0].startswith("the signed head is old: it was signed on")
    assert "20 days ago" in report.problems[0]
    (problem,) = check(published, site, head="a" * 64).problems
    assert "is not among its 4 digests" in problem
    (problem,) = check(published, site, board="other").problems
    assert problem == "this is the board 'main', and not 'other'"


@pytest.fixture
def exported(published: Published, tmp_path: Path) -> Path:
    """Return an exported evaluation that tests may damage."""
    return Path(shutil.copytree(published.folder / "exported", tmp_path / "exported"))


def list_again(folder: Path) -> None:
    """Write the manifest for the present files, as an attacker would."""
    write_json(folder / MANIFEST, manifest_of(folder, json.loads((folder / "evaluation.json").read_text())["seal"]))


def test_an_exported_evaluation_is_checked_by_the_key(published: Published, exported: Path) -> None:
    report = check(published, exported)
    assert report.problems == []
    assert "the evaluation and its 4 questions are as they were sealed" in report.facts
    assert check(published, exported / ".." / "exported").ok


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_byte_of_every_exported_file_is_named(published: Published, exported: Path, name: str) -> None:
    content = (exported / name).read_bytes()
    for place in range(0, len(content), len(content) // 7):
        (exported / name).write_bytes(with_another_byte(content, place))
        assert any(name in problem for problem in check(published, exported).problems), place
    (exported / name).write_bytes(content + b" ")
    assert any(name in problem for problem in check(published, exported).problems)


@pytest.mark.parametrize("name", FILES)
def test_a_removed_and_an_added_file_are_named(published: Published, exported: Path, name: str) -> None:
    (exported / name).rename(exported / "more.parquet")
    problems = check(published, exported).problems
    assert f"{name}: is missing" in problems
    assert "more.parquet: is not a file that manifest.json lists" in problems


@pytest.mark.parametrize("name", ["evaluation.json", "predictions.parquet", "metrics.parquet", "questions.parquet"])
def test_a_changed_file_with_its_digests_is_named(published: Published, exported: Path, name: str) -> None:
    if name == "evaluation.json":
        document = json.loads((exported / name).read_text())
        document["shards"][0]["fence"] = 7
        write_json(exported / name, document)
    else:
        table = pq.read_table(exported / name)
        column = {"predictions.parquet": "elapsed_s", "metrics.parquet": "value", "questions.parquet": "text"}[name]
        row = table.to_pylist()[-1]
        row |= {column: "Another?" if column == "text" else 0.5}
        pq.write_table(pa.concat_tables([table[:-1], pa.Table.from_pylist([row], table.schema)]), exported / name)
    list_again(exported)
    (problem,) = check(published, exported).problems
    assert name in problem
    assert check(published, exported).facts[0].startswith("the head")
    document = json.loads((exported / "evaluation.json").read_text())
    if name in document["files"]:
        document["files"][name]["sha256"] = sha256_file(exported / name)
        write_json(exported / "evaluation.json", document)
        list_again(exported)
        (problem,) = check(published, exported).problems
        assert problem == "evaluation.json: is not one that the signed chain has"


def test_an_unsigned_folder_and_another_key_are_refused(published: Published, exported: Path, tmp_path: Path) -> None:
    other, _ = new_key(tmp_path / "other.pem")
    (problem,) = check_by_key(exported, Trust([other])).problems
    assert "the chain is signed by another key" in problem
    chain = json.loads((exported / "chain.json").read_text())
    write_json(exported / "chain.json", chain | {"signatures": []})
    list_again(exported)
    report = check(published, exported)
    assert report.problems == ["the chain is not signed: the folder was written where there was no key"]
    assert report.facts == []


def test_an_export_of_tables_is_checked_by_the_key(published: Published, tmp_path: Path) -> None:
    tables = Path(shutil.copytree(published.folder / "tables", tmp_path / "tables"))
    report = check(published, tables)
    assert report.problems == []
    assert "the seals of 2 evaluations are in the signed chain" in report.facts
    assert any("rows of the tables" in text for text in report.unchecked)
    for path in sorted(tables.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        named = any(path.name in problem for problem in check(published, tables).problems)
        assert named or path.name == MANIFEST
        path.write_bytes(content)
    (tables / "more.parquet").write_bytes(b"")
    assert check(published, tables).problems == ["more.parquet: is not a file that manifest.json lists"]
    (tables / "more.parquet").unlink()
    (tables / "chain.json").unlink()
    assert check(published, tables).problems == ["chain.json: is missing"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (CHAIN, "the chain: has chain format 2, and this version reads chain format 1; upgrade Shuffleboard"),
        (BOARD, "proof/board.json: has site format 2, and this version reads site format 1; upgrade Shuffleboard"),
    ],
)
def test_a_site_of_a_newer_format_is_refused(published: Published, site: Path, file: str, said: str) -> None:
    assert json.loads((site / file).read_bytes())[formats.NUMBER] == 1
    rewrite_json(site, file, lambda document: document.update({formats.NUMBER: 2}))
    assert any(problem.startswith(said) for problem in check(published, site).problems)


@pytest.mark.parametrize(
    ("number", "said"), [(2, "has export format 2, and"), (None, "states no number of its export")]
)
def test_tables_of_another_format_are_refused(published: Published, tmp_path: Path, number: Any, said: str) -> None:
    tables = Path(shutil.copytree(published.folder / "tables", tmp_path / "tables"))
    document = json.loads((tables / MANIFEST).read_bytes())
    assert document[formats.NUMBER] == 1
    (tables / MANIFEST).write_text(json.dumps(document | {formats.NUMBER: number}))
    (problem,) = check(published, tables).problems
    assert problem.startswith(f"manifest.json: {said}")


def test_another_seal_in_an_export_of_tables_is_named(published: Published, tmp_path: Path) -> None:
    tables = Path(shutil.copytree(published.folder / "tables", tmp_path / "tables"))
    table = pq.read_table(tables / "evaluations.parquet")
    rows = table.to_pylist()
    rows[0]["seal"] = "ab" * 32
    pq.write_table(pa.Table.from_pylist(rows, table.schema), tables / "evaluations.parquet")
    manifest = json.loads((tables / MANIFEST).read_text())
    entry = next(entry for entry in manifest["files"] if entry["file"] == "evaluations.parquet")
    entry["sha256"] = sha256_file(tables / "evaluations.parquet")
    (tables / MANIFEST).write_text(json.dumps(manifest))
    (problem,) = check(published, tables).problems
    assert problem == f"evaluations.parquet: the seal {'ab' * 32} is not in the signed chain"


def test_a_folder_of_something_else_is_refused(published: Published, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is neither an evaluation of"):
        check(published, tmp_path)
    (tmp_path / SUMS).write_text("")
    with pytest.raises(UsageError, match=r"has no proof/chain\.json"):
        check(published, tmp_path)


def test_the_command_needs_no_registry(published: Published, site: Path, tmp_path: Path) -> None:
    nowhere = {"SHUFFLEBOARD_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "SHUFFLEBOARD_HOME": str(tmp_path)}
    runner = CliRunner(env=nowhere)
    outcome = runner.invoke(cli, ["verify", "--public", str(published.pem), str(site)])
    assert outcome.exit_code == 0, outcome.output
    assert "is what was signed" in outcome.stdout
    assert "not checked: " in outcome.stderr
    one_answer(published, site)
    changed = runner.invoke(cli, ["verify", "--public", published.key, str(site), "--json"])
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["ok"] is False
    assert f"{PREDICTIONS}: is not the file that its evaluation.json lists" in changed.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


@pytest.mark.long
def test_a_second_machine_has_the_folder_and_the_key_and_nothing_else(published: Published, tmp_path: Path) -> None:
    """Check in an empty folder and environment and a separate process; then change one byte of an answer."""
    machine = tmp_path / "machine"
    (machine / "home").mkdir(parents=True)
    shutil.copytree(published.folder / "site", machine / "site")
    shutil.copyfile(published.pem, machine / "key.pem")
    environment = {"HOME": str(machine / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "shuffleboard.cli", "verify", "--public", "key.pem", "site"]

    def verify() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=machine, env=environment, capture_output=True, text=True, check=False)

    outcome = verify()
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.endswith("site is what was signed\n")
    rewrite_rows(machine / "site", PREDICTIONS, lambda rows: rows[5].update(chosen_option_text="A better answer."))
    changed = verify()
    assert changed.returncode == 1
    assert f"{PREDICTIONS}: is not the file that its evaluation.json lists" in changed.stderr
    assert sorted(path.name for path in machine.iterdir()) == ["home", "key.pem", "site"]
    assert list((machine / "home").iterdir()) == []
