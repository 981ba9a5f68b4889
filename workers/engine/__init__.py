"""The scoring engine: prompts in, log-probabilities out.

Imports torch and transformers and nothing of the registry, so that it can be run, tested and timed alone.
"""

from workers.engine.batched import score_batched
from workers.engine.engines import ENGINES, Engine, open_engine
from workers.engine.loading import LoadedModel, load_model
from workers.engine.reference import continuations_reference, score_reference
from workers.engine.tokens import ScoredPrompts, ScoringPrompt, TokenisedPrompt
from workers.engine.trie_engine import TrieEngine
from workers.errors import EngineError, InterruptedScoringError

__all__ = [
    "ENGINES",
    "Engine",
    "EngineError",
    "InterruptedScoringError",
    "LoadedModel",
    "ScoredPrompts",
    "ScoringPrompt",
    "TokenisedPrompt",
    "TrieEngine",
    "continuations_reference",
    "load_model",
    "open_engine",
    "score_batched",
    "score_reference",
]
