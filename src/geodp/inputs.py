"""Reading arrays and numbers from callers: types, and one-sentence errors for unusable input."""

from __future__ import annotations

import operator
import reprlib
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: The unit of rounding bounds: the spacing of floats at 1.
EPSILON = float(np.finfo(np.float64).eps)

#: The range of lengths that callers may give: radii, sensitivities, target errors. Squares of lengths ``EPSILON`` times as long
#: still have full precision, and the sum of the squares of 2^63 lengths does not overflow.
SHORTEST, LONGEST = 1e-100, 1e100


#: Counts and sizes that callers give are at most this: floats hold them, and so do 64 bits.
MOST = 2**63


def whole_number(value: Any, least: int, what: str, most: float = MOST) -> int:
    """``value`` as an ``int`` between ``least`` and ``most``, or a sentence.

    >>> whole_number(10**400, 1, "the number of records n")
    Traceback (most recent call last):
        ...
    ValueError: the number of records n must be at most 2^63
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number but is {value!r}") from None
    if number > most:
        raise ValueError(f"{what} must be at most 2^63")
    if number < least:
        raise ValueError(f"{what} must be at least {least}" + (f" but is {number}" if number >= -MOST else ""))
    return number


def real_number(value: Any, what: str) -> float:
    """A public number as a ``float``; raises if it is not a number or does not fit."""
    try:
        # NumPy would convert an array of one number to that number, with a warning
        return float(cast(Any, None) if np.ndim(value) else value)
    except OverflowError:
        raise ValueError(f"{what} is too large for a float") from None
    except ValueError:
        raise ValueError(f"{what} must be a number but is {reprlib.repr(value)}") from None
    except TypeError:
        raise TypeError(f"{what} must be a number but is of type {type(value).__name__}") from None


def moderate_length(value: float, what: str, shortest: float = SHORTEST) -> float:
    """A public length; raises if its square would overflow or underflow.

    >>> moderate_length(1e-161, "the radius")
    Traceback (most recent call last):
        ...
    ValueError: the radius must be between 1e-100 and 1e+100 but is 1e-161: floats lose the squares of other lengths, choose ...
    """
    if not shortest <= value <= LONGEST:
        raise ValueError(
            f"{what} must be between {shortest:g} and {LONGEST:g} but is {value:g}: floats lose the squares of other lengths, "
            "choose other units"
        )
    return value


def is_line(value: Any) -> bool:
    """Whether this is one printable line of text."""
    return isinstance(value, str) and value != "" and value.isprintable()


def refuse_mask(x: Any, name: str) -> None:
    """Raises for masked arrays, because NumPy silently drops the mask when it converts them."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, and masked entries must not be read: fill it first, such as with "
            "numpy.ma.filled(x, numpy.nan)"
        )
