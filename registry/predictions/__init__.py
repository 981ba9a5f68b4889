"""Predictions as they are stored: rows, texts, files of sealed evaluations, and the one way to read them."""
