"""Side-by-side timings: every row is a ratio of two things measured in the same run."""
