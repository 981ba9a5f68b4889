"""Suites and boards: what an organisation asks of every model, and the table it publishes."""
