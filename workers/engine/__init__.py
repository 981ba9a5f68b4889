"""The scoring engine: prompts in, log-probabilities out.

Imports torch and transformers and nothing of the registry, so that it can be run, tested and timed alone.
"""

from workers.engine.adapters import Adapter
from workers.engine.batched import score_batched
from workers.engine.chat import encode_rendered, render_chat
from workers.engine.engines import ENGINES, Engine, open_engine
from workers.engine.generation import (
    GENERATION_TOKENS,
    Generated,
    GenerationPrompt,
    effective_parameters,
    generate,
)
from workers.engine.loading import LoadedModel, load_model
from workers.engine.reference import continuations_reference, score_reference
from workers.engine.trie_engine import TrieEngine
from workers.errors import EngineError, InterruptedScoringError
from workers.tokens import ScoredPrompts, ScoringPrompt, TokenisedPrompt

__all__ = [
    "ENGINES",
    "GENERATION_TOKENS",
    "Adapter",
    "Engine",
    "EngineError",
    "Generated",
    "GenerationPrompt",
    "InterruptedScoringError",
    "LoadedModel",
    "ScoredPrompts",
    "ScoringPrompt",
    "TokenisedPrompt",
    "TrieEngine",
    "continuations_reference",
    "effective_parameters",
    "encode_rendered",
    "generate",
    "load_model",
    "open_engine",
    "render_chat",
    "score_batched",
    "score_reference",
]
