"""Zeros between two numbers, against zeros that are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from geodp.arithmetic.bracketing import zero_between

AT = 0.7324

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "a line": lambda x: 3.0 * (x - AT),
    "steep": lambda x: math.tanh(40.0 * (x - AT)),
    "exponential": lambda x: math.expm1(9.0 * (x - AT)),
    "flat": lambda x: (x - AT) ** 3,
    "a root": lambda x: math.copysign(abs(x - AT) ** 0.3, x - AT),
    "a step": lambda x: 1.0 if x > AT else -1.0,
    "falling": lambda x: math.exp(-x) - math.exp(-AT),
}


@pytest.mark.parametrize("ends", [(-5.0, 5.0), (5.0, -5.0), (0.0, 1.0), (-1e6, 1e6)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_zero_is_found_in_few_steps(name: str, ends: tuple[float, float]) -> None:
    calls = []

    def watched(x: float) -> float:
        calls.append(x)
        return FUNCTIONS[name](x) if name not in ("exponential", "falling") else FUNCTIONS[name](min(max(x, -50.0), 50.0))

    assert abs(zero_between(watched, *ends, absolute=1e-12) - AT) <= 1e-12
    assert len(calls) <= 3 * 61  # three times what halving would take
    assert all(min(ends) <= x <= max(ends) for x in calls)


def test_a_relative_tolerance_holds_for_tiny_zeros() -> None:
    found = zero_between(lambda x: math.log(max(x, 1e-320) / 3e-200), 0.0, 1.0, absolute=1e-300, relative=1e-11)
    assert abs(found / 3e-200 - 1.0) <= 1e-10


def test_a_zero_at_an_end_is_found_and_none_is_refused() -> None:
    assert zero_between(lambda x: x, -1.0, 0.0, absolute=1e-12) == 0.0
    assert abs(zero_between(lambda x: x, 0.0, 1.0, absolute=1e-12)) <= 1e-12
    with pytest.raises(ValueError, match=r"^the function has the same sign at 1 and 2$"):
        zero_between(lambda x: x, 1.0, 2.0, absolute=1e-12)
