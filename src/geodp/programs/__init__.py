"""Generators of requests: what needs several looks at the records."""
