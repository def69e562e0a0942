"""A private Fréchet mean, with a receipt."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from textwrap import shorten
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np

from geodp._version import __version__
from geodp.files import parse_manifold
from geodp.inputs import Array, refuse_mask
from geodp.laws import exact
from geodp.laws.families import Laplace
from geodp.manifolds import Manifold, Sphere
from geodp.manifolds.ball import Ball, checked_ball
from geodp.mechanisms.intrinsic import calibrate, checked_epsilon
from geodp.privacy.ledger import Ledger, LedgerError
from geodp.records.chunks import count_records, discreet
from geodp.statistics.mean import Progress, mean_of_counted
from geodp.statistics.sensitivity import Bound

T = TypeVar("T")

EXACT = "exact"
SIMULATED = "simulated"


class _Requirement(NamedTuple):
    """What a field of a stored release must be, in words and as a test."""

    words: str
    met: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**63


def _is_positive(value: Any) -> bool:
    # not a number compares false, and neither infinity nor a whole number past the floats is at most the largest float
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


_POSITIVE = _Requirement("a positive and finite number", _is_positive)
_LINE = _Requirement("a line of text", _is_line)

#: What a stored release must hold besides its value and its ball, each by itself.
_STORED: dict[str, _Requirement] = {
    **dict.fromkeys(("epsilon", "sensitivity", "tolerance", "scale"), _POSITIVE),
    **dict.fromkeys(("mechanism", "neighbours", "version"), _LINE),
    "bound": _Requirement(f"one of {', '.join(get_args(Bound))}", lambda value: value in get_args(Bound)),
    "numerics": _Requirement(f"{EXACT} or {SIMULATED}", lambda value: value in (EXACT, SIMULATED)),
    "n": _Requirement("a whole number from 1 to 2^63", _is_whole),
    "projected": _Requirement("true or false", lambda value: isinstance(value, bool)),
    "dataset": _Requirement("a line of text, or null", lambda value: value is None or _is_line(value)),
    "charge": _Requirement("a whole number from 1 to 2^63, or null", lambda value: value is None or _is_whole(value)),
}


@dataclass(frozen=True, eq=False)
class Release:
    """A private mean and everything that may be said about how it came about: public parameters, and nothing else.

    ``print`` shows a receipt; :meth:`to_json` and :meth:`from_json` store and restore it.

    >>> import numpy as np
    >>> from geodp import SPD, Ball, private_mean
    >>> release = private_mean(np.tile(np.eye(2), (1000, 1, 1)), Ball(SPD(2), np.eye(2), radius=1.0), epsilon=1.0)
    >>> round(release.error_quantile(0.95), 4)  # known before the draw: the value is within this with probability 95%
    0.0126
    >>> np.array_equal(Release.from_json(release.to_json()).value, release.value)
    True
    """

    value: Array
    epsilon: float
    sensitivity: float
    tolerance: float
    scale: float
    ball: Ball
    n: int
    bound: Bound
    numerics: str
    grid: float | None
    projected: bool
    dataset: str | None = None
    charge: int | None = None
    mechanism: str = "Riemannian Laplace"
    neighbours: str = "replace one record"
    version: str = __version__

    @property
    def manifold(self) -> Manifold:
        return self.ball.manifold

    @property
    def private(self) -> bool:
        """Whether the noise came from the exact sampler and the operating system's entropy."""
        return self.numerics == EXACT

    def error_quantile(self, q: float) -> float:
        """A distance that the mean of the clipped records is within with probability ``q``: from the noise law alone."""
        return self._slack * float(self._law.radius_quantile(q)) + self.tolerance

    def expected_error(self) -> float:
        """A bound on the expected distance to the mean of the clipped records: from the noise law alone."""
        return self._slack * self._law.mean_radius() + self.tolerance

    @cached_property
    def _law(self) -> Laplace:
        return Laplace(self.manifold, self.scale)

    @property
    def _slack(self) -> float:
        # moving to the ball may at most double the distance to a point of it; where it is the default it never increases it
        return 2.0 if self.projected and not projection_is_safe(self.ball) else 1.0

    def to_json(self) -> str:
        """The release as JSON text."""
        return json.dumps(
            {
                "geodp": self.version,
                "mechanism": self.mechanism,
                "private": self.private,
                "numerics": self.numerics,
                "epsilon": self.epsilon,
                "neighbours": self.neighbours,
                "n": self.n,
                "manifold": repr(self.manifold),
                "center": self.ball.center.tolist(),
                "radius": self.ball.radius,
                "bound": self.bound,
                "sensitivity": self.sensitivity,
                "tolerance": self.tolerance,
                "scale": self.scale,
                "grid": self.grid,
                "projected": self.projected,
                "dataset": self.dataset,
                "charge": self.charge,
                "value": self.value.tolist(),
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> Release:
        """The release that :meth:`to_json` stored, or a ``ValueError`` that names the field which cannot be."""
        wrong: str | None = "pass what Release.to_json returned"
        try:
            stored: dict[str, Any] = json.loads(text)
            ball = Ball(parse_manifold(stored["manifold"]), stored["center"], stored["radius"])
            value = ball.manifold.read(stored["value"], "the value")
            kept = {field.name for field in fields(cls)} & stored.keys() - {"value"}
            release = cls(value=value, ball=ball, version=stored["geodp"], **{name: stored[name] for name in kept})
            wrong = release._wrong(stored["radius"], stored["private"])
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            pass
        if wrong is not None:
            raise ValueError(f"this is not the JSON text of a release: {wrong}")
        return release

    def _wrong(self, radius: Any, private: Any) -> str | None:
        """What cannot be, if anything cannot. No field is quoted: the text may be anything, such as a file of records."""
        for name, (words, met) in _STORED.items():
            if not met(getattr(self, name)):
                return f"its {'geodp' if name == 'version' else name} must be {words}"
        if not _is_positive(radius):
            return f"its radius must be {_POSITIVE.words}"
        if self.value.shape != self.manifold.point_shape or self.manifold.check_point(self.value) is not None:
            return f"its value must be a point of {self.manifold}"
        if private is not self.private:
            return f"its private must be true if its numerics are {EXACT} and false otherwise"
        if not (_is_positive(self.grid) if self.private else self.grid is None):
            return f"its grid must be {_POSITIVE.words} if its numerics are {EXACT} and null otherwise"
        if (self.dataset is None) != (self.charge is None):
            return "its dataset and its charge go together"
        try:
            Laplace(self.manifold, self.scale)
        except ValueError:
            return f"there is no noise of its scale on {self.manifold}"
        return None

    def __str__(self) -> str:
        origin = " (the origin)" if np.array_equal(self.ball.center, self.manifold.origin) else ""
        center = np.array2string(self.ball.center, precision=6, suppress_small=True, separator=", ", prefix=" " * 14)
        # all of it, however long: on a screen there may be no other copy
        every = self.value.size + 1
        value = np.array2string(self.value, precision=6, suppress_small=True, separator=", ", prefix=" " * 14, threshold=every)
        lines = [
            ("value", value),
            ("epsilon", f"{self.epsilon:g}, pure differential privacy; neighbours: {self.neighbours}"),
            ("error", f"within {self.error_quantile(0.95):.3g} of the mean of the clipped records with probability 95%"),
            ("", f"on average at most {self.expected_error():.3g} away (geodesic distance)"),
            ("manifold", repr(self.manifold)),
            ("radius", f"{self.ball.radius:g}, of the public ball"),
            ("center", f"{center}{origin}"),
            ("records", f"{self.n}"),
            (
                "mechanism",
                f"{self.mechanism}, scale {self.scale:.6g} = ({self.sensitivity:.6g} + 2 * {self.tolerance:.2g})/epsilon",
            ),
            ("", f"sensitivity bound: {self.bound}; projected onto the ball: {'yes' if self.projected else 'no'}"),
            (
                "numerics",
                f"exact arithmetic, rounded to multiples of {self.grid:.3g}" if self.private else "floating-point simulation",
            ),
            ("budget", f"data set {self.dataset!r}, charge {self.charge}" if self.dataset else "not kept in a ledger"),
            ("geodp", self.version),
        ]
        head = "PRIVATE MEAN" if self.private else "SIMULATION - NOT PRIVATE: do not publish this as a private release"
        return "\n".join([head, *(f"  {name:<12}{text}" for name, text in lines)])


def private_mean(
    x: Any,
    ball: Ball,
    epsilon: float,
    *,
    bound: Bound = "sharp",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    project: bool | None = None,
    simulate: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Release:
    r"""The Fréchet mean of records in a public ball, released with pure ``epsilon``-differential privacy.

    *Public*: the manifold, the ball, the number of records, epsilon and all other arguments. *Private*: the values of the
    records. *Neighbours*: data sets of the same size that differ by replacing one record.

    Every record is clipped into the ball by itself (what is no point of the manifold becomes its centre); the mean of the
    clipped records is computed to a public tolerance; noise is drawn around it. Theorem: :mod:`geodp.mechanisms.intrinsic`.
    The noise is drawn by a program over exact real numbers from the operating system's entropy, and what is released is that
    draw rounded to a public grid (:mod:`geodp.laws.exact`): post-processing, as is the projection onto the ball.

    Parameters
    ----------
    x
        The records, as for :func:`geodp.frechet_mean`.
    ball
        Centre and radius must be chosen without looking at the data.
    epsilon
        The privacy to spend.
    bound
        The sensitivity bound, see :func:`geodp.sensitivity`.
    ledger, dataset
        A budget to charge. What is left is looked at first, before any record is read. The charge is made after the mean
        and before the draw: a crash in between loses budget, never privacy. If the ledger cannot keep the receipt after that,
        the release is returned all the same, with a warning.
    project
        Whether to move a draw that fell outside the ball to its boundary. By default that is done where it cannot
        increase the error: on simply connected spaces without positive curvature and on spheres up to a third of the way
        round.
    simulate
        A generator for fast seeded floating-point draws, for studies. The result is then NOT PRIVATE.
    progress
        As for :func:`geodp.frechet_mean`; what it is told about passes depends on the data and must not be published.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> ball = Ball(Sphere(2), center=[0.0, 0.0, 1.0], radius=np.pi / 8)
    >>> release = private_mean(np.tile([0.0, 0.0, 1.0], (500, 1)), ball, epsilon=1.0)
    >>> release.epsilon, release.n, Sphere(2).check_point(release.value)
    (1.0, 500, None)
    """
    checked_ball(ball)
    _check_options(ledger, dataset, project, simulate)
    refuse_mask(x, "x")
    epsilon = checked_epsilon(epsilon)
    if ledger is not None and dataset is not None:
        ledger.check(dataset, epsilon)  # the mean may take hours; what counts is the charge after it
    x = discreet(x, ball.manifold)
    calibration = calibrate(ball, count_records(x, ball.manifold), epsilon, bound)
    mean = _computed(lambda: mean_of_counted(x, ball, calibration.n, progress))
    charge = None
    if ledger is not None and dataset is not None:
        what = shorten(f"mean on {ball.manifold}", 500, placeholder=" ...")
        # what the noise was made for: an epsilon of more digits than a float has was rounded to one
        charge = ledger.charge(dataset, calibration.epsilon, what=what).id
    grid, value = _computed(lambda: _draw(ball, calibration.scale, mean, simulate))
    projected = projection_is_safe(ball) if project is None else bool(project)
    release = Release(
        value=ball.clip(value) if projected else value,
        epsilon=calibration.epsilon,
        sensitivity=calibration.sensitivity,
        tolerance=calibration.tolerance,
        scale=calibration.scale,
        ball=ball,
        n=calibration.n,
        bound=bound,
        numerics=EXACT if simulate is None else SIMULATED,
        grid=grid,
        projected=projected,
        dataset=dataset,
        charge=charge,
    )
    if ledger is not None and charge is not None:
        _attach(ledger, charge, release)
    return release


def _check_options(ledger: Any, dataset: Any, project: Any, simulate: Any) -> None:
    if (ledger is None) != (dataset is None):
        raise ValueError("a ledger and the name of a data set in it go together: give both or neither")
    if ledger is not None and not isinstance(ledger, Ledger):
        raise TypeError(f"the ledger must be a Ledger but is of type {type(ledger).__name__}: open it with geodp.Ledger(url)")
    if simulate is not None and not isinstance(simulate, np.random.Generator):
        raise TypeError(f"simulate must be a numpy.random.Generator but is of type {type(simulate).__name__}")
    if ledger is not None and simulate is not None:
        raise ValueError("a simulation is not private and spends no budget: leave out the ledger or simulate")
    if not isinstance(project, bool | np.bool_ | None):
        raise TypeError(f"project must be True, False or None but is of type {type(project).__name__}")


def _attach(ledger: Ledger, charge: int, release: Release) -> None:
    """Keep the receipt with its charge. The budget is spent and the value drawn: a failure here must not take the value along."""
    try:
        ledger.attach(charge, release.to_json())
    except Exception as error:
        # of the ledger's sentence only what happened: its advice, to try again, would be wrong here
        why = str(error).partition(": ")[0] if isinstance(error, LedgerError) else type(error).__name__
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # where warnings are errors it would take the value along after all
            warnings.warn(
                f"charge {charge} is entered and the release is made, but its receipt could not be kept in the ledger ({why}). "
                "Do not release again: store this one with ledger.attach(release.charge, release.to_json())",
                stacklevel=3,
            )


def _computed(compute: Callable[[], T]) -> T:
    """What ``compute`` returns; if it fails for a reason of its own, the text of the exception, which may quote data, is lost."""
    try:
        # where the caller has floating-point errors raise, an underflow of one record would
        with np.errstate(all="ignore"):
            return compute()
    except ValueError:  # said about public things: the shape or the number of records, the kind of a failure to read them
        raise
    except Exception as error:
        raise RuntimeError(f"the release failed with {type(error).__name__}, whose text may hold data and is not shown") from None


def _draw(ball: Ball, scale: float, mean: Array, simulate: np.random.Generator | None) -> tuple[float | None, Array]:
    manifold = ball.manifold
    if simulate is not None:
        return None, Laplace(manifold, scale).sample(mean, (), simulate)
    draw = exact.sample(manifold, scale, mean)
    return draw.grid, draw.value


def projection_is_safe(ball: Ball) -> bool:
    """Whether moving a point to the ball never takes it further from any point of the ball.

    True on Hadamard manifolds, where the map is 1-Lipschitz, and on spheres of curvature ``K`` for radii up to
    ``pi/(3 sqrt(K))``.
    """
    if math.isinf(ball.manifold.injectivity_radius):
        return True
    return isinstance(ball.manifold, Sphere) and ball.radius <= math.pi / 3.0 * ball.manifold.radius
