"""One pass over records: the general way, and compiled ways for manifolds where every microsecond counts."""
