"""Suites and boards: the evaluations that every model must have, and the published table of results."""
