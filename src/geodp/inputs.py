"""Arrays and numbers as callers give them: their types, and one sentence about what cannot be used."""

from __future__ import annotations

import operator
import reprlib
import sys
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Unit of the rounding bounds.
EPSILON = float(np.finfo(np.float64).eps)

#: Lengths that callers may give: radii, sensitivities, errors to reach. Squares of lengths ``EPSILON`` times as long are still
#: floats of full precision, and sums of the squares of 2^63 lengths are not infinite.
SHORTEST, LONGEST = 1e-100, 1e100


def whole_number(value: Any, least: int, what: str) -> int:
    """``value`` as an ``int`` that is at least ``least``, or a sentence."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number but is {value!r}") from None
    if number < least:
        raise ValueError(f"{what} must be at least {least} but is {number}")
    return number


def real_number(value: Any, what: str) -> float:
    """A public number as a ``float``, or a sentence."""
    try:
        # NumPy would take an array of one number for that number, with a warning
        return float(cast(Any, None) if np.ndim(value) else value)
    except OverflowError:
        raise ValueError(f"{what} is too large, past what floats hold") from None
    except ValueError:
        raise ValueError(f"{what} must be a number but is {reprlib.repr(value)}") from None
    except TypeError:
        raise TypeError(f"{what} must be a number but is of type {type(value).__name__}") from None


def moderate_length(value: float, what: str, shortest: float = SHORTEST) -> float:
    """A public length whose square floats can hold, or a sentence.

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
    """NumPy drops the mask of an array without a word when it is read as an ordinary one."""
    masked = sys.modules.get("numpy.ma")  # which takes a while to import, and without which there is no masked array
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, and what lies under its mask must not be read: fill it first, such as with "
            "numpy.ma.filled(x, numpy.nan)"
        )
