"""Prompts, and how outputs are read: pure functions."""
