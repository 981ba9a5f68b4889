"""Signed statements about the head of a chain, and the check of their signatures.

A statement is canonical JSON after a line with its kind, so that a signature of one kind is never valid for another.
`docs/provenance.md` describes the bytes, so that other programs can check them. This module needs no registry.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from registry import formats
from registry.digests import DIGEST_LENGTH, canonical_json
from registry.errors import UsageError
from registry.untrusted import decode

DOMAIN: Final = f"shuffleboard chain head {formats.CHAIN}\n".encode()
"""First line of the signed bytes, with the number of the chain's format.

If that number is raised, stored signatures are still checked with the number they were made with.
"""
KEYS: Final = frozenset({"at", "head", "key", "length", "registry"})
"""Keys of a statement."""


@dataclass(frozen=True)
class Statement:
    """A statement about a registry's chain: its head at a certain time.

    length: number of links in the chain. at: time of the signature by the registry's clock. registry: its public URL,
    empty if it has none. key: fingerprint of the signing key.
    """

    head: str
    length: int
    at: datetime
    registry: str
    key: str

    @property
    def text(self) -> str:
        """Return the statement as canonical JSON: sorted keys, no blanks, UTF-8."""
        return canonical_json(
            {
                "head": self.head,
                "length": self.length,
                "at": self.at.isoformat(),
                "registry": self.registry,
                "key": self.key,
            }
        )

    @property
    def signed_bytes(self) -> bytes:
        """Return the bytes that are signed."""
        return DOMAIN + self.text.encode()


@dataclass(frozen=True)
class Signed:
    """A statement with its signature."""

    statement: Statement
    public_key: Ed25519PublicKey
    signature: bytes

    @property
    def holds(self) -> bool:
        """Return whether the signature is valid and was made with the key that the statement names."""
        if fingerprint(self.public_key) != self.statement.key:
            return False
        try:
            self.public_key.verify(self.signature, self.statement.signed_bytes)
        except InvalidSignature:
            return False
        return True

    def document(self) -> dict[str, Any]:
        """Return the signed statement as plain JSON."""
        return {
            "statement": self.statement.text,
            "public_key": public_pem(self.public_key),
            "signature": base64.b64encode(self.signature).decode(),
        }


def sign(key: Ed25519PrivateKey, head: str, length: int, at: datetime, registry: str) -> Signed:
    """Sign the head of a chain. The same statement always has the same signature."""
    public = key.public_key()
    statement = Statement(head, length, at, registry, fingerprint(public))
    return Signed(statement, public, key.sign(statement.signed_bytes))


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key in DER, as `openssl pkey -pubin -outform der | sha256sum` prints it."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def public_pem(key: Ed25519PublicKey) -> str:
    """Return a public key as PEM."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_public_key(pem: str, source: str) -> Ed25519PublicKey:
    """Read a public key from a PEM text. Raises UsageError naming `source` for anything else."""
    try:
        key: Any = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(
            f"{source}: is not an Ed25519 public key in PEM; the registry shows its own on the page of its chain"
        )
    return key


def read_signed(document: Any) -> Signed:
    """Read a signed statement from the JSON of `Signed.document`. Raises ValueError for anything else."""
    message = "a signed statement has a statement, a public key and a signature"
    if not isinstance(document, Mapping) or not all(
        isinstance(document.get(key), str) for key in ("statement", "public_key", "signature")
    ):
        raise ValueError(message)
    try:
        key = read_public_key(document["public_key"], "the statement's key")
        signature = base64.b64decode(document["signature"], validate=True)
    except (UsageError, binascii.Error, UnicodeError) as error:
        raise ValueError(message) from error
    return Signed(read_statement(document["statement"]), key, signature)


def read_statement(text: str) -> Statement:
    """Read a statement from its canonical text. Raises ValueError for any other text."""
    message = "the statement is not as this version of the program writes it"
    try:
        fields = decode(text)
        statement = Statement(
            fields["head"], fields["length"], datetime.fromisoformat(fields["at"]), fields["registry"], fields["key"]
        )
        canonical = statement.text
        named = all(isinstance(fields[key], str) for key in KEYS - {"length"}) and is_digest(fields["head"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(message) from error
    # Any other content of the text would be covered by the signature as well.
    length = fields["length"]
    if not named or canonical != text or statement.at.tzinfo is None or type(length) is not int or length < 1:
        raise ValueError(message)
    return statement


def is_digest(value: Any) -> bool:
    """Return whether a value is a SHA-256 in lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == DIGEST_LENGTH and not set(value) - set("0123456789abcdef")
