"""The rows of the pages as JSON, under /api/v1/. Numbers are as stored; null means undefined or not known yet."""

from web.api import boards, listed, openapi, people, proof, results, submissions, writing
from web.api.operations import OPERATIONS, blueprint

__all__ = [
    "OPERATIONS",
    "blueprint",
    "boards",
    "listed",
    "openapi",
    "people",
    "proof",
    "results",
    "submissions",
    "writing",
]
