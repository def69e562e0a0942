"""Random real numbers that reveal their bits on demand."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import final

from flint import arb, ctx


class Entropy(ABC):
    """A supply of numbered streams, each an infinite string of fair bits that is independent of all the others.

    A reader opens a stream and reads it from its first bit on, every bit once, in pieces of any length.
    """

    @abstractmethod
    def open(self) -> int:
        """The number of a stream that nobody has read from."""

    @abstractmethod
    def read(self, stream: int, start: int, count: int) -> int:
        """The bits ``start, ..., start + count - 1`` of a stream, as a number; the first bit is the highest."""


@final
class OperatingSystem(Entropy):
    """The operating system's cryptographic generator, the only source fit for a release.

    Its bits are independent and fair for everyone who cannot break that generator: in this sense, and in no other,
    the privacy of a release is computational. Nothing is buffered, so that a forked process never repeats its
    parent.
    """

    def open(self) -> int:
        return 0

    def read(self, stream: int, start: int, count: int) -> int:
        return int.from_bytes(os.urandom((count + 7) // 8)) >> (-count % 8)


@final
class NotPrivate(Entropy):
    """Reproducible bits from a seed, for tests and simulations: whoever knows the seed can undo the noise.

    ``forced`` gives chosen streams a chosen beginning (a string of 0 and 1), to put a test exactly where it hurts.

    >>> first, again = NotPrivate(5), NotPrivate(5)
    >>> first.read(first.open(), 0, 8) * 256 + first.read(0, 8, 8) == again.read(again.open(), 0, 16)
    True
    """

    def __init__(self, seed: int, forced: Mapping[int, str] | None = None) -> None:
        self._seed = seed
        self._forced = dict(forced or {})
        self._opened = 0

    def open(self) -> int:
        self._opened += 1
        return self._opened - 1

    def read(self, stream: int, start: int, count: int) -> int:
        end = start + count
        digest = hashlib.shake_256(f"{self._seed}/{stream}".encode()).digest((end + 7) // 8)
        bits = int.from_bytes(digest) >> (-end % 8)
        if stream in self._forced:
            chosen = self._forced[stream][:end]
            rest = end - len(chosen)
            bits = (int(chosen, 2) << rest) | (bits & ((1 << rest) - 1))
        return bits & ((1 << count) - 1)


@final
class Uniform:
    """A real number uniform on (0, 1): the infinite binary fraction written by one stream.

    What has been revealed is kept, so that a computation can be repeated with more digits of the *same* number.
    """

    __slots__ = ("_count", "_entropy", "_revealed", "_stream")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy, self._stream = entropy, entropy.open()
        self._revealed, self._count = 0, 0

    def ball(self, bits: int) -> arb:
        """The interval that the first ``bits`` bits (or more, if more are known) confine the number to."""
        missing = bits - self._count
        if missing > 0:
            self._revealed = (self._revealed << missing) | self._entropy.read(self._stream, self._count, missing)
            self._count = bits
        last, rest = _last_bit(self._count)
        return arb(self._revealed) * last + rest


@lru_cache(maxsize=64)
def _last_bit(count: int) -> tuple[arb, arb]:
    """``2^-count``, and all that the bits after it may add: the interval from 0 to that."""
    return arb((1, -count)), arb((1, -count - 1), (1, -count - 1))


@final
class Tape:
    """The uniform numbers one trial uses, in order: rewound, it gives the same numbers again with more digits."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._numbers: list[Uniform] = []
        self._next = 0

    def rewind(self) -> None:
        self._next = 0

    def uniform(self) -> arb:
        """The next number, with as many bits as the working precision has."""
        if self._next == len(self._numbers):
            self._numbers.append(Uniform(self._entropy))
        self._next += 1
        return self._numbers[self._next - 1].ball(ctx.prec)
