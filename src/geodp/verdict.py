"""One line on what an error means, compared with what was known before and with how much the records vary.

Everything here is computed from public numbers and from releases.
"""

from __future__ import annotations

import math
from typing import Any

#: A word for an error that with probability 95% is at most this fraction of the radius of the ball.
WORDS = ((0.05, "precise"), (0.3, "fair"), (1.0, "coarse"))

SAYS_NOTHING = "this release says nothing about the data: its likely error exceeds the radius of the ball"


def verdict(expected: float, error_95: float, radius: float, known: str = "the radius of the ball") -> str:
    """A word and a number for the error of a release whose value was already known to be within ``radius``.

    >>> verdict(0.01, 0.02, 1.0)
    'precise: the 95% error is 2% of the radius of the ball'
    >>> verdict(0.7, 1.2, 1.0)
    'next to nothing: the 95% error is as large as the ball'
    """
    if expected > radius:
        return SAYS_NOTHING
    for most, word in WORDS:
        if error_95 < most * radius:
            return f"{word}: the 95% error is {percent(error_95 / radius)} of {known}"
    return "next to nothing: the 95% error is as large as the ball"


def says_nothing(noise: Any, ball: Any) -> bool:
    """Whether a release with this noise is likely to say no more than the centre of the public ball that holds its value."""
    return ball is not None and bool(noise.likely_error() > ball.radius)


def against_spread(expected: float, deviation: float, n: int, unit: str = "record") -> str:
    """An error compared with the standard deviation of ``n`` records or persons, and with their sampling error.

    The mean of ``n`` independent records of a population is about ``deviation/sqrt(n)`` from that of the population.

    >>> against_spread(0.01, 0.3, 900)
    'on average noise errs 3.3% of the standard deviation of the records, as much as sampling 900 of them'
    """
    if not deviation > 0.0 or n < 1:
        return "the released spread is zero, so the error cannot be compared with it"
    times = expected / (deviation / math.sqrt(n))
    much = "as much as" if 0.95 <= times <= 1.05 else f"{times:.2g} times as much as"
    part = f"on average noise errs {percent(expected / deviation)} of the standard deviation of the {unit}s"
    return f"{part}, {much} sampling {n} of them"


def percent(ratio: float) -> str:
    """A ratio in percent, two digits.

    >>> percent(0.0333), percent(1.5), percent(0.0000123)
    ('3.3%', '150%', '0.0012%')
    """
    return f"{100.0 * ratio:.0f}%" if ratio >= 0.1 else f"{100.0 * ratio:.2g}%"
