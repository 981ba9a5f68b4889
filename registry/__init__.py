"""The domain of Shuffleboard: schema, benchmarks, variants, prompts, queue, metrics, provenance.

Imports neither `web` nor `workers`, and never torch.
"""

__version__ = "0.1.0"
