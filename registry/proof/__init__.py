"""Where a number comes from: manifests, seals, signatures, withdrawals and provenance."""
