"""Seeded bytes in place of the operating system's entropy, for the library alone.

Everything that asks the system for entropy does so through ``os.urandom`` or, in :mod:`random` and :mod:`secrets`, through the
name under which :mod:`random` imported it. Both are replaced. Bytes go to a caller in the library from a seeded stream, in the
order in which they are asked for, however many at a time; everyone else (names of temporary files, tokens of Dask) gets those of
the system. NumPy seeds its generators through a function of :mod:`secrets` that it keeps for itself: it keeps the original.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy.random.bit_generator

_system = os.urandom
_unseeded = random.Random()
#: Modules between a caller and the system.
_BETWEEN = ("random", "secrets", __name__)


class Stream:
    """The bytes of a seed, from the first on. Counts those that are read, by what ``state`` is at the time."""

    def __init__(self, seed: str, state: Callable[[], str]) -> None:
        self._seed, self._blocks, self._left = seed, 0, b""
        self._state, self.read = state, Counter[str]()

    def take(self, count: int) -> bytes:
        while len(self._left) < count:
            self._left += hashlib.sha512(f"{self._seed}/{self._blocks}".encode()).digest()
            self._blocks += 1
        taken, self._left = self._left[:count], self._left[count:]
        self.read[self._state()] += count
        return taken


_stream: Stream | None = None


def _bytes(count: int, flags: int = 0) -> bytes:
    if _stream is None or not _asked_by_the_library():
        return _system(count)
    return _stream.take(count)


def _asked_by_the_library() -> bool:
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "geodp"


def install() -> None:
    """Replaces the entropy of this process. To be called before the library is imported, which may import the names."""
    os.urandom = random._urandom = _bytes
    os.getrandom = _bytes
    numpy.random.bit_generator.randbits = _unseeded.getrandbits


@contextmanager
def seeded(seed: str, state: Callable[[], str]) -> Iterator[Stream]:
    """The library reads the stream of this seed."""
    global _stream
    _stream = Stream(seed, state)
    try:
        yield _stream
    finally:
        _stream = None
