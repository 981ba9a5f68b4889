"""The endpoint engine: log-probabilities and texts from a server with an OpenAI-compatible API.

It supports vLLM, SGLang, the llama.cpp server and hosted services, and needs no torch.
"""

from workers.endpoint.engine import (
    EndpointEngine,
    EndpointScores,
    EndpointTexts,
    inspect_endpoint,
    open_endpoint,
)
from workers.endpoint.writing import EndpointPrompt

__all__ = [
    "EndpointEngine",
    "EndpointPrompt",
    "EndpointScores",
    "EndpointTexts",
    "inspect_endpoint",
    "open_endpoint",
]
