"""The chain's signed head: the key's file, the occasions of signing, and the statement's bytes."""

import base64
import stat
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from registry import chain
from registry.db import write_session
from registry.errors import NotFoundError, UsageError
from registry.sealed.signing import as_signed, keep_signed, keys, new_key, read_key, sign_head, signature_problems
from registry.sealed.statements import DOMAIN, fingerprint, read_signed, read_statement
from registry.sealed.withdrawals import withdraw
from registry.settings import Settings
from registry.tables import ChainSignature
from tests.proof.commands import run
from tests.proof.population import Population

Registry = tuple[Engine, Population]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(signing_key=tmp_path / "keys" / "chain.pem", public_url="https://board.example.org/")
    new_key(tmp_path / "keys" / "chain.pem")
    return settings


def test_a_key_is_for_its_owner_alone_and_is_never_printed(sqlite_proof: Registry, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    engine, _ = sqlite_proof
    path = tmp_path / "chain-key.pem"
    monkeypatch.setenv("SHUFFLEBOARD_SIGNING_KEY", str(path))
    missing = run(engine, "chain", "sign")
    assert (missing.code, "make one: shuffleboard chain key new" in missing.stderr) == (1, True)
    created = run(engine, "chain", "key", "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shown = run(engine, "chain", "key", "show")
    assert shown.stdout.startswith("-----BEGIN PUBLIC KEY-----")
    assert created.stdout.strip() == shown.stderr.strip()
    again = run(engine, "chain", "key", "new")
    assert (again.code, "there is a key already" in again.stderr) == (2, True)
    secret = path.read_text().splitlines()[1]
    assert all(secret not in part for outcome in (created, shown, again) for part in (outcome.stdout, outcome.stderr))
    path.chmod(0o640)
    refused = run(engine, "chain", "sign")
    assert (refused.code, f"chmod 600 {path}" in refused.stderr) == (2, True)
    path.write_text("hidden text")
    path.chmod(0o600)
    refused = run(engine, "chain", "sign")
    assert (refused.code, "hidden text" in refused.stderr) == (2, False)


def test_a_statement_says_which_head_when_where_and_by_which_key(proof: Registry, settings: Settings) -> None:
    engine, _ = proof
    with write_session(engine) as session:
        signed = sign_head(session, settings)
        head = chain.head(session)
        assert signed is not None
        assert head is not None
        statement = signed.statement
        assert (statement.head, statement.length) == (head.digest, head.position)
        assert statement.registry == "https://board.example.org"
        assert statement.key == fingerprint(read_key(settings.signing_key).public_key())  # type: ignore[arg-type]
        assert signed.holds
        assert read_signed(signed.document()) == signed
        (row,) = session.scalars(select(ChainSignature))
        assert as_signed(row) == signed
        assert signature_problems(session) == []
    text = statement.text
    assert signed.statement.signed_bytes == DOMAIN + text.encode()
    assert text.endswith('"registry":"https://board.example.org"}')
    for wrong in (text + " ", text.replace('"length":3', '"length":3.0'), "[]", "{}", text.replace("at", "At"), "["):
        with pytest.raises(ValueError, match="statement"):
            read_statement(wrong)


def test_openssl_agrees_with_the_documented_bytes(sqlite_proof: Registry, settings: Settings, tmp_path: Path) -> None:
    engine, _ = sqlite_proof
    with write_session(engine) as session:
        signed = sign_head(session, settings)
    assert signed is not None
    document = signed.document()
    (tmp_path / "key.pem").write_text(document["public_key"])
    (tmp_path / "bytes").write_bytes(b"shuffleboard chain head 1\n" + document["statement"].encode())
    (tmp_path / "signature").write_bytes(base64.b64decode(document["signature"]))
    command = "openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in bytes -sigfile signature"
    checked = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Verified Successfully" in checked.stdout


def test_each_key_signs_a_head_once_and_old_signatures_stay_valid(sqlite_proof: Registry, settings: Settings) -> None:
    engine, population = sqlite_proof
    path = settings.signing_key
    assert path is not None
    with write_session(engine) as session:
        first = sign_head(session, settings)
        assert sign_head(session, settings) == first
    old = read_key(path)
    _, moved = new_key(path, replace=True)
    assert moved is not None
    assert read_key(moved).public_key() == old.public_key()
    with write_session(engine) as session:
        withdraw(session, population.source, "Its tokenizer was another model's.")
        second = sign_head(session, settings)
        assert second is not None
        assert second.statement.length == 4
        assert [item["key"] for item in keys(session)] == [second.statement.key, fingerprint(old.public_key())]
        assert signature_problems(session) == []
        session.execute(update(ChainSignature).where(ChainSignature.position == 3).values(position=2))
        session.expire_all()
        assert signature_problems(session) == ["signature 1: it does not match its statement or its key"]
    with pytest.raises(NotFoundError):
        read_key(path.with_name("nowhere.pem"))


def test_maintenance_signs_what_is_new_and_an_unchanged_head_once_a_day(
    sqlite_proof: Registry, settings: Settings
) -> None:
    engine, _ = sqlite_proof
    with write_session(engine) as session:
        assert keep_signed(session, Settings(signing_key=Path("/nowhere/key.pem"))) is None
        first = keep_signed(session, settings)
        assert first is not None
        assert keep_signed(session, settings) == first
        earlier = first.statement.at - timedelta(days=1, seconds=1)
        session.execute(update(ChainSignature).values(at=earlier))
        session.expire_all()
        assert keep_signed(session, settings) != first
        assert len(session.scalars(select(ChainSignature.id)).all()) == 2


def test_another_kind_of_key_or_an_unwritable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        new_key(tmp_path / "file" / "key.pem")
    (tmp_path / "file").chmod(0o600)
    with pytest.raises(UsageError, match="not an Ed25519 private key"):
        read_key(tmp_path / "file")
