"""Bridges to other libraries. Each needs its own extra, and importing ``geodp`` imports none of them."""
