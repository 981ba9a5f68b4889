"""Recorded outputs: one reader per format, one check, one way into the database."""
