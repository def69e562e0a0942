"""Notions of privacy, the cost of a release, and budgets that add up costs."""
