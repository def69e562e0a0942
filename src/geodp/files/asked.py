"""What a caller says about a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from geodp.files.layout import layouts
from geodp.files.messages import FileError, listed
from geodp.manifolds import Manifold


@final
@dataclass(frozen=True)
class Asked:
    """What is said about a file of records, all of it public. Of a file that is ``public`` itself more may be looked at."""

    manifold: Manifold
    columns: Sequence[str | int] | None = None
    layout: str = "auto"
    header: bool | None = None
    public: bool = False
    #: Columns that hold no coordinates but labels, such as whose a record is.
    beside: Sequence[str | int] = ()
    #: Of an image, the file that says which of its voxels are records.
    mask: Path | None = None

    @property
    def names(self) -> frozenset[str]:
        """The columns that are asked for by name."""
        return frozenset(name for name in (*(self.columns or ()), *self.beside) if isinstance(name, str) and not name.isdecimal())

    @property
    def widths(self) -> frozenset[int]:
        """Of how many numbers a record may consist."""
        choices = layouts(self.manifold)
        named = [choice for choice in choices if choice.name == self.layout]
        return frozenset(choice.columns for choice in named or choices)

    def list_shape(self, path: Path | str, name: str, depth: int, alone: bool) -> tuple[int, ...]:
        """The lengths of lists, and of lists in them, whose type does not fix them, in the column ``name``."""
        lists = f"has lists without a fixed length in its column {listed([name])}"
        if not alone:
            raise FileError(f"{path} {lists} beside other columns: pick that column alone with columns= (or --columns)")
        if depth == 1:
            return (self.width(path, lists),)
        shape = self.manifold.point_shape
        if depth != len(shape):
            raise FileError(f"{path} {lists}, {depth} deep, but a point of {self.manifold} has shape {shape}")
        return shape

    def width(self, path: Path | str, why: str) -> int:
        """Of how many numbers a record consists, where nothing public in the file tells."""
        if len(self.widths) > 1:
            choices = " or ".join(choice.name for choice in layouts(self.manifold))
            raise FileError(f"{path} {why}, so nothing public says how many numbers a record has: name the layout, {choices}")
        return min(self.widths)
