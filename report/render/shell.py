"""What stands around the content of every page: its head, the links over it, and the line below."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2

from figures.characters import visible, visible_in
from report.render.pandoc import TEMPLATES
from report.render.policy import POLICY
from report.render.settings import Settings

#: Style sheets and scripts of all pages; files of their own, since no page may hold any.
ASSETS: Final = "assets"

#: The scripts of every page, and those of papers; each is whole by itself.
SCRIPTS: Final = ("regions.js", "dialog.js", "search.js", "tables.js")
PAPER_SCRIPTS: Final = (*SCRIPTS, "contents.js", "numbers.js", "references.js", "figures.js")

#: The pages over all studies: file → what links to it say.
OVERVIEWS: Final = {
    "index.html": "Papers",
    "claims.html": "Claims",
    "reported.html": "Published values",
    "machines.html": "Machines",
    "records.html": "Records",
}


@cache
def _environment() -> jinja2.Environment:
    """Knows how to read templates; one for all pages, so that each template is compiled once."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / "html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_template(name: str, **content: Any) -> str:
    """The template ``templates/html/<name>`` with ``content``, which is escaped."""
    shared = {"policy": POLICY, "overviews": OVERVIEWS}
    return visible(_environment().get_template(name).render(**shared, **content))


def parts(settings: Settings, root: str) -> dict[str, str]:
    """The pieces of HTML that a paper's page shares with the others, for pandoc's template.

    ``root`` leads from the page to the folder of the site, such as ``../``.
    """
    return {
        f"site-{part}": render_template(
            f"{part}.html.j2", settings=settings, root=root, here="", scripts=PAPER_SCRIPTS
        )
        for part in ("head", "header", "footer")
    }


def write_assets(target: Path) -> tuple[str, ...]:
    """Put the style sheet and the scripts of all pages below ``target``; returns their names."""
    folder = target / ASSETS
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((TEMPLATES / "html" / ASSETS).iterdir()):
        shutil.copyfile(path, folder / path.name)
    return tuple(sorted(f"{ASSETS}/{path.name}" for path in folder.iterdir()))


def script_of(name: str, content: Any) -> str:
    """A script that gives ``content`` to the scripts of the page as ``ridgepoint.<name>``.

    A page that is opened as a file may read no other file, but may load a script.
    """
    text = json.dumps(
        visible_in(content), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return f"(globalThis.ridgepoint ??= {{}}).{name} = {text};\n"
