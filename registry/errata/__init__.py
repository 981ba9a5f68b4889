"""Errata: the keys that reviewers correct, and every metric by the corrected keys."""
