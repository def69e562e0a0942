"""Privacy: what it can mean, what a release costs, and the budget that keeps the sum."""
