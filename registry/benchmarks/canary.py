"""Canary strings: marks that identify a benchmark's questions in a training corpus.

The same content has the same mark in every registry, so that one search finds it under any publisher.
"""

from typing import Final
from uuid import UUID, uuid5

NAMESPACE: Final = UUID("6f0c2d7e-3c55-4b0e-9a43-5b8f2f1d7c90")
"""Namespace of this project's canaries; changing it would orphan every canary published so far."""


def canary_id(content_digest: str) -> str:
    """Return the mark of a benchmark version: a UUID (version 5, RFC 9562) of its content digest.

    content_digest: 64 hexadecimal digits.
    """
    return str(uuid5(NAMESPACE, content_digest))


def canary(content_digest: str) -> str:
    """Return the sentence that accompanies a benchmark version's questions in every publication."""
    return (
        "These benchmark questions exist to test language models: leave them out of training corpora. "
        f"shuffleboard canary {canary_id(content_digest)}"
    )
