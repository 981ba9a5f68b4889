"""Timestamps (RFC 3161): an authority's word that a signature existed at a time, instead of our clock's."""

from dataclasses import replace
from datetime import datetime
from typing import Final

import httpx2 as httpx
from cryptography import x509
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from registry.errors import RemoteError, UsageError
from registry.proof.statements import Signed

_SECONDS: Final = 20.0
_LARGEST: Final = 100_000
"""Bytes of an authority's answer."""


def timestamped(signed: Signed, url: str) -> Signed:
    """The same with a timestamp of its signature. Raises RemoteError where the authority gives none."""
    request = (
        TimestampRequestBuilder()
        .data(signed.signature)
        .hash_algorithm(HashAlgorithm.SHA256)
        .nonce(nonce=True)
        .cert_request(cert_request=True)
        .build()
    )
    headers = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
    try:
        with httpx.stream("POST", url, content=request.as_bytes(), headers=headers, timeout=_SECONDS) as response:
            response.raise_for_status()
            answer = b""
            for part in response.iter_bytes():
                answer += part
                if len(answer) > _LARGEST:
                    raise RemoteError(f"{url}: its timestamp is larger than {_LARGEST} bytes; is it an authority?")
    except httpx.HTTPError as error:
        raise RemoteError(f"{url}: no timestamp ({error}); check SHUFFLEBOARD_TIMESTAMP_URL") from None
    try:
        found = decode_timestamp_response(answer)
        stamped = found.tst_info.message_imprint.message
        nonce = found.tst_info.nonce
    except ValueError as error:
        raise RemoteError(f"{url}: its answer is not a timestamp ({error})") from None
    if nonce != request.nonce or stamped != request.message_imprint.message:
        raise RemoteError(f"{url}: its timestamp is of something else")
    return replace(signed, timestamp=answer)


def read_authority(pem: bytes, source: str) -> list[x509.Certificate]:
    """Certificates of an authority, in PEM. Raises UsageError naming `source` for anything else."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise UsageError(f"{source}: has no certificate in PEM; give the authority's root certificate") from None


def stamped_at(signed: Signed, authority: list[x509.Certificate]) -> datetime:
    """When the authority says that it saw the signature.

    authority: its root certificate, and others between that and the one that signs. Raises ValueError where the
    timestamp is not this authority's, or of something else.
    """
    assert signed.timestamp is not None
    found = decode_timestamp_response(signed.timestamp)
    builder = VerifierBuilder()
    for certificate in authority:
        if certificate.issuer == certificate.subject:
            builder = builder.add_root_certificate(certificate)
        else:
            builder = builder.add_intermediate_certificate(certificate)
    try:
        builder.build().verify_message(found, signed.signature)
    except VerificationError as error:
        message = str(error)
        raise ValueError(message) from None
    at: datetime = found.tst_info.gen_time
    return at
