"""Exponentials and binary logarithms that have the same bits on every machine.

`math.exp` and `math.log2` are the C library's, whose last bit may differ between processors and releases. These are
computed in pairs of float64 (a sum of two, about 105 bits) by additions, products and quotients alone, which IEEE 754
defines to the last bit, and rounded once. Each operation is a ufunc of its own, so no compiler fuses two of them.
Source of the sums and products of pairs: Dekker, A floating-point technique for extending the available precision,
1971; Knuth, The Art of Computer Programming, volume 2, 4.2.2.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[Array, Array]

_LN2: Final = (float.fromhex("0x1.62e42fefap-1"), float.fromhex("0x1.cf79abc9e3b39p-40"))
"""ln 2 as a number of 37 bits, whose products with an exponent are exact, and what is left of it."""
_HALVINGS: Final = 5
_DEGREE: Final = 13
_FEW: Final = 3
_ERROR: Final = 2.0**-62
"""Some hundred times what the terms that are not computed in pairs are off by."""
_SPLIT: Final = 134217729.0
_BLOCK: Final = 4096
"""Values whose pairs are computed at a time."""


def exponentials(values: Array) -> Array:
    """Each value's exponential. values: from -700 to 700; NaN for the others."""
    return _in_blocks(values, np.abs(values) <= 700, _exponentials)


def binary_logarithms(values: Array) -> Array:
    """Each value's logarithm to base 2. values: above 1e-300, below 1e300; NaN for the others."""
    return _in_blocks(values, (values > 1e-300) & (values < 1e300), _binary_logarithms)


def _in_blocks(values: Array, allowed: NDArray[np.bool_], function: Callable[[Array], Array]) -> Array:
    """A function of the values that are allowed, so many at a time that they stay in the processor's cache."""
    given = values[allowed]
    found = np.full(values.shape, np.nan)
    parts = [function(given[start : start + _BLOCK]) for start in range(0, len(given), _BLOCK)]
    found[allowed] = np.concatenate(parts) if parts else given
    return found


def _exponentials(given: Array) -> Array:
    def pair(values: Array, terms: int) -> Pair:
        return _exp(values, np.zeros_like(values), terms)

    return _rounded(given, pair, np.abs)


def _binary_logarithms(given: Array) -> Array:
    def pair(values: Array, terms: int) -> Pair:
        first = np.log2(values)
        # log2 x = y + log2(x / 2^y), whose second term is so small that its own error does not count.
        high, low = _exp(*_times(first, *(np.full_like(first, part) for part in (sum(_LN2), _REST))), terms)
        return first, ((values - high) - low) / high / sum(_LN2)

    return _rounded(given, pair, np.ones_like)


def _rounded(values: Array, pair: Callable[[Array, int], Pair], size: Callable[[Array], Array]) -> Array:
    """The float64 nearest to a pair. pair: of values, with so many terms of a series computed in pairs.

    With few terms the pair is off by less than _ERROR times its size; where that could change the last bit, all terms
    are computed in pairs.
    """
    high, low = pair(values, _FEW)
    error = _ERROR * size(high)
    found = high + (low - error)
    doubtful = found != high + (low + error)
    if doubtful.any():
        found[doubtful] = np.add(*pair(values[doubtful], _DEGREE))
    return found


_REST: Final = (_LN2[0] - sum(_LN2)) + _LN2[1]
"""What float64 leaves of ln 2."""


def _sum(a: Array, b: Array) -> Pair:
    """A + b and its rounding error."""
    total = a + b
    kept = total - a
    return total, (a - (total - kept)) + (b - kept)


def _product(a: Array, b: Array) -> Pair:
    """A × b and its rounding error."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Array) -> Pair:
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high


def _plus(one: Pair, other: Pair) -> Pair:
    high, low = _sum(one[0], other[0])
    return _sum(high, low + (one[1] + other[1]))


def _times(a: Array, high: Array, low: Array) -> Pair:
    product, error = _product(a, high)
    return _sum(product, error + a * low)


def _multiplied(one: Pair, other: Pair) -> Pair:
    product, error = _product(one[0], other[0])
    return _sum(product, error + (one[0] * other[1] + one[1] * other[0]))


def _divided(pair: Pair, number: float) -> Pair:
    quotient = pair[0] / number
    product, error = _product(quotient, np.full_like(quotient, number))
    return _sum(quotient, ((pair[0] - product) - error + pair[1]) / number)


def _exp(high: Array, low: Array, terms: int) -> Pair:
    """The exponential of a pair: of its remainder by ln 2, divided by 32, by Taylor's series of e^x - 1.

    terms: so many of the series, the first, are computed in pairs.
    """
    power = np.rint((high + low) / sum(_LN2))
    rest = _plus(_sum(high, -power * _LN2[0]), (low, np.zeros_like(low)))
    product, error = _product(power, np.full_like(power, _LN2[1]))
    small = _divided(_plus(rest, (-product, -error)), 2.0**_HALVINGS)
    one = (np.ones_like(high), np.zeros_like(high))
    rest_of_series = np.ones_like(high)
    for number in range(_DEGREE, terms, -1):
        rest_of_series = 1.0 + small[0] * rest_of_series / number
    series = (rest_of_series, np.zeros_like(high))
    for number in range(terms, 1, -1):
        series = _plus(one, _divided(_multiplied(small, series), float(number)))
    found = _multiplied(small, series)
    for _ in range(_HALVINGS):  # (1 + s)² - 1 = 2s + s²
        found = _plus((2 * found[0], 2 * found[1]), _multiplied(found, found))
    high, low = _plus(one, found)
    scale = power.astype(np.int64)
    return np.ldexp(high, scale), np.ldexp(low, scale)
