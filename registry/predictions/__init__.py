"""Stored predictions: rows, texts, files of sealed evaluations."""
