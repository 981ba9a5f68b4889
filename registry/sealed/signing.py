"""Sign the head of the chain: the file of the key, and the stored signatures.

The private key is only in a file that nobody but its owner may read. Each stored signature includes its public key, so
that the signatures of a replaced key can still be checked.
"""

import base64
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry import chain, formats
from registry.db import database_now, one_at_a_time, pick
from registry.errors import NotFoundError, UsageError
from registry.files.absent import refuse_pipe
from registry.files.storage import writing
from registry.private import make_folder
from registry.proposals import propose
from registry.sealed.statements import Signed, fingerprint, public_pem, read_public_key, read_statement, sign
from registry.settings import Settings
from registry.tables import ChainLink, ChainSignature

KEY_FILE: Final = "chain-key.pem"
DAILY: Final = timedelta(days=1)
_OTHERS: Final = 0o077
_MAX_KEY: Final = 10_000
"""Maximum size of a key's file, in bytes."""


def key_path(settings: Settings) -> Path:
    """Return the path of the private key, which may be missing."""
    return settings.signing_key or settings.home.expanduser() / KEY_FILE


def new_key(path: Path, *, replace: bool = False) -> tuple[str, Path | None]:
    """Make a key in a file that only its owner may read; return its fingerprint, and the new path of the replaced key.

    Raises UsageError if there is a key already and `replace` is false, or if the file cannot be written.
    """
    moved = None
    if path.exists() and not replace:
        raise UsageError(
            f"{path}: there is a key already; show it with `{propose('chain key show')}`, or put a new one in its "
            "place with --replace: what the old one signed stays valid"
        )
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with writing(path):
            make_folder(path.parent)
            if path.exists():
                old = fingerprint(read_key(path).public_key())
                moved = path.with_name(f"{path.stem}-{old[:12]}{path.suffix}")
                path.rename(moved)
            # The file is created with its final mode, so others can never read it, and never through a link.
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(pem)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}); set SHUFFLEBOARD_SIGNING_KEY") from None
    return fingerprint(key.public_key()), moved


def read_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key of a file.

    Raises NotFoundError if there is no file, UsageError if others may read it or if it contains no such key. No message
    quotes the file.
    """
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            pem = file.read(_MAX_KEY)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no key to sign with; make one: {propose('chain key new')}") from None
    except OSError as error:
        raise UsageError(f"{path}: the key cannot be read ({error.strerror})") from None
    if mode & _OTHERS:
        raise UsageError(f"{path}: others than its owner may read this key; chmod 600 {path}")
    try:
        key: Any = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path}: is not an Ed25519 private key in PEM without a password")
    return key


def sign_head(session: Session, settings: Settings, *, again_after: timedelta | None = None) -> Signed | None:
    """Sign the chain's head unless the key has signed it already; return the signature, or None if the chain is empty.

    again_after: age at which a signature of the same head is renewed; None for never. Raises NotFoundError without a
    key, UsageError for an unusable one.
    """
    key = read_key(key_path(settings))
    one_at_a_time(session, "sign chain")
    head = chain.head(session)
    if head is None:
        return None
    now = session.scalar(select(database_now()))
    assert now is not None
    public = fingerprint(key.public_key())
    latest = session.scalar(
        select(ChainSignature).filter_by(key=public, head=head.digest).order_by(ChainSignature.id.desc()).limit(1)
    )
    if latest is not None and (again_after is None or now - latest.at < again_after):
        return as_signed(latest)
    signed = sign(key, head.digest, head.position, now, settings.public_url.rstrip("/"))
    session.add(
        ChainSignature(
            position=head.position,
            head=head.digest,
            key=public,
            public_key=public_pem(signed.public_key),
            statement=signed.statement.text,
            signature=base64.b64encode(signed.signature).decode(),
            at=now,
        )
    )
    session.flush()
    return signed


def sign_if_possible(session: Session, settings: Settings) -> Signed | None:
    """Sign the head if there is a key; else return None."""
    return sign_head(session, settings) if key_path(settings).exists() else None


def keep_signed(session: Session, settings: Settings) -> Signed | None:
    """Sign the head if there is a key; a head that is already signed is signed again after a day."""
    return sign_head(session, settings, again_after=DAILY) if key_path(settings).exists() else None


def as_signed(row: ChainSignature) -> Signed:
    """Convert a stored signature to a signed statement."""
    return Signed(
        read_statement(row.statement),
        read_public_key(row.public_key, f"signature {row.id}"),
        base64.b64decode(row.signature),
    )


def signatures(session: Session, *, limit: int | None = None, offset: int = 0) -> Sequence[ChainSignature]:
    """Return the stored signatures, newest first."""
    query = select(ChainSignature).order_by(ChainSignature.id.desc())
    return session.scalars(query.limit(limit).offset(offset)).all()


def newest_signature(session: Session) -> ChainSignature | None:
    """Return the newest signature; None if nothing was signed."""
    return next(iter(signatures(session, limit=1)), None)


def covering(session: Session, position: int) -> ChainSignature | None:
    """Return the first signature that covers a link of the chain; None if there is none."""
    query = select(ChainSignature).where(ChainSignature.position >= position)
    return session.scalar(query.order_by(ChainSignature.position, ChainSignature.id).limit(1))


def keys(session: Session) -> list[dict[str, str | datetime]]:
    """Return the keys that signed something, newest first: fingerprint, PEM, times of the first and last signature."""
    entries: dict[str, dict[str, str | datetime]] = {}
    for row in signatures(session):
        entry = entries.setdefault(row.key, {"key": row.key, "public_key": row.public_key, "last": row.at})
        entry["first"] = row.at
    return list(entries.values())


def signature_problems(session: Session) -> list[str]:
    """Check the stored signatures, and return the problems as sentences."""
    digests = {row.position: row.digest for row in session.execute(select(ChainLink.position, ChainLink.digest))}
    problems = []
    for row in signatures(session):
        try:
            signed = as_signed(row)
            statement = signed.statement
            holds = signed.holds and (statement.head, statement.length) == (row.head, row.position)
        except (UsageError, ValueError):
            holds = False
        if not holds:
            problems.append(f"signature {row.id}: it does not match its statement or its key")
        elif digests.get(row.position) != row.head:
            problems.append(
                f"signature {row.id}: it is of the head {row.head} at link {row.position}, which is no longer so"
            )
    return problems


def signed_chain(session: Session) -> dict[str, Any]:
    """Return the whole chain, and the newest signature of each key."""
    newest: dict[str, dict[str, Any]] = {}
    for row in signatures(session):
        newest.setdefault(row.key, as_signed(row).document())
    return {
        formats.NUMBER: formats.CHAIN,
        "signatures": list(newest.values()),
        "links": [_link(link) for link in chain.links(session)],
    }


def _link(link: ChainLink) -> dict[str, Any]:
    return pick(link, chain.LINK) | {"at": link.at.isoformat()}
