"""Releases of every kind, in every notion of privacy, with and without their optional parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geodp import (
    SPD,
    Ball,
    Request,
    Sphere,
    private_average,
    private_ball,
    private_covariance,
    private_coverage,
    private_kmeans,
    private_mean,
    private_median,
    private_projected_mean,
    private_summary,
    private_variance,
)
from geodp.programs.found import InFoundBall
from geodp.statistics.mean import Mean

BALL, WIDE, X = Ball(SPD(2), np.eye(2), 1.0), Ball(SPD(2), np.eye(2), 5.0), np.tile(np.eye(2), (60, 1, 1))
POLES = np.tile([0.0, 0.0, 1.0], (60, 1))
RNG = np.random.default_rng(0)

MADE: dict[str, Callable[[], Any]] = {
    "mean": lambda: private_mean(X, BALL, epsilon=1.0),
    "mean, tangent": lambda: private_mean(X, BALL, epsilon=1.0, delta=1e-6, mechanism="tangent"),
    "mean, Gaussian": lambda: private_mean(X, BALL, rho=0.1, mechanism="tangent", law="gaussian"),
    "mean, simulated": lambda: private_mean(X, BALL, mu=1.0, simulate=RNG),
    "mean, private number and coverage": lambda: private_mean(
        X, BALL, epsilon=1.0, delta=1e-6, coverage=0.1, neighbours="add-remove"
    ),
    "mean, persons": lambda: private_mean(X, BALL, epsilon=1.0, unit=np.repeat(np.arange(30), 2)),
    "mean, latitudes": lambda: private_mean(
        np.tile([50.0, 10.0], (60, 1)), Ball(Sphere(2), [0.0, 0.0, 1.0], 1.0), epsilon=1.0, layout="latlon"
    ),
    "summary": lambda: private_summary([0.0, 0.0, 1.0], Sphere(2), sensitivity=0.1, rho=0.1),
    "coverage": lambda: private_coverage(X, BALL, rho=0.1),
    "average": lambda: private_average(X, SPD(2), epsilon=1.0, bound=3.0),
    "projected mean": lambda: private_projected_mean(POLES, Sphere(2), epsilon=1.0),
    "variance about the centre": lambda: private_variance(X, BALL, mu=0.5),
    "variance": lambda: private_variance(X, BALL, epsilon=1.0, about="mean"),
    "covariance about the centre": lambda: private_covariance(X, BALL, epsilon=1.0),
    "covariance": lambda: private_covariance(X, BALL, epsilon=1.0, delta=1e-6, about="mean"),
    "ball": lambda: private_ball(X, Ball(SPD(2), np.eye(2), 5.0), epsilon=1.0),
    "found": lambda: Request(InFoundBall(WIDE, Mean(WIDE)), epsilon=3.0, coverage=0.1).release(X),
    "found, groups": lambda: Request(InFoundBall(WIDE, Mean(WIDE)), epsilon=3.0, labels="public").release(X, by=[0, 1] * 30),
    "ball, from nothing": lambda: private_ball(POLES, Sphere(2), rho=0.1),
    "ball, private number": lambda: private_ball(X, Ball(SPD(2), np.eye(2), 5.0), epsilon=2.0, neighbours="add-remove"),
    "median": lambda: private_median(X, SPD(2), epsilon=1.0, guaranteed=True),
    "median, from nothing": lambda: private_median(POLES, Sphere(2), rho=0.1, threshold=2.0),
    "clusters": lambda: private_kmeans(X, BALL, 3, epsilon=1.0),
    "clusters, simulated": lambda: private_kmeans(X, BALL, 2, rho=0.1, simulate=RNG),
    "groups": lambda: private_mean(X, BALL, epsilon=1.0, by=["a", "b"] * 30),
    "groups, private labels": lambda: private_variance(X, BALL, rho=0.5, by=[1, 2] * 30, groups=[1, 2], labels="private"),
}
