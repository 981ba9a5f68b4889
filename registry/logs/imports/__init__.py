"""Imports of logs: records are matched to the questions of a benchmark, or refused, and stored as an evaluation."""
