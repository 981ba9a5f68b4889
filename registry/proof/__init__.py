"""The origin of every number: manifests, seals, signatures, withdrawals and provenance."""
