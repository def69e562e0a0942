"""Noise on manifolds: laws that depend on the distance from a centre, and exact draws from them."""

from geodp.laws.families import Gaussian, Laplace

__all__ = ["Gaussian", "Laplace"]
