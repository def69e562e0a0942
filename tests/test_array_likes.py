"""Arrays of other makers, wherever records go in: read as the NumPy array they stand for, or refused in one public sentence.

Small classes stand for what cannot be installed everywhere, such as arrays on a graphics card: what they have is what PyTorch,
CuPy and JAX have there. The real packages are tested where they are installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from geodp import SPD, Ball, Dataset, frechet_mean, frechet_means, private_ball, private_mean, private_summary, private_variance
from geodp.estimator import PrivateFrechetMean
from geodp.records.chunks import RecordsError

BALL = Ball(SPD(2), np.eye(2), 2.0)
X = np.array([np.diag(np.exp(u)) for u in np.random.default_rng(0).normal(0.0, 0.4, (40, 2))])
SECRET = "8675309"


class WithArray:
    """NumPy asks it for an array."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array if dtype is None else self.array.astype(dtype)


class WithDLPack:
    """It can be asked by DLPack alone, as arrays of the array API."""

    def __init__(self, array: Any) -> None:
        self.array = np.array(array, dtype=np.float64)
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OnDevice(WithArray):
    """A tensor on a graphics card: DLPack says where it is, and making it an array fails."""

    place: ClassVar[int] = 2

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(f"can't convert {SECRET}")

    def __dlpack__(self, **options: Any) -> Any:
        raise TypeError(f"can't convert {SECRET}")

    def __dlpack_device__(self) -> Any:
        return self.place, 0


class Pinned(WithArray):
    """In the memory of the host, pinned for a graphics card: NumPy can read it."""

    def __dlpack_device__(self) -> Any:
        return 3, 0


class WithCudaInterface:
    """What Numba and CuPy have on a graphics card."""

    def __init__(self, array: Any) -> None:
        self.shape = np.shape(array)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": "<f8", "data": (0, False), "version": 3}


class WithGradient(WithArray):
    requires_grad = True

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise RuntimeError(f"can't call numpy() on {SECRET}")


class Brain:
    """Half-precision floats of machine learning, which NumPy has not."""

    dtype = "bfloat16"

    def __init__(self, array: Any) -> None:
        self.shape = np.shape(array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(SECRET)


class MadeUpTracer(WithArray):
    """What stands for an array while JAX compiles a function."""

    __module__ = "jax.made_up"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(SECRET)


class Meta(WithGradient):
    """A tensor of PyTorch that has a shape alone."""

    is_meta = True


class FibreTracer(WithArray):
    """A class of somebody else, with names that mean something else there."""

    nnz = 7

    def layout(self) -> str:
        return "sparse"

    def dtype(self) -> str:
        return "bfloat16"

    def __repr__(self) -> str:
        return "sparse bfloat16"


READ: dict[str, Callable[[Any], Any]] = {"array": WithArray, "DLPack": WithDLPack, "pinned": Pinned, "names": FibreTracer}
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "device": (OnDevice, r"is a \w+\.OnDevice in the memory of a device: copy it to the host first, with \.cpu\(\).*\.get\(\)"),
    "CUDA": (WithCudaInterface, r"is a \w+\.WithCudaInterface in the memory of a device"),
    "gradient": (WithGradient, r"records gradients, and a release has none: pass what \.detach\(\) returns"),
    "sparse": (lambda x: csr_matrix(np.ravel(x)), r"is a scipy\.csr_matrix that is sparse: make it dense first, by \.toarray"),
    "traced": (MadeUpTracer, r"is a \w+\.MadeUpTracer, which has a shape but no numbers: use an array in memory"),
    "meta": (Meta, r"is a \w+\.Meta, which has a shape but no numbers"),
    "bfloat16": (Brain, "of dtype bfloat16, which NumPy does not have: convert it to float32 first"),
}
#: Every place that takes records or points.
PLACES: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "frechet_mean": lambda make: frechet_mean(make(X), BALL).point,
    "frechet_mean of chunks": lambda make: frechet_mean([make(X[:7]), make(X[7:])], BALL).point,
    "frechet_mean of a list of records": lambda make: frechet_mean([make(x) for x in X], BALL).point,
    "frechet_mean of a function": lambda make: frechet_mean(lambda: iter([make(X[:7]), make(X[7:])]), BALL).point,
    "frechet_means": lambda make: frechet_means(make(X), BALL, by=np.arange(len(X)) % 2).points,
    "labels": lambda make: frechet_means(X, BALL, by=make(np.arange(len(X)) % 2)).points,
    "weights": lambda make: frechet_mean(X, BALL, weights=make(np.ones(len(X)))).point,
    "layout": lambda make: frechet_mean(make(X.reshape(-1, 4)), BALL, layout="full").point,
    "private_mean": lambda make: private_mean(make(X), BALL, epsilon=1.0, simulate=np.random.default_rng(1)).value,
    "private_mean of chunks": lambda make: (
        private_mean([make(X[:7]), make(X[7:])], BALL, epsilon=1.0, simulate=np.random.default_rng(1)).value
    ),
    "persons": lambda make: (
        private_mean(X, BALL, epsilon=1.0, unit=make(np.arange(40) // 2), simulate=np.random.default_rng(1)).value
    ),
    "private_variance": lambda make: (
        private_variance(Dataset(make(X)), BALL, epsilon=1.0, simulate=np.random.default_rng(1)).value
    ),
    "private_ball": lambda make: private_ball(make(X), BALL, epsilon=1.0).n,
    "private_summary": lambda make: (
        private_summary(make(X[0]), SPD(2), sensitivity=0.1, epsilon=1.0, simulate=np.random.default_rng(1)).value
    ),
    "centre": lambda make: Ball(SPD(2), make(X[0]), 1.0).center,
    "clip": lambda make: BALL.clip(make(X)),
    "dist": lambda make: SPD(2).dist(make(X[0]), make(X[1])),
    "estimator": lambda make: PrivateFrechetMean(SPD(2), center=np.eye(2), radius=2.0, epsilon=1.0).fit(make(X)).n_features_in_,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", READ)
def test_an_array_of_another_maker_is_the_array_it_stands_for(kind: str, place: str) -> None:
    given = PLACES[place](READ[kind])
    np.testing.assert_allclose(given, PLACES[place](np.asarray), rtol=1e-9)  # which compiled passes run may differ


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_numpy_cannot_read_is_refused_with_what_would_work(kind: str, place: str) -> None:
    make, sentence = REFUSED[kind]
    with pytest.raises(TypeError, match=sentence) as caught:
        PLACES[place](make)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_sentence_depends_on_type_and_place_alone() -> None:
    sentences = []
    for x in (X, np.full_like(X, np.nan), 1e300 * X):
        with pytest.raises(TypeError) as caught:
            private_mean(OnDevice(x), BALL, epsilon=1.0)
        sentences.append(str(caught.value))
    assert len(set(sentences)) == 1


def test_a_device_that_cannot_be_asked_for_fails_by_its_kind_alone() -> None:
    class Strange(OnDevice):
        def __dlpack_device__(self) -> Any:
            raise ValueError(SECRET)

    with pytest.raises(RecordsError, match="failed with TypeError; its text is hidden") as caught:
        private_mean(Strange(X), BALL, epsilon=1.0)
    assert SECRET not in str(caught.value)


def test_columns_of_a_data_frame_are_not_taken_for_what_an_array_says_of_itself() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.reshape(-1, 4), columns=["xx", "xy", "yx", "yy"])
    frame["dtype"], frame["requires_grad"] = "bfloat16", True
    mean = frechet_mean(frame, BALL, columns=["xx", "xy", "yx", "yy"]).point
    assert np.array_equal(mean, frechet_mean(X, BALL).point)


@pytest.mark.parametrize("place", PLACES)
def test_pytorch(place: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    given = PLACES[place](lambda x: torch.from_numpy(np.array(x)))
    np.testing.assert_allclose(given, PLACES[place](np.asarray), rtol=1e-9)
    for make, sentence in (
        (lambda x: torch.tensor(np.array(x, dtype=float)).requires_grad_(True), "records gradients"),
        (lambda x: torch.tensor(np.array(x)).to(torch.bfloat16), "bfloat16"),
        (lambda x: torch.tensor(np.array(x)).to_sparse(), "is sparse"),
        (lambda x: torch.tensor(np.array(x)).to("meta"), "no numbers"),
    ):
        with pytest.raises(TypeError, match=sentence):
            PLACES[place](make)


@pytest.mark.parametrize("place", PLACES)
def test_jax(place: str) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    rounded = PLACES[place](lambda x: np.asarray(x, dtype=np.float32))
    given = PLACES[place](lambda x: jax.numpy.asarray(x, dtype=jax.numpy.float32))
    np.testing.assert_allclose(given, rounded, rtol=1e-9)
    with pytest.raises(TypeError, match="bfloat16"):
        PLACES[place](lambda x: jax.numpy.asarray(x, dtype=jax.numpy.bfloat16))

    def traced(x: Any) -> Any:
        with pytest.raises(TypeError, match="no numbers"):
            PLACES[place](lambda _: x)
        return x

    jax.jit(traced)(np.asarray(X if place != "weights" else np.ones(len(X))))
