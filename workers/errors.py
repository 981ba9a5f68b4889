"""Errors while scoring. Separate from the engine, so that the claim loop does not import torch."""


class EngineError(Exception):
    """A model that cannot be loaded or a prompt that cannot be scored; the message says which and why."""


class InterruptedScoringError(Exception):
    """Scoring was asked to stop between two batches; nothing of it counts."""
