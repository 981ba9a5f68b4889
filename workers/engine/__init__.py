"""The scoring engine: prompts in, log-probabilities out.

It imports torch and transformers but nothing of the registry, so that it can be run, tested and timed alone.
"""

from workers.engine.adapters import Adapter
from workers.engine.batched import score_batched
from workers.engine.chat import encode_rendered, render_chat
from workers.engine.engines import ENGINES, Engine, open_engine
from workers.engine.generation import (
    Generated,
    GenerationPrompt,
    ThoughtLimit,
    cache_tokens,
    effective_parameters,
    generate_counted,
)
from workers.engine.loading import LoadedModel, load_model
from workers.engine.reference import continuations_reference, score_reference
from workers.engine.trie_engine import TrieEngine
from workers.errors import EngineError, InterruptedScoringError
from workers.tokens import ScoredPrompts, ScoringPrompt, TokenisedPrompt

__all__ = [
    "ENGINES",
    "Adapter",
    "Engine",
    "EngineError",
    "Generated",
    "GenerationPrompt",
    "InterruptedScoringError",
    "LoadedModel",
    "ScoredPrompts",
    "ScoringPrompt",
    "ThoughtLimit",
    "TokenisedPrompt",
    "TrieEngine",
    "cache_tokens",
    "continuations_reference",
    "effective_parameters",
    "encode_rendered",
    "generate_counted",
    "load_model",
    "open_engine",
    "render_chat",
    "score_batched",
    "score_reference",
]
