"""Webhooks: where they may lead, what is sent, and what becomes of what does not arrive."""

import hashlib
import hmac
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from registry.benchmarks.store import set_visibility
from registry.db import database_now, read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.notices import notify, webhooks
from registry.notices.addresses import allowed_hosts, checked_addresses, is_public, parse_url
from registry.notices.webhooks import (
    MAX_ATTEMPTS,
    Due,
    Outcome,
    add_webhook,
    current_webhooks,
    deliver,
    remove_webhook,
    send,
    signed_headers,
    try_webhook,
)
from registry.people.accounts import OPERATOR
from registry.settings import Settings
from registry.tables.accounts import Account, Notice, Webhook, WebhookDelivery
from tests.scripted_server import Answer, ScriptedServer, scripted_server
from tests.submissions.conftest import ask, viewer

PRIVATE = (
    "127.0.0.1",
    "127.255.0.9",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.64.0.1",
    "100.100.100.200",
    "0.0.0.0",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "2002:7f00:1::1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2001:db8::1",
)


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_this_network_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://localhost/x",
        "http://[::1]/x",
        "http://2130706433/x",
        "http://0x7f.1/x",
        "http://127.1/x",
        "http://0/x",
        "http://[::ffff:10.0.0.1]/x",
        "https://169.254.169.254/latest/meta-data",
    ],
)
def test_no_spelling_of_a_private_address_passes(url: str) -> None:
    with pytest.raises(UsageError, match=r"not on the public internet|is not known"):
        checked_addresses(parse_url(url), frozenset())


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/x",
        "file:///etc/passwd",
        "gopher://example.org",
        "https://user:secret@example.org/",
        "https://example.org/#x",
        "https://",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://exa mple.org/",
        "https://example.org\\@127.0.0.1/",
        "example.org",
        "https://example.org/" + "x" * 2000,
    ],
)
def test_what_is_no_plain_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        parse_url(url)


def resolver(*answers: list[str]) -> Callable[..., Any]:
    """getaddrinfo that leads names elsewhere each time, and addresses to themselves."""
    left = list(answers)
    plain = socket.getaddrinfo

    def resolve(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        if host != "hooks.example.org":
            return plain(host, port, *args, **kwargs)
        addresses = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return resolve


def test_one_private_address_among_several_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["1.1.1.1", "10.0.0.1"]))
    parts = parse_url("https://hooks.example.org/x")
    with pytest.raises(UsageError, match="not on the public internet"):
        checked_addresses(parts, frozenset())
    assert checked_addresses(parts, allowed_hosts(" other, Hooks.Example.org ")) == ["1.1.1.1", "10.0.0.1"]


@pytest.fixture
def receiver() -> Iterator[ScriptedServer]:
    """Somebody who answers 200."""
    with scripted_server(lambda _asked: Answer({})) as server:
        yield server


@pytest.fixture
def near(tmp_path: Path) -> Settings:
    """Settings that let webhooks lead to this machine."""
    return Settings(home=tmp_path, private_webhooks="127.0.0.1, hooks.example.org")


def add(engine: Engine, url: str, settings: Settings, kinds: list[str] | None = None) -> tuple[int, str]:
    with write_session(engine) as session:
        account = session.scalars(select(Account).filter_by(name="admin")).one()
        made = add_webhook(session, viewer(engine, "admin"), url, kinds, settings, account=account)
        return made.id, made.secret


def tell(engine: Engine, key: str, kind: str = "evaluation.complete") -> None:
    with write_session(engine) as session:
        notify(session, kind, key, {"evaluation": int(key), "state": "complete"})


def deliveries(engine: Engine) -> list[tuple[str, int, int | None]]:
    """(state, attempts, status) of all, in order."""
    with read_session(engine) as session:
        rows = session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.notice_id, WebhookDelivery.webhook_id))
        return [(row.state, row.attempts, row.status) for row in rows]


def hasten(engine: Engine) -> None:
    """Makes everything that waits due."""
    with write_session(engine) as session:
        session.execute(update(WebhookDelivery).values(not_before=database_now(-1)))


def test_what_is_sent_is_signed_and_sent_once(engine: Engine, near: Settings, receiver: ScriptedServer) -> None:
    webhook, secret = add(engine, receiver.url + "/hook", near)
    tell(engine, "7")
    assert deliver(engine, near) == 1
    assert deliver(engine, near) == 0
    (asked,) = receiver.asked
    assert asked.path == "/v1/hook"
    assert asked.document["kind"] == asked.headers["shuffleboard-event"] == "evaluation.complete"
    assert asked.document["document"] == {"evaluation": 7, "state": "complete"}
    assert asked.document["delivery"] == asked.headers["webhook-id"] == asked.headers["shuffleboard-delivery"]
    assert asked.document["delivery"].startswith(f"{webhook}-")
    body = json.dumps(asked.document, ensure_ascii=False).encode()
    timestamp = asked.headers["shuffleboard-signature"].split(",")[0].removeprefix("t=")
    wanted = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert asked.headers["shuffleboard-signature"] == f"t={timestamp},v1={wanted}"
    assert deliveries(engine) == [("delivered", 1, 200)]


def test_only_the_kinds_that_were_asked_for_are_sent(lite: Engine, near: Settings, receiver: ScriptedServer) -> None:
    add(lite, receiver.url, near, ["evaluation.failed"])
    tell(lite, "7")
    tell(lite, "8", "evaluation.failed")
    deliver(lite, near)
    assert [asked.document["kind"] for asked in receiver.asked] == ["evaluation.failed"]
    with pytest.raises(UsageError, match=r"kinds nothing\.new: use some of"):
        add(lite, receiver.url, near, ["nothing.new"])


def test_what_does_not_arrive_is_tried_again_and_at_last_given_up(engine: Engine, near: Settings) -> None:
    tried: list[Due] = []

    def fail(due: Due, _settings: Settings) -> Outcome:
        tried.append(due)
        return Outcome(503, "answered 503")

    add(engine, "http://127.0.0.1:9/", near)
    tell(engine, "7")
    for attempt in range(1, MAX_ATTEMPTS + 3):
        assert deliver(engine, near, sender=fail) == 0
        # Not due again before its wait is over.
        assert len(tried) == min(attempt, MAX_ATTEMPTS)
        deliver(engine, near, sender=fail)
        assert len(tried) == min(attempt, MAX_ATTEMPTS)
        hasten(engine)
    assert [due.attempt for due in tried] == list(range(1, MAX_ATTEMPTS + 1))
    assert len({due.delivery_id for due in tried}) == 1
    assert deliveries(engine) == [("failed", MAX_ATTEMPTS, 503)]


def test_two_workers_do_not_send_the_same(engine: Engine, near: Settings) -> None:
    for number in range(6):
        tell(engine, str(number))
    add(engine, "http://127.0.0.1:9/", near)
    for number in range(6, 12):
        tell(engine, str(number))
    sent: list[str] = []
    begin = threading.Barrier(3)

    def keep(due: Due, _settings: Settings) -> Outcome:
        sent.append(due.delivery_id)
        return Outcome(200, None)

    def run() -> None:
        begin.wait()
        deliver(engine, near, sender=keep)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deliver(engine, near, sender=keep)
    # Those from before the webhook was added are not sent at all.
    assert len(sent) == len(set(sent)) == 6


def test_a_worker_that_died_while_sending_leaves_it_to_another(engine: Engine, near: Settings) -> None:
    add(engine, "http://127.0.0.1:9/", near)
    tell(engine, "7")

    def die(_due: Due, _settings: Settings) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(engine, near, sender=die)
    assert deliver(engine, near, sender=lambda *_: Outcome(200, None)) == 0
    hasten(engine)
    assert deliver(engine, near, sender=lambda *_: Outcome(200, None)) == 1
    assert deliveries(engine) == [("delivered", 2, 200)]


def test_an_answer_that_comes_late_settles_nothing(lite: Engine, near: Settings) -> None:
    add(lite, "http://127.0.0.1:9/", near)
    tell(lite, "7")

    def overtaken(_due: Due, _settings: Settings) -> Outcome:
        hasten(lite)
        assert deliver(lite, near, sender=lambda *_: Outcome(200, None)) == 1
        return Outcome(None, "too late")

    deliver(lite, near, sender=overtaken)
    assert deliveries(lite) == [("delivered", 2, 200)]


def test_redirects_are_not_followed(lite: Engine, near: Settings) -> None:
    with (
        scripted_server(lambda _asked: Answer({})) as elsewhere,
        scripted_server(lambda _asked: Answer({}, 302, {"Location": elsewhere.url})) as server,
    ):
        add(lite, server.url, near)
        tell(lite, "7")
        assert deliver(lite, near) == 0
        assert (len(server.asked), len(elsewhere.asked)) == (1, 0)
    assert deliveries(lite)[0][2] == 302


def due(url: str) -> Due:
    from datetime import UTC, datetime

    return Due(1, 2, 1, url, "c2VjcmV0", "evaluation.complete", datetime(2026, 1, 1, tzinfo=UTC), {"evaluation": 7})


def test_a_name_that_has_moved_into_the_network_is_not_connected_to(
    receiver: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["1.1.1.1"], ["127.0.0.1"]))
    url = f"http://hooks.example.org:{port}/x"
    assert checked_addresses(parse_url(url), frozenset()) == ["1.1.1.1"]
    outcome = send(due(url), Settings(home=tmp_path))
    assert outcome.status is None
    assert "not on the public internet" in str(outcome.error)
    assert receiver.asked == []


def test_the_connection_goes_to_the_address_that_was_checked_with_the_name_in_the_header(
    receiver: ScriptedServer, near: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    # Resolved a second time, the name would lead nowhere.
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["127.0.0.1"], ["192.0.2.1"]))
    assert send(due(f"http://hooks.example.org:{port}/x?key=1"), near) == Outcome(200, None)
    (asked,) = receiver.asked
    assert asked.path == "/x?key=1"
    assert asked.headers["host"] == f"hooks.example.org:{port}"


def test_tls_is_asked_for_the_name_and_not_for_the_address(near: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)  # type: ignore[assignment]
    monkeypatch.setattr(socket, "getaddrinfo", resolver(["127.0.0.1"]))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            connection, _ = listening.accept()
            with connection, pytest.raises((ssl.SSLError, OSError)):
                context.wrap_socket(connection, server_side=True)

        thread = threading.Thread(target=accept)
        thread.start()
        outcome = send(due(f"https://hooks.example.org:{listening.getsockname()[1]}/"), near)
        thread.join()
    assert asked == ["hooks.example.org"]
    # The server had no certificate: nothing was sent.
    assert outcome.status is None


def test_an_attempt_ends_whatever_the_receiver_does(near: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for_ever = threading.Event()
    monkeypatch.setattr(webhooks, "ATTEMPT_S", 0.01)
    monkeypatch.setattr(webhooks, "send", lambda *_asked: for_ever.wait())
    outcome = webhooks.send_in_time(due("https://hooks.example.org/"), near)
    for_ever.set()
    assert (outcome.delivered, outcome.status) == (False, None)
    assert "no answer within" in str(outcome.error)


def test_a_private_address_is_refused_when_it_is_added(lite: Engine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SHUFFLEBOARD_PRIVATE_WEBHOOKS"):
        add(lite, "http://127.0.0.1:9/", Settings(home=tmp_path))
    with read_session(lite) as session:
        assert current_webhooks(session) == []


def test_a_removed_webhook_is_sent_nothing(lite: Engine, near: Settings, receiver: ScriptedServer) -> None:
    webhook, _ = add(lite, receiver.url, near)
    tell(lite, "7")
    with write_session(lite) as session:
        remove_webhook(session, OPERATOR, webhook)
    tell(lite, "8")
    assert deliver(lite, near) == 0
    assert receiver.asked == []
    assert deliveries(lite) == [("failed", 0, None)]
    with write_session(lite) as session, pytest.raises(NotFoundError, match="no webhook"):
        remove_webhook(session, OPERATOR, webhook)


def test_a_webhook_is_tried_once(lite: Engine, near: Settings) -> None:
    webhook, _ = add(lite, "http://127.0.0.1:9/", near, ["evaluation.failed"])
    outcome = try_webhook(lite, OPERATOR, webhook, near)
    assert (outcome.delivered, outcome.status) == (False, None)
    assert "ConnectError" in str(outcome.error)
    hasten(lite)
    assert deliver(lite, near, sender=lambda *_: Outcome(200, None)) == 0
    assert deliveries(lite) == [("failed", MAX_ATTEMPTS, None)]


@pytest.mark.parametrize(("visibility", "named"), [("public", True), ("members", False), ("hidden", False)])
def test_names_of_what_is_not_public_are_not_sent(
    lite: Engine, settings: Settings, visibility: str, named: bool
) -> None:
    from registry.notices import evaluation_failed
    from registry.queue.evaluations import EvaluationRequest, submit
    from tests.population import add_model

    with write_session(lite) as session:
        set_visibility(session, "bench", visibility)
        add_model(session, "fake")
        evaluation, _ = submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="cyclic"))
        evaluation_failed(session, evaluation)
        evaluation_failed(session, evaluation)
    ask(lite, settings)
    with read_session(lite) as session:
        told = [row.document for row in session.scalars(select(Notice).order_by(Notice.id))]
    assert [("bench" in json.dumps(one)) for one in told[:2]] == [named] * 2
    assert ("core" in json.dumps(told[2]), "small-model" in json.dumps(told[2])) == (named, named)
    assert set(told[2]) >= {"submission", "state"}


def test_the_secret_is_kept_for_signing_and_is_long(lite: Engine, near: Settings) -> None:
    webhook, secret = add(lite, "http://127.0.0.1:9/", near)
    with read_session(lite) as session:
        assert session.get_one(Webhook, webhook).secret == secret
    assert len(secret) == 64
    assert signed_headers(secret, "1", 0, b"x") != signed_headers(secret, "1", 1, b"x")
