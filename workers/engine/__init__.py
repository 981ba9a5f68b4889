"""The scoring engine: prompts in, log-probabilities out.

Imports torch and transformers and nothing of the registry, so that it can be run, tested and timed alone.
"""

from workers.engine.batched import score_batched
from workers.engine.loading import LoadedModel, load_model
from workers.engine.reference import score_reference
from workers.engine.tokens import ScoredPrompts, ScoringPrompt
from workers.errors import EngineError, InterruptedScoringError

__all__ = [
    "EngineError",
    "InterruptedScoringError",
    "LoadedModel",
    "ScoredPrompts",
    "ScoringPrompt",
    "load_model",
    "score_batched",
    "score_reference",
]
