"""Noise: laws on manifolds and exact draws from them, and how much noise hides a value for an amount of privacy."""
