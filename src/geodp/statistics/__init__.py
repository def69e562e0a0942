"""Summaries of records: deterministic, each with a bound on how far one record can move it."""
