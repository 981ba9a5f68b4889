"""Caches results computed from sealed evaluations: their predictions do not change, and some sums take seconds."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

CAPACITY: Final = 512
"""Results that each process caches; the least recently used are dropped first."""

T = TypeVar("T")


class OfSealed(Generic[T]):
    """Results by seal. The result of an unsealed evaluation is computed each time."""

    def __init__(self, capacity: int = CAPACITY, size: Callable[[T], int] = lambda _: 1) -> None:
        """Create an empty cache. capacity: limit of the sum of all results' `size`."""
        self._capacity, self._size = capacity, size
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, seal: str | None, compute: Callable[[], T]) -> T:
        """Return the result of an evaluation with this seal, computing it if it is not cached."""
        if seal is None:
            return compute()
        with self._lock:
            if seal in self._kept:
                self._kept.move_to_end(seal)
                return self._kept[seal]
        computed = compute()
        with self._lock:
            self._kept[seal] = computed
            while len(self._kept) > 1 and sum(map(self._size, self._kept.values())) > self._capacity:
                self._kept.popitem(last=False)
        return computed
