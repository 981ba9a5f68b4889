"""Scores of one evaluation: statistics of its questions, its metrics and their intervals."""
