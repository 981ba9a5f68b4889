"""Errors while scoring. Separate from the engine, so that the claim loop does not import torch."""


class EngineError(Exception):
    """A model that cannot be loaded or a prompt that cannot be scored; the message says which and why.

    final: whether trying again is of no use. of_all: whether nothing else of the evaluation need be tried either.
    """

    final = False
    of_all = False


class InterruptedScoringError(Exception):
    """Scoring was asked to stop between two batches, or has to wait; nothing of it counts.

    wait_s: how long it is of no use to go on.
    """

    def __init__(self, wait_s: float = 0.0) -> None:
        super().__init__()
        self.wait_s = wait_s
