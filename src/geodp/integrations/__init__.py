"""Bridges to other people's tools. Each needs its own extra, and importing ``geodp`` imports none of them."""
