"""The closed-form eigen-decompositions of small symmetric matrices, against LAPACK and against forty digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp

from geodp.manifolds.small_eigen import eigh, eigvalsh

EPS = float(np.finfo(np.float64).eps)
#: LAPACK promises a modest multiple of the machine epsilon times the norm; for these sizes this is a strict reading.
BOUND = 16 * EPS
SIZES = [1, 2, 3, 4]
COUNT = 300


def orthogonal(rng, size, k):
    return np.linalg.qr(rng.normal(size=(size, k, k)))[0]


def symmetric(x):
    return 0.5 * (x + np.swapaxes(x, -1, -2))


def with_values(rng, values):
    axes = orthogonal(rng, *values.shape)
    return symmetric((axes * values[:, None, :]) @ np.swapaxes(axes, -1, -2))


def gaussian(rng, k):
    return symmetric(rng.normal(size=(COUNT, k, k)))


def nearly_equal(rng, k):
    """All eigenvalues near one another: gaps of every order of magnitude."""
    gaps = 10.0 ** rng.uniform(-16.0, 0.0, size=(COUNT, 1))
    return with_values(rng, rng.choice([-1.0, 1.0], size=(COUNT, 1)) + gaps * rng.normal(size=(COUNT, k)))


def nearly_equal_pair(rng, k):
    """Two eigenvalues near one another, the others apart."""
    values = rng.normal(size=(COUNT, k))
    values[:, 0] = values[:, -1] + 10.0 ** rng.uniform(-16.0, 0.0, size=COUNT)
    return with_values(rng, values)


def exactly_equal(rng, k):
    return rng.normal(size=(COUNT, 1, 1)) * np.eye(k)


def equal_pair(rng, k):
    """Permuted diagonal matrices with an eigenvalue that occurs twice, to the last bit."""
    values = rng.normal(size=(COUNT, k))
    values[:, 0] = values[:, -1]
    return rng.permuted(values, axis=-1)[:, :, None] * np.eye(k)


def diagonal(rng, k):
    return rng.normal(size=(COUNT, k))[:, :, None] * np.eye(k)


def nearly_diagonal(rng, k):
    return diagonal(rng, k) + 10.0 ** rng.uniform(-300.0, 0.0, size=(COUNT, 1, 1)) * gaussian(rng, k)


def rank_one(rng, k):
    x = rng.normal(size=(COUNT, k))
    return x[:, :, None] * x[:, None, :]


def integers(rng, k):
    return symmetric(2 * rng.integers(-2, 3, size=(COUNT, k, k)).astype(float))


def zero(rng, k):
    return np.zeros((COUNT, k, k))


def ill_conditioned(rng, k):
    return with_values(rng, 10.0 ** rng.uniform(-12.0, 0.0, size=(COUNT, k)))


def graded(rng, k):
    """Rows and columns of very different size."""
    scales = 10.0 ** rng.uniform(-8.0, 8.0, size=(COUNT, k))
    return scales[:, :, None] * gaussian(rng, k) * scales[:, None, :]


def opposite(rng, k):
    """Traceless, with spectrum symmetric about zero: neither the largest nor the smallest eigenvalue stands alone."""
    values = rng.normal(size=(COUNT, k))
    return with_values(rng, values - values[:, ::-1])


def everything(rng, k):
    """All of these in one batch, shuffled: every matrix must be handled by itself."""
    return rng.permutation(np.concatenate([family(rng, k) for family in FAMILIES[:-1]]))


FAMILIES = [
    gaussian,
    nearly_equal,
    nearly_equal_pair,
    exactly_equal,
    equal_pair,
    diagonal,
    nearly_diagonal,
    rank_one,
    integers,
    zero,
    ill_conditioned,
    graded,
    opposite,
    everything,
]
SCALES = [1.0, 1e-200, 1e200]

over_families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
over_sizes = pytest.mark.parametrize("k", SIZES)


def matrices(family, k):
    return family(np.random.default_rng([k, *family.__name__.encode()]), k)


def largest_entry(x):
    return np.abs(x).max(axis=(-2, -1))


@over_families
@over_sizes
def test_vectors_and_values_give_the_matrix_back(k, family):
    a = matrices(family, k)
    for scale in SCALES:
        values, vectors = eigh(scale * a)
        values = values / scale  # back to a range where products neither overflow nor vanish
        residual = a - (vectors * values[:, None, :]) @ np.swapaxes(vectors, -1, -2)
        assert (largest_entry(residual) <= BOUND * np.linalg.norm(a, axis=(-2, -1))).all()


@over_families
@over_sizes
def test_vectors_are_orthonormal(k, family):
    for scale in SCALES:
        _, vectors = eigh(scale * matrices(family, k))
        assert (largest_entry(np.swapaxes(vectors, -1, -2) @ vectors - np.eye(k)) <= BOUND).all()


@over_families
@over_sizes
def test_values_are_ascending_and_agree_with_lapack(k, family):
    a = matrices(family, k)
    for scale in SCALES:
        values, _ = eigh(scale * a)
        assert (np.diff(values, axis=-1) >= 0.0).all()
        off = np.abs(values / scale - np.linalg.eigvalsh(a)).max(axis=-1)
        assert (off <= 2 * BOUND * np.linalg.norm(a, axis=(-2, -1))).all()  # LAPACK's error and ours
        assert np.array_equal(eigvalsh(scale * a), values) or k > 3


@over_families
@over_sizes
def test_values_agree_with_forty_digits(k, family):
    a = matrices(family, k)[:25]
    values, _ = eigh(a)
    with mpmath.workdps(40):
        for matrix, found in zip(a, values, strict=True):
            exact = sorted(mp.eigsy(mp.matrix(matrix.tolist()), eigvals_only=True))
            off = max(abs(mp.mpf(float(x)) - y) for x, y in zip(found, exact, strict=True))
            assert off <= BOUND * np.linalg.norm(matrix)


@over_families
@over_sizes
def test_each_vector_belongs_to_its_value_in_forty_digits(k, family):
    a = matrices(family, k)[:25]
    values, vectors = eigh(a)
    with mpmath.workdps(40):
        for matrix, found, frame in zip(a, values, vectors, strict=True):
            exact, columns = mp.matrix(matrix.tolist()), mp.matrix(frame.tolist())
            for j in range(k):
                residual = exact * columns[:, j] - mp.mpf(float(found[j])) * columns[:, j]
                assert mp.norm(residual) <= BOUND * np.linalg.norm(matrix)


@over_families
@over_sizes
def test_a_batch_equals_a_loop_to_the_last_bit(k, family):
    for scale in SCALES:
        a = scale * matrices(family, k)
        values, vectors = eigh(a)
        for i in range(0, len(a), 10):
            one_values, one_vectors = eigh(a[i])
            assert np.array_equal(values[i], one_values)
            assert np.array_equal(vectors[i], one_vectors)


@over_sizes
def test_leading_axes_of_any_number_are_kept(k):
    a = matrices(gaussian, k)
    values, vectors = eigh(a)
    for shape in [(COUNT,), (2, COUNT // 2), (5, 2, COUNT // 10)]:
        shaped_values, shaped_vectors = eigh(a.reshape(*shape, k, k))
        assert np.array_equal(shaped_values, values.reshape(*shape, k))
        assert np.array_equal(shaped_vectors, vectors.reshape(*shape, k, k))
    empty_values, empty_vectors = eigh(np.empty((0, k, k)))
    assert empty_values.shape == (0, k)
    assert empty_vectors.shape == (0, k, k)


@over_sizes
def test_the_input_is_left_alone(k):
    a = matrices(everything, k)
    before = a.copy()
    eigh(a)
    assert np.array_equal(a, before)


@over_sizes
def test_a_batch_larger_than_a_chunk_equals_its_parts(k):
    a = np.random.default_rng(k).normal(size=(10_000, k, k))
    a = symmetric(a)
    values, vectors = eigh(a)
    for part in (slice(0, 3333), slice(3333, 9999), slice(9999, None)):
        part_values, part_vectors = eigh(a[part])
        assert np.array_equal(values[part], part_values)
        assert np.array_equal(vectors[part], part_vectors)
