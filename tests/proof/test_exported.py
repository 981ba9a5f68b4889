"""A board that left the house, checked by somebody who has the public key and nothing else; and how it is attacked."""

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

from registry.chain import link_digest
from registry.db import get_engine, write_session
from registry.digests import sha256_file
from registry.errors import UsageError
from registry.exchange.crates import export_crate
from registry.exchange.proofs import Checked, Trust, check_export
from registry.proof.signing import new_key, read_key
from registry.proof.statements import fingerprint, public_pem, read_statement, sign
from registry.settings import get_settings
from shuffleboard.cli import cli
from tests.conftest import FilledDatabases
from tests.proof.commands import run
from tests.proof.population import populate
from web.publishing import publish

SUMS = "SHA256SUMS"


class Published:
    """A registry's site and archive, and the key that signed them."""

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
            with write_session(engine) as session:
                export_crate(session, population.evaluation, folder / "crate")
            engine.dispose()


@pytest.fixture(scope="module")
def published(filled_sqlite: FilledDatabases, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(filled_sqlite, tmp_path_factory.mktemp("exported"))


@pytest.fixture
def site(published: Published, tmp_path: Path) -> Path:
    """A copy that may be damaged: files are put anew, since what is copied are links to the same content."""
    return Path(shutil.copytree(published.folder / "site", tmp_path / "site", copy_function=os.link))


def checked(published: Published, path: Path, **expected: Any) -> Checked:
    return check_export(path, Trust([published.key], **expected))


def put(site: Path, name: str, content: bytes) -> None:
    """Writes a file and brings the checksums up to date, as an attacker would."""
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


def test_a_published_board_is_checked_down_to_every_answer(published: Published, site: Path) -> None:
    found = checked(published, site, board="main", max_age_days=1)
    assert found.problems == []
    assert any("1 evaluations and their 4 questions are as they were sealed" in fact for fact in found.facts)
    assert any("1 of the board's values, and their ranks, are what the rows give" in fact for fact in found.facts)
    assert any("pages" in text for text in found.unchecked)
    assert any("intervals" in text for text in found.unchecked)


def one_answer(_: Published, site: Path) -> None:
    rewrite_rows(site, PREDICTIONS, lambda rows: rows[5].update(correct=not rows[5]["correct"]))


def a_repeated_text(_: Published, site: Path) -> None:
    """A column that no leaf covers, since it repeats the question."""
    rewrite_rows(site, PREDICTIONS, lambda rows: rows[5].update(chosen_option_text="A better answer."))


def one_question(_: Published, site: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["external_id"] == "q2").update(text="Another text?")

    rewrite_rows(site, QUESTIONS, change)


def one_example(_: Published, site: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["external_id"] == "q10").update(text="Another text?")

    rewrite_rows(site, QUESTIONS, change)


def a_row_less(_: Published, site: Path) -> None:
    rewrite_rows(site, PREDICTIONS, lambda rows: rows.pop(0))


def answers_of_another_evaluation(_: Published, site: Path) -> None:
    rewrite_rows(site, PREDICTIONS, lambda rows: [row.update(question="q9") for row in rows] and None)


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
    """Signed by the attacker, under the fingerprint of the registry's key."""
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
    put(site, PREDICTIONS, b"PAR1" + b"x" * 200 + b"PAR1")


@pytest.mark.parametrize(
    ("attack", "said", "questions"),
    [
        (one_answer, "question q1 is not as it was sealed", ["q1"]),
        (one_question, "question q2 is not as it was sealed", ["q2"]),
        (one_example, "question example q10 is not as it was sealed", ["example q10"]),
        (a_repeated_text, "question q1 is not as it was sealed", ["q1"]),
        (a_row_less, "question q0 is not as it was sealed", ["q0"]),
        (answers_of_another_evaluation, "is not as it was sealed", ["q0", "q1", "q2", "q3", "q9"]),
        (a_metric, f"bench): {METRICS} is not the file that its evaluation.json lists", []),
        (a_metric_and_its_digest, "evaluation.json: is not one that the signed chain has", []),
        (one_leaf, "the list of leaves says otherwise than the seal of question q1", []),
        (the_specification, "its specification, its shards or its seal are not as they were sealed", []),
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
        (json_of_another_form, "a file is not as it is written by this program", []),
        (a_file_that_is_no_parquet, "predictions.parquet: has a footer of", []),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_attack_is_named(
    published: Published, site: Path, attack: Callable[[Published, Path], None], said: str, questions: list[str]
) -> None:
    attack(published, site)
    found = checked(published, site)
    assert any(said in problem for problem in found.problems), found.problems
    assert found.questions == questions
    assert not any("are as they were sealed" in fact for fact in found.facts) or "SHA256SUMS" in said or "api" in said


@pytest.mark.parametrize("name", [PREDICTIONS, ASKED, METRICS, f"{FOLDER}/evaluation.json"])
def test_a_byte_of_a_folder_is_named_by_evaluation_and_question(published: Published, site: Path, name: str) -> None:
    whole = (site / name).read_bytes()
    places = list(range(4, len(whole), len(whole) // 5))
    if name == PREDICTIONS:
        columns = pq.read_metadata(site / name).row_group(0).to_dict()["columns"]
        places += [one["data_page_offset"] + one["total_compressed_size"] // 2 for one in columns[::9]]
    named = set[str]()
    for place in places:
        put(site, name, whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        found = checked(published, site)
        assert any("evaluation 2 (" in problem or name in problem for problem in found.problems), place
        named |= set(found.questions)
    assert named or name != PREDICTIONS


def test_an_old_signature_is_called_old_and_a_newer_head_is_missed(published: Published, site: Path) -> None:
    later = datetime.now(UTC) + timedelta(days=20)
    found = check_export(site, Trust([published.key], max_age_days=7), later)
    assert found.problems[0].startswith("the signed head is old: it was signed on")
    assert "20 days ago" in found.problems[0]
    (problem,) = checked(published, site, head="a" * 64).problems
    assert "is not among its 4 digests" in problem
    (problem,) = checked(published, site, board="other").problems
    assert problem == "this is the board 'main', and not 'other'"


def test_an_archive_is_checked_by_the_key_as_well(published: Published, tmp_path: Path) -> None:
    crate = Path(shutil.copytree(published.folder / "crate", tmp_path / "crate"))
    found = checked(published, crate)
    assert found.problems == []
    assert any("its 4 questions are as they were sealed" in fact for fact in found.facts)
    table = pq.read_table(crate / "predictions.parquet")
    for change in ({"correct": not table.column("correct")[0].as_py()}, {"chosen_option_text": "A better answer."}):
        rows = table.to_pylist()
        rows[0] |= change
        pq.write_table(pa.Table.from_pylist(rows, table.schema), crate / "predictions.parquet")
        found = checked(published, crate)
        assert found.questions == ["q0"], change
    assert any("is not the file that ro-crate-metadata.json describes" in problem for problem in found.problems)
    (crate / "proof.json").unlink()
    assert any("proof.json: is missing" in problem for problem in checked(published, crate).problems)


def test_a_folder_of_something_else_is_refused(published: Published, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is neither a site of"):
        checked(published, tmp_path)
    (tmp_path / SUMS).write_text("")
    with pytest.raises(UsageError, match=r"has no proof/chain\.json"):
        checked(published, tmp_path)


def test_the_command_needs_no_registry(published: Published, site: Path, tmp_path: Path) -> None:
    nowhere = {"SHUFFLEBOARD_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "SHUFFLEBOARD_HOME": str(tmp_path)}
    runner = CliRunner(env=nowhere)
    whole = runner.invoke(cli, ["verify", "--public", str(published.pem), str(site)])
    assert whole.exit_code == 0, whole.output
    assert "is what was signed" in whole.stdout
    assert "not checked: " in whole.stderr
    one_answer(published, site)
    changed = runner.invoke(cli, ["verify", "--public", published.key, str(site), "--json"])
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["questions"] == ["q1"]
    assert "question q1 is not as it was sealed" in changed.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


@pytest.mark.long
def test_a_second_machine_has_the_folder_and_the_key_and_nothing_else(published: Published, tmp_path: Path) -> None:
    """An empty folder, an empty environment, a process of its own; then one byte of one answer."""
    machine = tmp_path / "machine"
    (machine / "home").mkdir(parents=True)
    shutil.copytree(published.folder / "site", machine / "site")
    shutil.copyfile(published.pem, machine / "key.pem")
    environment = {"HOME": str(machine / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "shuffleboard.cli", "verify", "--public", "key.pem", "site"]

    def verify() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=machine, env=environment, capture_output=True, text=True, check=False)

    whole = verify()
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.endswith("site is what was signed\n")
    rewrite_rows(machine / "site", PREDICTIONS, lambda rows: rows[5].update(chosen_option_text="A better answer."))
    changed = verify()
    assert changed.returncode == 1
    assert "question q1 is not as it was sealed" in changed.stderr
    assert sorted(path.name for path in machine.iterdir()) == ["home", "key.pem", "site"]
    assert list((machine / "home").iterdir()) == []
