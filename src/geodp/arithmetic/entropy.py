"""Random real numbers that reveal their bits on demand."""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import final

from flint import arb, ctx


class Entropy(ABC):
    """A supply of numbered streams, each an infinite string of fair bits that is independent of all the others.

    A reader opens a stream and reads it from its first bit, each bit once, in pieces of any length.
    """

    @abstractmethod
    def open(self) -> int:
        """The number of a new stream, of which nothing has been read."""

    @abstractmethod
    def read(self, stream: int, start: int, count: int) -> int:
        """The bits ``start, ..., start + count - 1`` of a stream, as a number; the first bit is the highest."""


@final
class OperatingSystem(Entropy):
    """The operating system's cryptographic generator, the only source that is safe for a release.

    Its bits are independent and fair for everyone who cannot break that generator. In this sense, and in no other,
    the privacy of a release is computational. Nothing is buffered, so a forked process never repeats the bits of its
    parent.
    """

    def open(self) -> int:
        return 0

    def read(self, stream: int, start: int, count: int) -> int:
        return secrets.randbits(count)


@final
class NotPrivate(Entropy):
    """Reproducible bits from a seed, for tests and simulations. Anyone who knows the seed can remove the noise.

    ``forced`` sets the first bits of chosen streams (a string of 0 and 1), so that a test can hit a rare case.

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
    """A real number uniform on (0, 1), whose binary digits are the bits of one stream.

    Revealed bits are kept, so that a computation can be repeated with more digits of the *same* number.
    """

    __slots__ = ("_count", "_entropy", "_revealed", "_stream")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy, self._stream = entropy, entropy.open()
        self._revealed, self._count = 0, 0

    def ball(self, bits: int) -> arb:
        """The interval of all numbers with these first ``bits`` bits (or more, if more are known)."""
        missing = bits - self._count
        if missing > 0:
            self._revealed = (self._revealed << missing) | self._entropy.read(self._stream, self._count, missing)
            self._count = bits
        last, rest = _last_bit(self._count)
        return arb(self._revealed) * last + rest


@lru_cache(maxsize=64)
def _last_bit(count: int) -> tuple[arb, arb]:
    """``2^-count``, and the interval from 0 to it: the bits after it may add that much."""
    return arb((1, -count)), arb((1, -count - 1), (1, -count - 1))


@final
class Tape:
    """The uniform numbers that one trial uses, in order. After ``rewind`` it gives the same numbers with more digits."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._numbers: list[Uniform] = []
        self._next = 0

    def rewind(self) -> None:
        self._next = 0

    def uniform(self) -> arb:
        """The next number, to the working precision."""
        if self._next == len(self._numbers):
            self._numbers.append(Uniform(self._entropy))
        self._next += 1
        return self._numbers[self._next - 1].ball(ctx.prec)
