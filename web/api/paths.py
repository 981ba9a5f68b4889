"""Parameters in paths of the API."""

from typing import Annotated

from pydantic import Field

from registry.fields import Remedy
from web.urls.parameters import Digest, Id, Name

EvaluationId = Annotated[Id, Field(description="An evaluation's number.")]
OtherId = Annotated[Id, Field(description="Another evaluation's number.")]
QuestionId = Annotated[Id, Field(description="A question's number in this registry.")]
SubmissionId = Annotated[Id, Field(description="A submission's number.")]
TokenId = Annotated[Id, Field(description="A token's number.")]
ModelName = Annotated[Name, Field(description="A model's name.")]
BenchmarkName = Annotated[Name, Field(description="A benchmark's name.")]
BoardName = Annotated[Name, Field(description="A board's name.")]
SuiteName = Annotated[Name, Field(description="A suite's name; its newest version.")]
AccountName = Annotated[Name, Field(description="An account's name.")]
SnapshotDigest = Annotated[Digest, Field(description="A snapshot's digest.")]
Slug = Annotated[
    str,
    Field(pattern="^[A-Za-z0-9_-]{1,40}$", description="A saved query's name in addresses."),
    Remedy("use up to 40 letters, digits, '_' and '-'"),
]
