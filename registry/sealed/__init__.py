"""Sealed evaluations: exported as folders, imported elsewhere, checked by a public key, and replayed."""
