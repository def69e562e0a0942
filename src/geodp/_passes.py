"""One pass over records: the sum of their logarithms at a point, and what the solver needs beside it.

An evaluator knows how to do this for one manifold. The general one calls the manifold's own maps; the others do the same
arithmetic with less memory traffic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geodp.ball import Ball
from geodp.manifolds._functions import Array, _two_sum
from geodp.manifolds.manifold import Manifold


@dataclass(frozen=True)
class Pass:
    """Sums over records ``x_i`` with weights ``w_i``, at a point ``p``, with ``v_i = log_p(x_i)``.

    Within blocks of at most :data:`BLOCK` records sums are plain, so that their relative error is ``BLOCK`` machine
    epsilons; between blocks they carry their rounding error along.
    """

    BLOCK: ClassVar[int] = 256

    count: int
    log: Array  # sum of w v
    log_low: Array  # what rounding has lost of it
    square: float  # sum of w |v|^2
    length: float  # sum of w |v|
    reach: float  # largest |v|
    hessian: Array  # sum of w times what the evaluator says about the Hessian

    @classmethod
    def zero(cls, manifold: Manifold) -> Pass:
        nothing = np.zeros(manifold.point_shape)
        return cls(0, nothing, nothing, 0.0, 0.0, 0.0, np.zeros(()))

    @classmethod
    def of_blocks(cls, count: int, logs: Array, square: float, length: float, reach: float, hessian: Array) -> Pass:
        """From the sums of logarithms over blocks, ``(blocks, *point_shape)``."""
        high, low = logs[0], np.zeros_like(logs[0])
        for block in logs[1:]:
            high, lost = _two_sum(high, block)
            low = low + lost
        return cls(count, high, low, square, length, reach, hessian)

    def __add__(self, other: Pass) -> Pass:
        high, lost = _two_sum(self.log, other.log)
        return Pass(
            self.count + other.count,
            high,
            self.log_low + other.log_low + lost,
            self.square + other.square,
            self.length + other.length,
            max(self.reach, other.reach),
            self.hessian + other.hessian,
        )


class Evaluator(ABC):
    """How to make a :class:`Pass` on one manifold."""

    def __init__(self, manifold: Manifold) -> None:
        self.manifold = manifold

    @abstractmethod
    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        """The pass at ``p`` over records in the ball."""

    def clip(self, ball: Ball, records: Array, weights: Array | None) -> tuple[Pass, Array]:
        """The pass at the centre over clipped records, and these records: the same array if none had to change."""
        clipped, logs = ball.clip_with_logs(records)
        return self.from_logs(ball.center, logs, weights), clipped

    def step(self, p: Array, gradient: Array, hessian: Array) -> Array:
        """A step to the mean, better than the gradient if the evaluator knows about the Hessian."""
        return gradient

    def rounding(self, p: Array, reach: float) -> float:
        """A bound on the rounding error of each logarithm."""
        return self.manifold.log_rounding(p, reach)

    def from_logs(self, p: Array, logs: Array, weights: Array | None) -> Pass:
        lengths = self.manifold.raw_norm(p, logs)
        w = np.ones(len(logs)) if weights is None else weights
        return Pass.of_blocks(
            len(logs), block_sums(logs, w), float(w @ lengths**2), float(w @ lengths), float(lengths.max()), np.zeros(())
        )


def block_sums(values: Array, weights: Array) -> Array:
    """Weighted sums over blocks of :data:`Pass.BLOCK` records."""
    count, shape = len(values), values.shape[1:]
    padding = -count % Pass.BLOCK
    flat = values.reshape(count, -1)
    if padding:
        flat = np.concatenate([flat, np.zeros((padding, flat.shape[1]))])
        weights = np.concatenate([weights, np.zeros(padding)])
    blocks = weights.reshape(-1, 1, Pass.BLOCK) @ flat.reshape(-1, Pass.BLOCK, flat.shape[1])
    return blocks.reshape(-1, *shape)


class GeneralEvaluator(Evaluator):
    """Logarithms by the manifold's own ``raw_log``."""

    def evaluate(self, p: Array, records: Array, weights: Array | None) -> Pass:
        return self.from_logs(p, self.manifold.raw_log(p, records), weights)


def best_evaluator(manifold: Manifold, count: int | None) -> Evaluator:
    """The fastest evaluator for so many records (``None``: unknown) of a manifold."""
    return GeneralEvaluator(manifold)
