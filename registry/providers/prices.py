"""The price list: the cost of a million tokens by provider and model. A file can override it."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from registry.errors import IngestError, UsageError
from registry.files.toml import read_toml

SHIPPED: Final = Path(__file__).with_name("prices.toml")
_MILLION: Final = 1_000_000
TURN_TOKENS: Final = 64
"""An upper bound of the tokens that a provider adds to a conversation of a few turns."""


class Price(BaseModel):
    """Prices of a million tokens.

    cached_prompt: the price of prompt tokens in the provider's cache; None: the usual price. batch: factor for calls in
    a batch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(ge=0, allow_inf_nan=False)
    written: float = Field(ge=0, allow_inf_nan=False)
    cached_prompt: float | None = Field(None, ge=0, allow_inf_nan=False)
    batch: float = Field(1.0, ge=0, le=1)

    def of(self, prompt_tokens: int, cached_tokens: int, written_tokens: int) -> float:
        """Return the cost of an answer. Prompt tokens include cached ones; written tokens include hidden ones."""
        cached = self.prompt if self.cached_prompt is None else self.cached_prompt
        uncached = (prompt_tokens - cached_tokens) * self.prompt
        return (uncached + cached_tokens * cached + written_tokens * self.written) / _MILLION

    def in_batch(self) -> "Price":
        """Return the prices for calls in a batch."""
        cached = None if self.cached_prompt is None else self.batch * self.cached_prompt
        return Price(
            prompt=self.batch * self.prompt, written=self.batch * self.written, cached_prompt=cached, batch=1.0
        )

    def at_most(self, text: str, most_tokens: int) -> float:
        """Return the most that an answer to a text can cost: no token is shorter than a byte."""
        return self.of(len(text.encode()) + TURN_TOKENS, 0, most_tokens)


@dataclass(frozen=True)
class PriceList:
    """Prices by provider and pattern of model names; of several matching patterns, the longest counts."""

    currency: str
    as_of: dt.date
    prices: Mapping[str, Mapping[str, Price]]

    def find(self, provider: str, model: str) -> Price | None:
        """Return the price of a model; None if the list does not have it."""
        fitting = [pattern for pattern in self.prices.get(provider, {}) if fnmatchcase(model, pattern)]
        return self.prices[provider][max(fitting, key=len)] if fitting else None


_PRICES: Final = TypeAdapter(dict[str, dict[str, Price]])


def load_prices(path: str = "") -> PriceList:
    """Load the shipped list, overridden by a file's entries; a file in another currency replaces it.

    Raises UsageError naming the file and the problem.
    """
    file = Path(path).expanduser() if path else None
    try:
        return _load_cached(file, None if file is None else file.stat().st_mtime_ns)
    except OSError as error:
        raise UsageError(f"SHUFFLEBOARD_PRICES={path}: cannot be read ({error.strerror}); check the path") from None


@lru_cache(maxsize=4)
def _load_cached(file: Path | None, _changed: int | None) -> PriceList:
    shipped = _read(SHIPPED)
    if file is None:
        return shipped
    override = _read(file)
    if override.currency != shipped.currency:  # a list has one currency
        return override
    joined = {
        provider: {
            **{
                pattern: price
                for pattern, price in shipped.prices.get(provider, {}).items()
                if not any(fnmatchcase(pattern, other) for other in override.prices.get(provider, {}))
            },
            **override.prices.get(provider, {}),
        }
        for provider in (*shipped.prices, *override.prices)
    }
    return PriceList(override.currency, override.as_of, joined)


def _read(file: Path) -> PriceList:
    try:
        document: dict[str, Any] = read_toml(file)
    except IngestError as error:
        raise UsageError(f"SHUFFLEBOARD_PRICES: {error}") from None
    as_of, currency = document.pop("as_of", None), document.pop("currency", None)
    if not isinstance(as_of, dt.date) or not isinstance(currency, str):
        raise UsageError(
            f"SHUFFLEBOARD_PRICES={file}: needs as_of, the date of the prices, and currency; begin it with as_of = "
            '2026-11-22 and currency = "USD"'
        )
    try:
        return PriceList(currency, as_of, _PRICES.validate_python(document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"SHUFFLEBOARD_PRICES={file}: {place}: {first['msg']}; correct the file") from None
