"""Webhooks: URLs that are sent notices. Only admins manage them; workers deliver.

Every notice waits in an outbox, `webhook_delivery`, until its URL has answered with a status of 200 to 299. It is
delivered at least once: if a worker dies between sending and recording that, it is sent twice, with the same delivery
id.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, Select, select, update
from sqlalchemy.orm import Session

from registry import __version__
from registry.db import MAX_ROW_ID, changed_one, database_now, picked, read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.logs import log
from registry.notices import KINDS, TEST
from registry.notices.addresses import allowed_hosts, checked_addresses, parse_url, port_of
from registry.people.accounts import Viewer, record
from registry.settings import Settings
from registry.tables.accounts import Account, Notice, Webhook, WebhookDelivery

MAX_ATTEMPTS: Final = 8
FIRST_WAIT_S: Final = 30.0
"""Wait after the first failed attempt; four times as long after each further one, so that the last is days later."""
WAIT_FACTOR: Final = 4.0
CONNECT_S: Final = 5.0
ANSWER_S: Final = 10.0
ATTEMPT_S: Final = 20.0
"""What connecting, sending and waiting for the answer's first lines may take together."""
CLAIM_S: Final = 120.0
"""How long no other worker tries a claimed delivery: much longer than an attempt can take."""
ROUND_S: Final = 20.0
"""How long a worker keeps starting deliveries, so that its other duties need not wait."""
MAX_WEBHOOKS: Final = 50


@dataclass(frozen=True)
class Due:
    """A delivery that was claimed: `attempt` tells this claim from others."""

    webhook_id: int
    notice_id: int
    attempt: int
    url: str
    secret: str
    kind: str
    at: datetime
    document: dict[str, Any]

    @property
    def delivery_id(self) -> str:
        """The same whenever this notice is sent to this webhook: receivers drop what they have seen."""
        return f"{self.webhook_id}-{self.notice_id}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt: a status, or an error; delivered: a status of 200 to 299."""

    status: int | None
    error: str | None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300


Send = Callable[[Due, Settings], Outcome]


# Managing them


def add_webhook(
    session: Session,
    viewer: Viewer,
    url: str,
    kinds: Sequence[str] | None,
    settings: Settings,
    *,
    account: Account,
    address: str | None = None,
) -> Webhook:
    """A new webhook with its own secret, which signs its deliveries.

    kinds: of notices; None: all. Raises UsageError for an invalid URL, or one that leads into a private network.
    """
    allowed = allowed_hosts(settings.private_webhooks)
    parts = parse_url(url)
    checked_addresses(parts, allowed)
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown or (kinds is not None and not kinds):
        raise UsageError(f"kinds {', '.join(unknown) or '(none)'}: use some of {', '.join(KINDS)}, or leave it out")
    if len(current_webhooks(session)) >= MAX_WEBHOOKS:
        raise UsageError(f"there are already {MAX_WEBHOOKS} webhooks; remove one first")
    webhook = Webhook(
        account_id=account.id,
        url=url,
        secret=secrets.token_hex(32),  # read as base64 where it signs: 48 bytes
        kinds=None if kinds is None else sorted(set(kinds), key=list(KINDS).index),
    )
    session.add(webhook)
    session.flush()
    record(session, viewer, "webhook.add", str(webhook.id), address=address, details={"host": parts.hostname})
    return webhook


def current_webhooks(session: Session) -> list[Webhook]:
    """Webhooks that were not removed."""
    return list(session.scalars(select(Webhook).where(Webhook.disabled_at.is_(None)).order_by(Webhook.id)))


def find_webhook(session: Session, webhook_id: int) -> Webhook:
    """The webhook of that number; NotFoundError where there is none, or it was removed."""
    row = session.get(Webhook, webhook_id) if 0 < webhook_id <= MAX_ROW_ID else None
    if row is None or row.disabled_at is not None:
        raise NotFoundError(f"no webhook {webhook_id}; `shuffleboard webhooks list` lists the existing ones")
    return row


def remove_webhook(session: Session, viewer: Viewer, webhook_id: int, *, address: str | None = None) -> None:
    """Removes it; pending deliveries are dropped."""
    webhook = find_webhook(session, webhook_id)
    now = session.scalar(select(database_now()))
    webhook.disabled_at = now
    session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.webhook_id == webhook.id, WebhookDelivery.state == "waiting")
        .values(state="failed", error="the webhook was removed", finished_at=database_now())
    )
    record(session, viewer, "webhook.remove", str(webhook.id), address=address)


WEBHOOK: Final = ("url", "kinds", "created_at")
DELIVERY: Final = ("state", "attempts", "status", "error")


def webhook_document(webhook: Webhook) -> dict[str, Any]:
    """What is shown of a webhook; never its secret."""
    return {"webhook": webhook.id} | picked(webhook, WEBHOOK)


def recent_deliveries(session: Session, *, limit: int = 20) -> list[dict[str, Any]]:
    """The newest deliveries, with their outcome."""
    query = (
        select(WebhookDelivery, Notice.kind, Notice.at)
        .join(Notice, Notice.id == WebhookDelivery.notice_id)
        .order_by(WebhookDelivery.notice_id.desc(), WebhookDelivery.webhook_id)
        .limit(limit)
    )
    return [
        {
            "webhook": delivery.webhook_id,
            "delivery": f"{delivery.webhook_id}-{delivery.notice_id}",
            "kind": kind,
            "at": at,
        }
        | picked(delivery, DELIVERY)
        for delivery, kind, at in session.execute(query)
    ]


# Sending


def body_of(due: Due, settings: Settings) -> bytes:
    """What is sent: JSON in UTF-8. `link`: the page about it, where it is known how others reach the website."""
    told = next((key for key in ("submission", "evaluation") if key in due.document), None)
    page = settings.public_url and told and f"{settings.public_url.rstrip('/')}/{told}s/{due.document[told]}"
    document = {
        "delivery": due.delivery_id,
        "kind": due.kind,
        "at": due.at.isoformat(),
        "link": page or None,
        "document": due.document,
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def signed_headers(secret: str, delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that name and sign a delivery, as Standard Webhooks 1.0 has them.

    Shuffleboard-Delivery and -Signature are what the first receivers read, and go with the next release.
    """
    digest = hmac.digest(base64.b64decode(secret), f"{delivery_id}.{timestamp}.".encode() + body, "sha256")
    former = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "Shuffleboard-Delivery": delivery_id,
        "Shuffleboard-Signature": f"t={timestamp},v1={former}",
    }


def send(due: Due, settings: Settings) -> Outcome:
    """Makes one attempt, to an address that was checked just now. Redirects are not followed, answers not read."""
    import httpx2

    body = body_of(due, settings)
    try:
        parts = parse_url(due.url)
        addresses = checked_addresses(parts, allowed_hosts(settings.private_webhooks))
    except UsageError as error:
        return Outcome(None, str(error))
    host = parts.hostname or ""
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": f"shuffleboard/{__version__}",
        "Shuffleboard-Event": due.kind,
        **signed_headers(due.secret, due.delivery_id, int(time.time()), body),
    }
    try:
        target = httpx2.URL(due.url).copy_with(host=addresses[0], port=port_of(parts))
        # The name is only spoken, in the header and to TLS: the connection goes to the address that was checked. A
        # proxy would resolve it anew, so none is used.
        with (
            httpx2.Client(
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S), follow_redirects=False, trust_env=False
            ) as client,
            client.stream("POST", target, content=body, headers=headers, extensions={"sni_hostname": host}) as answer,
        ):
            return Outcome(answer.status_code, None if answer.is_success else f"answered {answer.status_code}")
    except httpx2.TimeoutException:
        return Outcome(None, f"no answer within {ANSWER_S:.0f} s")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Outcome(None, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def send_in_time(due: Due, settings: Settings) -> Outcome:
    """Makes one attempt that ends in time, whatever the receiver or the resolver of names does.

    A receiver that answers a byte now and then would keep each of the limits above for hours.
    """
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(send(due, settings)), daemon=True)
    thread.start()
    thread.join(ATTEMPT_S)
    return outcomes[0] if outcomes else Outcome(None, f"no answer within {ATTEMPT_S:.0f} s")


def deliver(engine: Engine, settings: Settings, *, sender: Send = send_in_time, seconds: float = ROUND_S) -> int:
    """Sends what is due, for so many seconds at most; returns how many were delivered.

    Each delivery is claimed in a transaction of its own, sent outside any, and settled in another, so that two workers
    send it twice only where one of them was frozen for longer than a claim lasts.
    """
    ends = time.monotonic() + seconds
    delivered = 0
    with read_session(engine) as session:
        if session.scalar(_due().limit(1)) is None:
            return 0
    while time.monotonic() < ends:
        with write_session(engine) as session:
            due = _claim(session)
        if due is None:
            break
        outcome = sender(due, settings)
        with write_session(engine) as session:
            _record_outcome(session, due, outcome)
        delivered += outcome.delivered
        if not outcome.delivered:
            log.warning("webhook_failed", delivery=due.delivery_id, attempt=due.attempt, error=outcome.error)
    return delivered


def _due() -> Select[WebhookDelivery]:
    return select(WebhookDelivery).where(
        WebhookDelivery.state == "waiting", WebhookDelivery.not_before <= database_now()
    )


def _claim(session: Session, webhook_id: int | None = None, notice_id: int | None = None) -> Due | None:
    query = (
        _due()
        .order_by(WebhookDelivery.not_before, WebhookDelivery.notice_id, WebhookDelivery.webhook_id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if notice_id is not None:
        query = query.where(WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.notice_id == notice_id)
    row = session.scalar(query)
    if row is None:
        return None
    row.attempts += 1
    session.flush()
    session.execute(_of(row.webhook_id, row.notice_id).values(not_before=database_now(CLAIM_S)))
    webhook, notice = row.webhook, row.notice
    return Due(
        webhook.id, notice.id, row.attempts, webhook.url, webhook.secret, notice.kind, notice.at, notice.document
    )


def _of(webhook_id: int, notice_id: int) -> Any:
    return update(WebhookDelivery).where(
        WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.notice_id == notice_id
    )


def _record_outcome(session: Session, due: Due, outcome: Outcome) -> bool:
    """Records the outcome of an attempt; False if another worker has claimed it since, or it was removed."""
    values: dict[str, Any] = {"status": outcome.status, "error": outcome.error}
    if outcome.delivered:
        values |= {"state": "delivered", "finished_at": database_now()}
    elif due.attempt >= MAX_ATTEMPTS:
        values |= {"state": "failed", "finished_at": database_now()}
    else:
        values["not_before"] = database_now(FIRST_WAIT_S * WAIT_FACTOR ** (due.attempt - 1))
    waiting = _of(due.webhook_id, due.notice_id).where(
        WebhookDelivery.attempts == due.attempt, WebhookDelivery.state == "waiting"
    )
    return changed_one(session, waiting.values(**values))


def try_webhook(
    engine: Engine,
    viewer: Viewer,
    webhook_id: int,
    settings: Settings,
    *,
    address: str | None = None,
    sender: Send = send_in_time,
) -> Outcome:
    """Sends one webhook a notice of kind `webhook.test` now, once, and returns the outcome."""
    with write_session(engine) as session:
        webhook = find_webhook(session, webhook_id)
        notice = Notice(kind=TEST, key=secrets.token_hex(16), document={"webhook": webhook.id})
        session.add(notice)
        session.flush()
        delivery = WebhookDelivery(webhook_id=webhook.id, notice_id=notice.id, attempts=MAX_ATTEMPTS - 1)
        session.add(delivery)
        session.flush()
        # Claimed as it is made: no worker sees it unclaimed, and it is tried once.
        due = _claim(session, webhook.id, notice.id)
        record(session, viewer, "webhook.test", str(webhook.id), address=address)
    assert due is not None
    outcome = sender(due, settings)
    with write_session(engine) as session:
        _record_outcome(session, due, outcome)
    return outcome
