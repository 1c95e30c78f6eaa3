"""What a step of a build is, and what a build is asked for."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from report.render.styles import DEFAULT_STANDARD, PdfStandard

Engine: TypeAlias = Literal["latex", "typst", "quarto"]


class Reads(NamedTuple):
    """A step reads the outputs of the step ``id`` that end with one of ``endings``."""

    id: str
    endings: tuple[str, ...] = ("",)


class Step(NamedTuple):
    """One piece of work: what it reads, which code does it, and on what that depends.

    ``action`` is a module of ``report.engine.actions``.  ``parameters`` are (name, value).
    """

    id: str
    study: str
    action: str
    packages: tuple[str, ...]
    files: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    reads: tuple[Reads, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def roots(self) -> tuple[str, ...]:
        """The modules from which the code of the step is reached."""
        return (f"report.engine.actions.{self.action}", *self.code)


class Files(NamedTuple):
    """The input files that there are, as the project names them."""

    records: dict[str, tuple[str, ...]]
    templates: tuple[str, ...]

    def under(self, *prefixes: str) -> tuple[str, ...]:
        """The files of ``templates/`` that begin with one of ``prefixes``."""
        return tuple(name for name in self.templates if name.startswith(prefixes))


class Wanted(NamedTuple):
    """What a build shall make: the formats, the engine of the PDFs, a style for all papers."""

    html: bool
    pdf: bool
    engine: Engine
    style: str | None = None
    standard: PdfStandard = DEFAULT_STANDARD
    single: bool = False
