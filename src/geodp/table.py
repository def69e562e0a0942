"""The table of everything that can be released: one entry each.

An entry names the function that releases it. From that the command line, :class:`geodp.Session`, OpenDP and the reader of
receipts follow. The table holds names and no modules, because importing all of them takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, final

#: What a function takes besides the records: a public ball, the compact manifold, a wide ball or a compact manifold to start
#: from, or a value that the caller computed in place of records.
Place = Literal["ball", "manifold", "start", "value"]


@final
@dataclass(frozen=True)
class Entry:
    """One thing that can be released: the command and the method of sessions are called like it.

    ``module`` has its function, which is called ``private_`` and the name; ``text`` is the help of its command, with an example.
    """

    name: str
    module: str
    place: Place = "ball"
    text: str = ""
    #: Its name in OpenDP, if it is there.
    opendp: str | None = None
    #: Whether groups may have one each.
    by_group: bool = True

    @property
    def function(self) -> Callable[..., Any]:
        """The ``private_*`` function."""
        found: Callable[..., Any] = getattr(import_module(self.module), f"private_{self.name}")
        return found


TABLE: dict[str, Entry] = {}


def add(*entries: Entry) -> None:
    """Adds entries to the table. Raises if their names are taken."""
    for entry in entries:
        if TABLE.setdefault(entry.name, entry) != entry:
            raise ValueError(f"there is another {entry.name} in the table already: choose another name")


def load() -> None:
    """Imports all statistics, so that receipts of every kind can be read."""
    for module in ("geodp.programs.found", *(entry.module for entry in TABLE.values())):
        import_module(module)


add(
    Entry(
        "ball",
        "geodp.programs.ball",
        "start",
        """Privately find a ball that contains most of the records: the centre and radius that `geodp mean` needs.

        Example: **geodp ball tensors.csv --manifold "SPD(3)" --radius 30 --epsilon 0.2 --out ball.json**

        On spaces without positive curvature give a wide radius: 30 on matrices is a factor of 1e13 either way. On spheres,
        rotations, subspaces and shapes you need no radius. The output is public from then on; its cost and that of a mean add up.
        """,
        opendp="enclosing_ball",
        by_group=False,
    ),
    Entry(
        "mean",
        "geodp.statistics.mean",
        "ball",
        """Release the mean of a file of records, with a receipt.

        Example: **geodp mean tensors.csv --manifold "SPD(3)" --epsilon 1**

        The privacy to spend is exactly one of --epsilon (pure), --epsilon and --delta, --rho, or --mu.

        It is the Fréchet mean. For matrices and shares that is not the average and may be smaller: `geodp average` releases this.

        A ball that holds most records is found first, with a part of the privacy. Or give one: with --ball a file that
        `geodp ball` wrote, or with --radius, chosen without looking at the data; the centre is then the origin (identity
        matrix, north pole, first axes, regular polygon) unless given. Records outside the ball are moved to its boundary; records
        that are not points of the manifold count as the centre. --coverage measures how many these are, and how far
        clipping moved the mean; `geodp check` tells only the curator.
        """,
        opendp="frechet_mean",
    ),
    Entry(
        "median",
        "geodp.programs.median",
        "start",
        """Release the median of a file of records: a robust centre that needs no ball, and few records.

        Example: **geodp median tensors.csv --manifold "SPD(3)" --epsilon 1 --delta 1e-6**

        On spaces without positive curvature it starts from a ball of radius 30 about the origin, unless you give --radius and
        --center. The error bar is approximate; --guaranteed spends 15% of the privacy on one that always holds.
        """,
        opendp="median",
    ),
    Entry(
        "coverage",
        "geodp.statistics.coverage",
        "ball",
        """Count, with noise, how many records are valid and how many are in the ball. The counts may be published.

        Example: **geodp coverage tensors.csv --manifold "SPD(3)" --radius 1.5 --epsilon 0.05**
        """,
        opendp="coverage",
    ),
    Entry(
        "variance",
        "geodp.statistics.variance",
        "ball",
        """Release how much the records vary: their mean squared distance to the centre of the ball, or to their mean.

        Example: **geodp variance tensors.csv --ball ball.json --epsilon 0.2**

        This is one number, so it costs little. Its square root is a standard deviation, a distance. Give the ball, the privacy
        and the file as for `geodp mean`.
        """,
        opendp="frechet_variance",
    ),
    Entry(
        "covariance",
        "geodp.statistics.covariance",
        "ball",
        """Release the covariance of records in the tangent space at the centre of the ball, with its principal geodesics.

        Example: **geodp covariance tensors.csv --ball ball.json --epsilon 1 --delta 1e-6 --about mean --plot geodesics.png**

        The receipt says which standard deviations are above the level of the noise. With --about mean the mean of the normal
        coordinates is released too, with the same noise; the privacy covers both together.
        """,
        opendp="tangent_covariance",
    ),
    Entry(
        "average",
        "geodp.statistics.average",
        "manifold",
        """Release the ordinary average of matrices, shares or correlations, or the projected mean on a compact space.

        Example: **geodp average tensors.csv --manifold "SPD(3)" --bound 3 --epsilon 0.5**,
        or **geodp average directions.csv --manifold "Sphere(2)" --epsilon 0.5**

        It needs no ball. This is not the Fréchet mean of `geodp mean`, which may be several times smaller. Positive-definite
        matrices need a public bound on their Frobenius norm: longer records are shortened to it.
        """,
        opendp="average",
    ),
    Entry(
        "kmeans",
        "geodp.programs.kmeans",
        "ball",
        """Release the centres of clusters, and about how many records each of them has.

        Example: **geodp kmeans directions.csv --ball ball.json --clusters 3 --epsilon 1**
        """,
    ),
    Entry("summary", "geodp.statistics.summary", "value"),
)
