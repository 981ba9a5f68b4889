"""Suites and boards: the test that every model takes, and the table that is published."""
