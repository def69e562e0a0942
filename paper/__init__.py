"""The experiments and theorems of Reimherr, Bharath and Soto (2021), run again: ``python -m paper``."""
