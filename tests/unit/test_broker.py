"""URLs of a broker: which are accepted, and that no part of a password is shown."""

import pytest
from sqlalchemy import create_engine, true
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.queue import hints
from registry.queue.broker import broker_address, broker_shown, open_broker
from registry.settings import Settings

PASSWORDS = ("123456xxx#", "aB9/sEcReT#12", "p@ss:w/rd#1", "question?mark", "1234/0", "7777/8?db=1", "sp ace/x", "a[b/")


@pytest.mark.parametrize("user", ["", "user"])
@pytest.mark.parametrize("password", PASSWORDS)
def test_no_part_of_an_unencoded_password_is_shown(user: str, password: str) -> None:
    settings = Settings(broker_url=f"redis://{user}:{password}@redis.example.org:6379/0")
    assert broker_shown(settings) == "redis://…"
    with pytest.raises(UsageError, match="percent-encode the password") as refused:
        open_broker(settings)
    assert not [password[at : at + 4] for at in range(len(password) - 3) if password[at : at + 4] in str(refused.value)]


@pytest.mark.parametrize("url", ["secret@host", "host:6379", "redis:host", "redis://", "redis://host:port", "amqp://h"])
def test_what_is_no_url_of_redis_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not a Redis URL") as refused:
        broker_address(Settings(broker_url=url))
    assert "secret" not in str(refused.value)
    assert "secret" not in broker_shown(Settings(broker_url=url))


@pytest.mark.parametrize("scheme", ["sentinel", "redis+sentinel", "rediss+sentinel"])
def test_sentinels_are_refused_with_what_to_write_instead(scheme: str) -> None:
    with pytest.raises(UsageError, match="leads to the primary") as refused:
        broker_address(Settings(broker_url=f"{scheme}://:secret@one:26379,two:26379/primary"))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host", "redis://host"),
        ("redis://:p%2Fq@host:6379/0", "redis://host:6379/0"),
        ("redis://user:p@q@[::1]:6379/", "redis://[::1]:6379/"),
        ("rediss://host/1?ssl_ca_certs=/ca.pem&ssl_cert_reqs=none", "rediss://host/1"),
    ],
)
def test_a_url_is_shown_without_password_and_options(url: str, shown: str) -> None:
    assert broker_shown(Settings(broker_url=url)) == shown
    assert broker_address(Settings(broker_url=url)) == url


def test_hints_of_a_transaction_that_is_rolled_back_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "get_settings", lambda: Settings(broker_url="redis://broker.example"))
    with Session(create_engine("sqlite://")) as session:
        session.begin()
        hints.hint_at(session, true())
        assert session.info
        session.rollback()
        assert not session.info
