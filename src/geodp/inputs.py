"""Reading arrays and numbers from callers: types, and one-sentence errors for unusable input."""

from __future__ import annotations

import inspect
import operator
import reprlib
import sys
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: The unit of rounding bounds: the spacing of floats at 1.
EPSILON = float(np.finfo(np.float64).eps)

#: The shortest length that callers may give (radii, sensitivities, target errors): the square of a length ``EPSILON`` times as
#: long still has full precision.
SHORTEST = 1e-100
#: The longest length that callers may give: the sum of the squares of 2^63 of them does not overflow.
LONGEST = 1e100

#: Counts and sizes that callers give are at most this: floats hold them, and so do 64 bits.
MOST = 2**63


def describe(value: Any) -> str:
    """A wrong argument, for an error message. Of collections only the type: somebody may have given records by mistake."""
    return reprlib.repr(value) if value is None or isinstance(value, str | int | float) else f"of type {type(value).__name__}"


def whole_number(value: Any, least: int, what: str, most: float = MOST) -> int:
    """``value`` as an ``int`` between ``least`` and ``most``, or a sentence.

    >>> whole_number(10**400, 1, "the number of records n")
    Traceback (most recent call last):
        ...
    ValueError: the number of records n must be at most 2^63
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number but is {describe(value)}") from None
    if number > most:
        raise ValueError(f"{what} must be at most 2^63")
    if number < least:
        raise ValueError(f"{what} must be at least {least}" + (f" but is {number}" if number >= -MOST else ""))
    return number


def real_number(value: Any, what: str) -> float:
    """A public number as a ``float``; raises if it is not a number or does not fit."""
    try:
        # NumPy would convert an array of one number to that number, with a warning
        return float(cast(Any, None) if np.ndim(value) else value)
    except OverflowError:
        raise ValueError(f"{what} is too large for a float") from None
    except ValueError:
        raise ValueError(f"{what} must be a number but is {describe(value)}") from None
    except TypeError:
        raise TypeError(f"{what} must be a number but is of type {type(value).__name__}") from None


def moderate_length(value: float, what: str, shortest: float = SHORTEST) -> float:
    """A public length; raises if its square would overflow or underflow.

    >>> moderate_length(1e-161, "the radius")
    Traceback (most recent call last):
        ...
    ValueError: the radius must be between 1e-100 and 1e+100 but is 1e-161: floats lose the squares of other lengths, choose ...
    """
    if not shortest <= value <= LONGEST:
        raise ValueError(
            f"{what} must be between {shortest:g} and {LONGEST:g} but is {value:g}: floats lose the squares of other lengths, "
            "choose other units"
        )
    return value


def is_line(value: Any) -> bool:
    """Whether this is one printable line of text."""
    return isinstance(value, str) and value != "" and value.isprintable()


#: Where arrays in the memory of the host are, among the device types of DLPack: plain, or pinned for a graphics card.
_HOST = (1, 3, 11)


def is_array_like(x: Any) -> bool:
    """Whether it says itself how to become an array: a table of pandas or a tensor, say, not a collection of chunks."""
    names = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__", "__cuda_array_interface__")
    return isinstance(x, np.ndarray | memoryview) or any(hasattr(x, name) for name in names) or _is_sparse(x)


def as_numpy(x: Any) -> NDArray[Any]:
    """Anything that NumPy reads as an array, arrays that know DLPack alone, and rotations of SciPy, as matrices.

    Call :func:`refuse_unreadable` first.
    """
    if is_rotation(x):
        return cast("NDArray[Any]", x.as_matrix())
    if not isinstance(x, np.ndarray) and not hasattr(x, "__array__") and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asanyarray(x)


def is_rotation(x: Any) -> bool:
    """Whether ``x`` is rotations of SciPy, without loading that part of it for those who have none."""
    module = sys.modules.get("scipy.spatial.transform")
    return module is not None and isinstance(x, module.Rotation)


def refuse_unreadable(x: Any, name: str) -> None:
    """A sentence about an array that NumPy must not or cannot read, by its type and its device; values are not looked at.

    NumPy drops the mask of an array without a word when it is read as an ordinary one. Of arrays on a device and of tensors
    with gradients the reason would be in the text of somebody else's exception, which releases do not show.
    """
    masked = sys.modules.get("numpy.ma")  # which takes a while to import, and without which there is no masked array
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, and masked entries must not be read: fill it first, such as with "
            "numpy.ma.filled(x, numpy.nan)"
        )
    if isinstance(x, np.ndarray | float | int | list | tuple | str):
        return
    kind = f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}"
    if _found(x, "is_meta") is True or (is_of(x, "jax") and type(x).__name__.endswith("Tracer")):
        raise TypeError(f"{name} is a {kind}, which has a shape but no numbers: use an array in memory, and not inside jax.jit")
    if _is_on_device(x):
        raise TypeError(
            f"{name} is a {kind} in the memory of a device: copy it to the host first, with .cpu() (PyTorch), .get() (CuPy) or "
            "jax.device_get (JAX)"
        )
    if _found(x, "requires_grad") is True:
        raise TypeError(f"{name} is a {kind} that records gradients, and a release has none: pass what .detach() returns")
    if _is_sparse(x):
        raise TypeError(f"{name} is a {kind} that is sparse: make it dense first, by .toarray() (SciPy) or .to_dense() (PyTorch)")
    if str(_found(x, "dtype")) in ("bfloat16", "torch.bfloat16"):
        raise TypeError(f"{name} is a {kind} of dtype bfloat16, which NumPy does not have: convert it to float32 first")


def _is_on_device(x: Any) -> bool:
    if _found(x, "__cuda_array_interface__") is not None:
        return True
    try:
        return x.__dlpack_device__()[0] not in _HOST
    except Exception:  # it has no such method, or one that fails: reading it will tell
        return False


def _is_sparse(x: Any) -> bool:
    if is_of(x, "torch"):
        return "sparse" in str(_found(x, "layout"))
    return hasattr(type(x), "nnz") and not hasattr(type(x), "__array__")  # SciPy and CuPy


def is_of(x: Any, package: str) -> bool:
    """Whether a class of the package, or one derived from it, made ``x``. Other classes may mean something else by a name."""
    return any(kind.__module__.partition(".")[0] == package for kind in type(x).__mro__)


def _found(x: Any, name: str) -> Any:
    """An attribute that the type of ``x`` says it has, or None: the columns of a data frame are attributes too, and private."""
    try:
        return getattr(x, name, None) if hasattr(type(x), name) else None
    except Exception:
        return None


def callers_level() -> int:
    """The stack level of the caller outside this package, which a warning points to."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "geodp":
        level, frame = level + 1, frame.f_back
    return level - 1
