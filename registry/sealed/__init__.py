"""Sealed evaluations as folders: exported, imported into another registry, and checked by a public key."""
