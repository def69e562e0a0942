"""The caller's options for reading a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from geodp.files.layout import layouts
from geodp.files.messages import FileError, listed
from geodp.manifolds import Manifold


@final
@dataclass(frozen=True)
class ReadOptions:
    """How a caller wants a file of records to be read. All of this is public.

    If the file itself is ``public``, its contents may also decide how it is read.
    """

    manifold: Manifold
    columns: Sequence[str | int] | None = None
    layout: str = "auto"
    header: bool | None = None
    public: bool = False
    #: Columns that hold labels instead of coordinates, such as the person a record belongs to.
    labels: Sequence[str | int] = ()
    #: For images: the public ones that mark the voxels that are records, and that number their regions.
    mask: Any = None
    atlas: Any = None

    @classmethod
    def of(cls, manifold: Manifold, *, columns: Any = None, layout: str | None = None, **more: Any) -> ReadOptions:
        """Options as callers give them: columns may be one text, such as "lat, lon"."""
        names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns
        return cls(manifold, names, layout or "auto", **more)

    @property
    def are_points(self) -> bool:
        """Whether rows of arrays are points as they are, because the caller says nothing else."""
        return self.columns is None and self.layout == "auto"

    @property
    def names(self) -> frozenset[str]:
        """The columns that the caller names."""
        return frozenset(name for name in (*(self.columns or ()), *self.labels) if isinstance(name, str) and not name.isdecimal())

    @property
    def widths(self) -> frozenset[int]:
        """How many numbers a record may have."""
        choices = layouts(self.manifold)
        named = [choice for choice in choices if choice.name == self.layout]
        return frozenset(choice.columns for choice in named or choices)

    def refuse_masks(self, path: Path | str) -> None:
        """Raises if there is a mask or an atlas, for something that is not an image."""
        for name, given in (("a mask", self.mask), ("an atlas", self.atlas)):
            if given is not None:
                raise FileError(f"{name} is for images, and {path} is not an image: leave the {name.split()[1]} out")

    def list_shape(self, path: Path | str, name: str, depth: int, alone: bool) -> tuple[int, ...]:
        """The lengths of the lists, and of lists nested in them, in the column ``name``, whose type does not fix them."""
        lists = f"has lists without a fixed length in its column {listed([name])}"
        if not alone:
            raise FileError(f"{path} {lists} besides other columns: choose only that column with columns= (or --columns)")
        if depth == 1:
            return (self.width(path, lists),)
        shape = self.manifold.point_shape
        if depth != len(shape):
            raise FileError(f"{path} {lists}, {depth} deep, but a point of {self.manifold} has shape {shape}")
        return shape

    def width(self, path: Path | str, why: str) -> int:
        """How many numbers a record has, when nothing public in the file says so."""
        if len(self.widths) > 1:
            choices = " or ".join(choice.name for choice in layouts(self.manifold))
            raise FileError(f"{path} {why}, so nothing public says how many numbers a record has: name the layout, {choices}")
        return min(self.widths)
