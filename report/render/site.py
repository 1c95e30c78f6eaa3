"""The list of all studies, the first page of the site."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jinja2

from figures.characters import visible
from report.render.html import write_shared
from report.render.pandoc import TEMPLATES, plain_text
from report.render.source import front_matter

TITLE: Final = "Performance of convolutional networks, measured and reproduced"
LEAD: Final = (
    "Each paper is computed from raw measurements that are kept beside it: "
    "theory, measurement and what a source reported stand side by side."
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


@dataclass(frozen=True)
class Entry:
    """One study in the list; ``page`` and ``pdf`` are relative to the list.

    ``devices`` is empty and ``measured`` None where a study has no measurement of its own;
    ``imported`` are lines on what others measured.
    """

    study: str
    title: str
    abstract: str
    page: str
    pdf: str | None = None
    devices: tuple[str, ...] = ()
    measured: str | None = None
    imported: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, plain: Mapping[str, Any], *, study: str, page: str, pdf: str | None = None
    ) -> Entry:
        """The entry of a paper from its title, abstract, devices and day of measuring."""
        lists = {name: tuple(plain[name]) for name in ("devices", "imported")}
        found = {**plain, **lists}
        return cls(study=study, page=page, pdf=pdf, **found)


def first_sentences(text: str, limit: int = 320) -> str:
    """The whole sentences of ``text`` that fit into ``limit`` characters, at least one."""
    taken = ""
    for sentence in _SENTENCE_END.split(text.strip()):
        longer = f"{taken} {sentence}".strip()
        if taken and len(longer) > limit:
            break
        taken = longer
    return taken


def describe(
    source: Path,
    study: str,
    page: str,
    pdf: str | None = None,
    devices: tuple[str, ...] = (),
    measured: str | None = None,
) -> Entry:
    """The entry of the paper in the folder ``source``; raises ``RenderError``."""
    meta = front_matter(source / f"{study}.qmd")
    title, abstract = str(meta.get("title", study)), str(meta.get("abstract", ""))
    return entry(title, abstract, devices, measured, study=study, page=page, pdf=pdf)


def entry(
    title: str,
    abstract: str,
    devices: Sequence[str],
    measured: str | None,
    imported: Sequence[str] = (),
    *,
    study: str,
    page: str,
    pdf: str | None = None,
) -> Entry:
    """The entry of a paper whose title and abstract are markdown; raises ``RenderError``."""
    return Entry(
        study=study,
        title=plain_text(title),
        abstract=first_sentences(plain_text(abstract)),
        page=page,
        pdf=pdf,
        devices=tuple(devices),
        measured=measured,
        imported=tuple(imported),
    )


def render_index(entries: Sequence[Entry], title: str = TITLE, lead: str = LEAD) -> str:
    """The HTML of the list, in the order of ``entries``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / "html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.get_template("index.html.j2")
    return visible(template.render(entries=entries, title=title, lead=lead))


def write_index(entries: Sequence[Entry], target: Path) -> Path:
    """Write ``index.html`` and what all pages share into ``target``; returns the page."""
    target.mkdir(parents=True, exist_ok=True)
    write_shared(target)
    index = target / "index.html"
    index.write_text(render_index(entries), "utf-8", newline="\n")
    return index
