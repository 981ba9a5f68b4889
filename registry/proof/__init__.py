"""Where a number comes from: manifests, seals, their chain, withdrawals and provenance."""
