"""Errors while scoring. Separate from the engine, so that the claim loop does not import torch."""


class EngineError(Exception):
    """A model that cannot be loaded or a prompt that cannot be scored; the message names it and the reason.

    final: whether another try would fail too. of_all: whether that is true of the whole evaluation.
    """

    final = False
    of_all = False


class PermanentError(EngineError):
    """A model or a prompt that is refused and would be refused again, so that one failure is enough.

    of_all: whether everything else of the evaluation would be refused, too.
    """

    final = True

    def __init__(self, message: str, *, of_all: bool = False) -> None:
        super().__init__(message)
        self.of_all = of_all


class InterruptedScoringError(Exception):
    """Scoring was stopped between two batches, or has to wait; its results are discarded.

    wait_s: seconds during which another try would fail.
    """

    def __init__(self, wait_s: float = 0.0) -> None:
        super().__init__()
        self.wait_s = wait_s
