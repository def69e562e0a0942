"""Amounts of privacy as exact decimals, which a ledger adds up."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from numbers import Integral
from typing import TypedDict, Unpack, cast, final

from geodp.privacy.notions import ApproximateDP, Privacy, privacy_of

#: A number as callers may write it.
Number = int | float | str | Decimal


class Numbers(TypedDict, total=False):
    """An amount of privacy as callers write it, in exactly one notion."""

    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    mu: Number | None


#: Digits an amount may have after the point.
PLACES = 30
#: The largest amount.
LARGEST = Decimal(10**9)
# any float to 30 places has fewer digits; if that were ever wrong, Inexact would raise, so nothing is rounded silently
_EXACT = Context(prec=400, traps=[Inexact, InvalidOperation])
_ROUNDED = Context(prec=400, traps=[InvalidOperation])
_STEP = Decimal(1).scaleb(-PLACES)


def exact_number(value: Number, name: str) -> Decimal:
    """The decimal number that a ledger charges for a positive number called ``name``. A float is read as its shortest decimal.

    >>> exact_number(0.1, "epsilon"), exact_number("1e-3", "rho"), exact_number(2, "mu")
    (Decimal('0.1'), Decimal('0.001'), Decimal('2'))
    """
    number = _decimal(value, name)
    if name == "delta" and number.is_finite() and not 0 < number < 1:
        ApproximateDP(1.0, float(number))  # raises the error for a delta out of range
    if not number.is_finite() or number <= 0:
        raise ValueError(f"{name} must be positive and finite but is {number:.12g}")
    if number > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST} but is {number:.12g}")
    try:
        number = _EXACT.quantize(number, _STEP)
    except Inexact:
        message = f"{name} may have {PLACES} digits after the point but {number:.12g} has more: round it first"
        raise ValueError(message) from None
    return canonical(number)


def _decimal(value: object, name: str) -> Decimal:
    match value:
        case bool():
            pass
        case Decimal():
            return value
        case float():
            return Decimal(repr(float(value)))
        case Integral():
            return Decimal(int(value))
        case str():
            try:
                return Decimal(value, _EXACT)
            except InvalidOperation:
                raise ValueError(f"{name} must be a number but is {reprlib.repr(value)}") from None
    raise TypeError(f"{name} must be an int, a float, a str or a Decimal but is of type {type(value).__name__}")


def canonical(value: Decimal) -> Decimal:
    """The same number in its usual form: 0.5 for 0.50, and 1000 for 1E+3."""
    return Decimal(format(_EXACT.normalize(value), "f"))


def decimal_above(value: float) -> Decimal:
    """The smallest amount that is at least a positive float.

    >>> decimal_above(0.1), decimal_above(1e-40)
    (Decimal('0.100000000000000005551115123126'), Decimal('1E-30'))
    """
    return canonical(Decimal(value).quantize(_STEP, ROUND_CEILING, _ROUNDED))


def decimal_below(value: float, digits: int = 12) -> Decimal:
    """An amount with ``digits`` significant digits that is at most a positive float; zero if there is none."""
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(value))
    return canonical(rounded.quantize(_STEP, ROUND_FLOOR, _ROUNDED))


def float_above(value: Decimal) -> float:
    """The smallest float that is at least a decimal."""
    near = float(value)
    return near if Decimal(near) >= value else math.nextafter(near, math.inf)


def float_below(value: Decimal) -> float:
    """The largest float that is at most a decimal."""
    near = float(value)
    return near if Decimal(near) <= value else math.nextafter(near, -math.inf)


def shown(value: Decimal, digits: int = 12, rounding: str = ROUND_FLOOR) -> str:
    """A number for a message: all of its digits if they are few, else the first ``digits``, by default rounded down."""
    return str(canonical(Context(prec=digits, rounding=rounding).plus(value)))


def shown_above(value: Decimal, digits: int = 12) -> str:
    """Like :func:`shown`, rounded up."""
    return shown(value, digits, ROUND_CEILING)


# ---------------------------------------------------------------------- sums


def in_steps(value: Decimal) -> int:
    """An amount as a whole number of steps of ``10**-30``. Integers add and multiply exactly in any decimal context."""
    return int(_EXACT.scaleb(value, PLACES))


def root(steps: int, power: int, *, up: bool = False) -> Decimal:
    """The amount whose power (1 or 2) is ``steps``: exact for 1; for 2 rounded down, or with ``up`` rounded up."""
    found = steps if power == 1 else math.isqrt(steps)
    if up and found**power < steps:
        found += 1
    return canonical(_EXACT.scaleb(Decimal(found), -PLACES))


# ---------------------------------------------------------------------- amounts


@final
@dataclass(frozen=True)
class Amount:
    """Some of the four numbers of privacy, in exact decimals; the others are None."""

    epsilon: Decimal | None = None
    delta: Decimal | None = None
    rho: Decimal | None = None
    mu: Decimal | None = None

    @property
    def numbers(self) -> dict[str, Decimal]:
        """The given numbers, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def privacy(self) -> Privacy:
        """The notion and the nearest floats."""
        return privacy_of(**{name: float(value) for name, value in self.numbers.items()})

    @property
    def privacy_above(self) -> Privacy:
        """The notion and floats that promise no more privacy than the decimals."""
        return privacy_of(**{name: float_above(value) for name, value in self.numbers.items()})

    def __str__(self) -> str:
        return " and ".join(f"{name} {float(value):g}" for name, value in self.numbers.items())


def amount_of(**numbers: Unpack[Numbers]) -> Amount:
    """The exact amount of privacy for the given numbers, in exactly one notion.

    >>> amount_of(epsilon="0.10", delta=1e-6).numbers
    {'epsilon': Decimal('0.1'), 'delta': Decimal('0.000001')}
    >>> amount_of(rho=0.1, mu=1)
    Traceback (most recent call last):
        ...
    ValueError: give exactly one of epsilon, epsilon and delta, rho, or mu: given were rho and mu
    """
    given = cast("dict[str, Number | None]", numbers)
    amount = Amount(**{name: exact_number(value, name) for name, value in given.items() if value is not None})
    _ = amount.privacy  # raises unless the numbers are those of one of the four notions
    return amount
