"""The endpoint engine: prompts in, log-probabilities or texts out, from a server with an OpenAI-compatible API.

vLLM, SGLang, the llama.cpp server and hosted services. Needs no torch.
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
