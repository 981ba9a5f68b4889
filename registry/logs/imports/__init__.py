"""Imports of logs: records that are joined to the questions of a benchmark, or refused, and stored as an evaluation."""
