"""Names of interval methods for modules that compare them without importing the libraries that compute intervals."""

from typing import Final

UPPER_BOUND: Final = "exact binomial upper bound of order and chance loss"
