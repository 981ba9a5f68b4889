"""The same rows as JSON, under /api/v1/. Numbers are as stored; null means undefined or not known yet."""

from web.api import boards, listed, openapi, people, proof, results, submissions, writing
from web.api.operations import OPERATIONS, blueprint
from web.api.results import evaluation_progress
from web.api.results import provenance_of as provenance

__all__ = [
    "OPERATIONS",
    "blueprint",
    "boards",
    "evaluation_progress",
    "listed",
    "openapi",
    "people",
    "proof",
    "provenance",
    "results",
    "submissions",
    "writing",
]
