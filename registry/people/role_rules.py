"""Rules that turn a provider's claims into roles: the TOML file that SHUFFLEBOARD_OIDC_ROLES names.

    name_claim = "preferred_username"

    [[rule]]
    role = "maintainer"
    claim = "groups"
    values = ["evaluation-team"]

    [[rule]]
    role = "admin"
    claim = ["realm_access", "roles"]
    values = ["board-admin"]

A person has the highest role of the rules that fit, and `otherwise` if none does; without it they are refused. Roles
come from nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, field_validator

from registry.errors import IngestError, UsageError
from registry.files.toml import read_toml
from registry.people.accounts import ROLES

VERIFIED: Final = {"email": "email_verified", "phone_number": "phone_number_verified"}
"""Claims that people can edit at their provider, each with the claim that marks it as verified."""


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    role: StrictStr
    claim: StrictStr | tuple[StrictStr, ...]
    values: tuple[StrictStr, ...] = Field(min_length=1)

    @field_validator("claim")
    @classmethod
    def _check_path(cls, claim: str | tuple[str, ...]) -> tuple[str, ...]:
        path = (claim,) if isinstance(claim, str) else claim
        if not path or not all(path):
            message = "names no claim"
            raise ValueError(message)
        return path

    @field_validator("role")
    @classmethod
    def _check_role(cls, role: str) -> str:
        return _check_role_name(role)

    @field_validator("values")
    @classmethod
    def _check_values(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if not all(value.strip() for value in values):
            message = "a value is blank, and would fit a claim that says nothing"
            raise ValueError(message)
        return values


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name_claim: StrictStr = Field("preferred_username", min_length=1)
    otherwise: StrictStr | None = None
    rule: tuple[_Rule, ...] = ()

    @field_validator("otherwise")
    @classmethod
    def _check_default(cls, role: str | None) -> str | None:
        if role == "admin":
            message = "everyone at the provider would be an admin; name them by a rule"
            raise ValueError(message)
        return role and _check_role_name(role)


def _check_role_name(role: str) -> str:
    if role not in ROLES:
        message = f"no role {role[:40]!r}; use one of {', '.join(ROLES)}"
        raise ValueError(message)
    return role


@dataclass(frozen=True)
class RoleRules:
    """The rules of a mapping file.

    name_claim: the claim that names an account at its first sign-in. grants: path to a claim, and its value → role.
    otherwise: the role of people who fit no rule; None: they are refused.
    """

    name_claim: str
    grants: Mapping[tuple[tuple[str, ...], str], str]
    otherwise: str | None = None

    def role_of(self, claims: Mapping[str, Any]) -> str | None:
        """Return the highest role that a person's claims grant; None: they may not sign in.

        A rule fits if its claim equals the rule's value, or is a list that contains it.
        """
        granted = [role for (path, value), role in self.grants.items() if value in _read_texts(claims, path)]
        return max(granted, key=ROLES.index, default=self.otherwise)


def _read_texts(claims: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Return the texts in a claim; none if the provider has not verified it."""
    value: Any = claims
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return []
        if key in VERIFIED and value.get(VERIFIED[key]) is not True:
            return []
        value = value[key]
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def load_role_rules(path: str) -> RoleRules:
    """Load the rules of a file. Raises UsageError naming the setting, the place in the file, and the problem."""
    setting = f"SHUFFLEBOARD_OIDC_ROLES={path}"
    try:
        document = _File.model_validate(read_toml(Path(path).expanduser()))
    except IngestError as error:
        raise UsageError(f"{setting}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = _describe_place(first["loc"])
        raise UsageError(
            f"{setting}: {place}: {first['msg'].removeprefix('Value error, ')}; correct the file"
        ) from None
    grants: dict[tuple[tuple[str, ...], str], str] = {}
    for number, rule in enumerate(document.rule, 1):
        assert isinstance(rule.claim, tuple)
        for value in rule.values:
            if (rule.claim, value) in grants:
                named = ".".join(rule.claim)
                raise UsageError(
                    f"{setting}: rule {number}: {named} = {value!r} already gives {grants[rule.claim, value]}; "
                    "name each value of a claim once"
                )
            grants[rule.claim, value] = rule.role
    if not grants and document.otherwise is None:
        raise UsageError(f'{setting}: gives no role to anyone; add a [[rule]], or `otherwise = "reader"`')
    return RoleRules(document.name_claim, grants, document.otherwise)


def _describe_place(loc: tuple[int | str, ...]) -> str:
    """Return a place in the file, counted from 1: `rule 2, role`."""
    if loc[:1] == ("rule",) and len(loc) > 1 and isinstance(loc[1], int):
        return ", ".join([f"rule {loc[1] + 1}", *(str(key) for key in loc[2:3])])
    return str(loc[0])
