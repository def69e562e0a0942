"""Exact real numbers: intervals that enclose them, and random ones that reveal their bits on demand."""
