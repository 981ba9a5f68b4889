"""Benchmarks: one reader per file format, one strict contract, all or nothing."""
