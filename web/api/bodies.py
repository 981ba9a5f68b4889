"""Bodies of requests as types, which give the OpenAPI document its schemas and check the bodies."""

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from registry.boards.wanted import Budget, Priority, Queue, Reference, Statement, Word
from registry.db import MAX_ROW_ID
from registry.fields import Between, OneOf
from registry.people.accounts import ROLES, SCOPES
from registry.revisions.store import DTYPES
from registry.tables import MODEL_KINDS, VISIBILITIES
from web.urls import parameters

Name = Annotated[parameters.Name, Field(description="Letters, digits, '.', '_' and '-'.")]
Text = Annotated[str, Field(max_length=2000)]
HubName = Annotated[str, Field(min_length=3, max_length=200, description="owner/name, as on the hub; never a path.")]
Url = Annotated[str, Field(min_length=1, max_length=2000)]
Dtype = Annotated[str, OneOf(DTYPES)]
Kind = Annotated[str, OneOf(tuple(kind for kind in MODEL_KINDS if kind != "gguf"))]
"""A kind of model. A GGUF file can only be registered on the machine that has it."""
Visibility = Annotated[str, OneOf(VISIBILITIES)]
Role = Annotated[str, OneOf(ROLES)]
Scope = Annotated[str, OneOf(tuple(SCOPES))]
Password = Annotated[str, Field(min_length=12, max_length=1024)]
SECRET: Final = Field(None, repr=False)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _such_as(**example: Any) -> ConfigDict:
    """Return the configuration with an example of a body, for the OpenAPI document and its page."""
    return ConfigDict(json_schema_extra={"examples": [example]})


class ReplayBody(_Body):
    """The changes in a replay: the benchmark version with the answer keys, the protocol that reads answers, or both."""

    model_config = _such_as(benchmark="mmlu@corrected")

    benchmark: Annotated[
        Reference | None, Field(description="Benchmark NAME, or NAME@VERSION. Default: as in the source.")
    ] = None
    protocol: Annotated[
        Word | None, Field(description="Protocol whose rules read the stored texts. Default: as they were read.")
    ] = None


class SubmissionBody(_Body):
    """A model to run a test suite on: one on the hub, or one on an endpoint that the registry allows."""

    model_config = _such_as(
        suite="robustness-core", hub="HuggingFaceTB/SmolLM2-135M", note="A small model to begin with."
    )

    suite: Reference
    hub: HubName | None = None
    endpoint: Annotated[Name | None, Field(description="Name of an endpoint, as the registry knows it.")] = None
    revision: Annotated[
        Word | None, Field(description="Branch, tag or commit of the hub; on an endpoint the model's name there.")
    ] = None
    dtype: Dtype | None = None
    name: Annotated[Name | None, Field(description="In this registry; by default the last part of the hub's.")] = None
    note: Text | None = None
    conflict_of_interest: Annotated[
        Statement | None, Field(description="What ties you to the model's maker; none where nothing does.")
    ] = None
    anonymous: Annotated[
        bool, Field(description="Leave the submitter's name out of the evaluations; maintainers see it.")
    ] = False


class ApprovalBody(_Body):
    """The settings for queueing an approved submission."""

    model_config = _such_as(reason="Welcome.", queue="cpu")

    reason: Text | None = None
    queue: Queue = "cpu"
    priority: Priority = 0
    budget: Budget | None = None


class RejectionBody(_Body):
    """The reason for rejecting a submission, which its submitter reads."""

    model_config = _such_as(reason="This model is on the boards already.")

    reason: Annotated[Text, Field(min_length=1)]


class ModelBody(_Body):
    """A model revision. location: a name on the hub, or an address below an endpoint of the registry; never a path."""

    model_config = _such_as(
        name="SmolLM2-135M", kind="huggingface", location="HuggingFaceTB/SmolLM2-135M", parameters=134_515_008
    )

    name: Name
    kind: Kind
    location: Url | None = None
    revision: Annotated[
        Word | None, Field(description="Branch, tag or commit of the hub; on an endpoint the model's name there.")
    ] = None
    key: Annotated[Name | None, Field(description="Name of the endpoint that the location is expected on.")] = None
    dtype: Word | None = None
    quantisation: Word | None = None
    adapter: Annotated[
        Word | None, Field(description="LoRA adapter on the hub for the model, `OWNER/NAME` or `OWNER/NAME@REVISION`.")
    ] = None
    merged: Annotated[bool | None, Field(description="Add the adapter to the weights. Default: beside them.")] = None
    family: Word | None = None
    developer: Word | None = None
    parameters: Annotated[int, Between(1, MAX_ROW_ID)] | None = None
    licence: Word | None = None
    released: Annotated[Word | None, Field(description="Day of its release, YYYY-MM-DD.")] = None
    url: Url | None = None


class VisibilityBody(_Body):
    """The visibility of all versions of a benchmark, or of one version."""

    model_config = _such_as(visibility="members")

    visibility: Visibility
    version: Name | None = None
    public_from: Annotated[
        parameters.TimeFrom | None,
        Field(description="A later date or time from which on everyone may see it; UTC where no zone is given."),
    ] = None


class _Query(_Body):
    query: Annotated[str, Field(min_length=1, max_length=20_000)]


class QueryBody(_Query):
    """A query in SQL: one SELECT over the documented views, in DuckDB's dialect."""

    model_config = _such_as(query="SELECT model, accuracy, worst_accuracy FROM leaderboard")


class SavedQueryBody(_Query):
    """A query to save. public: whether everyone who may use the SQL page may open it."""

    model_config = _such_as(query="SELECT model, accuracy FROM leaderboard", name="Accuracies", public=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    public: bool = False


class AccountBody(_Body):
    """A new account. Without a password it can only use tokens."""

    model_config = _such_as(name="ada", role="submitter")

    name: Name
    role: Role
    password: Password | None = SECRET


class AccountChangeBody(_Body):
    """Changes of an account; omitted fields stay unchanged."""

    model_config = _such_as(role="maintainer")

    role: Role | None = None
    password: Password | None = SECRET
    disabled: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.role is None and self.password is None and self.disabled is None:
            raise ValueError("give role, password or disabled: nothing else can be changed")
        return self


class TokenBody(_Body):
    """A new token. days: until it expires; null: never."""

    model_config = _such_as(name="nightly", scopes=["read"], days=90)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    days: Annotated[int, Between(1, 3650)] | None = None
