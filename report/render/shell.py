"""What stands around the content of every page: its head, the links over it, and the line below.

The words in it are those of the people of a site, in ``data/site.yaml``.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import jinja2
import msgspec

from figures.characters import visible, visible_in
from report.core.records.record import Text
from report.core.records.strict import read_strictly
from report.render import POLICY
from report.render.pandoc import TEMPLATES

_REMEDY: Final = "fix it as docs/publishing.md says, or remove the file"

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

Address: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s<>\"'{}|\\^`]+/$")]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The words around the papers; ``url`` is where the site is published, with a slash at its end.

    The ``footer`` says whose site it is; the authors of a paper stand in its front matter.  A
    replication report has its ``authors`` from here, or the ``teacher`` of the ``course``.
    """

    title: Text = "Performance of convolutional networks, measured and reproduced"
    lead: Text = (
        "Each paper is computed from raw measurements that are kept beside it: "
        "theory, measurement and published values stand side by side."
    )
    footer: Text | None = None
    licence: Text | None = None
    url: Address | None = None
    course: Text | None = None
    teacher: Text | None = None
    authors: tuple[Text, ...] = ()
    date: Text | None = None


#: Settings | None, which a type checker takes for no class.
_FILE: Final[Any] = Settings | None


def read_settings(data: Path) -> Settings:
    """The settings of the site; the defaults where there is no file.

    Raises ``RecordError`` for a key that is not one of ``Settings``, or a value of another kind.
    """
    path = data / "site.yaml"
    if not path.exists():
        return Settings()
    # A file in which all lines are comments holds nothing.
    found: Settings | None = read_strictly(path, _FILE, _REMEDY, data)
    return found or Settings()


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


def render_template(name: str, settings: Settings, **content: Any) -> str:
    """The template ``templates/html/<name>`` with ``content``, which is escaped."""
    shared = {"policy": POLICY, "overviews": OVERVIEWS, "settings": settings}
    return visible(_environment().get_template(name).render(**shared, **content))


def write_assets(target: Path) -> None:
    """Put the style sheet and the scripts of all pages below ``target``."""
    folder = target / ASSETS
    folder.mkdir(parents=True, exist_ok=True)
    for path in (TEMPLATES / "html" / ASSETS).iterdir():
        shutil.copyfile(path, folder / path.name)


def script_of(name: str, content: Any) -> str:
    """A script that gives ``content`` to the scripts of the page as ``ridgepoint.<name>``.

    A page that is opened as a file may read no other file, but may load a script.
    """
    text = json.dumps(
        visible_in(content), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return f"(globalThis.ridgepoint ??= {{}}).{name} = {text};\n"
