"""Benchmarks: readers of several file formats, one strict contract, and imports of a whole file or nothing."""
