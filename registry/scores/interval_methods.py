"""Names of methods of intervals that other modules compare, without the libraries that compute them."""

from typing import Final

UPPER_BOUND: Final = "exact binomial upper bound of order and chance loss"
