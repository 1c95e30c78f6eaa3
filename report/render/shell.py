"""Frame of every page: head, links above the content, and footer.

Publishers set the words of the frame in ``data/site.yaml``.
"""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import jinja2
import msgspec

from figures.characters import escape_invisible, escape_invisible_in
from report.core.records.record import Text
from report.core.records.strict import read_strictly
from report.core.text.escape import with_apostrophes
from report.render import POLICY
from report.render.pandoc import TEMPLATES

_REMEDY: Final = "fix it as docs/publishing.md says, or remove the file"

#: Folder of style sheets and scripts; the pages' policy forbids both within pages.
ASSETS: Final = "assets"

#: Scripts of every page; no script depends on another.
SCRIPTS: Final = ("regions.js", "dialog.js", "search.js", "tables.js")
#: Scripts of papers' pages.
PAPER_SCRIPTS: Final = (
    *SCRIPTS, "contents.js", "numbers.js", "references.js", "figures.js", "roofline.js"
)  # fmt: skip

#: Page on all studies → text of links to the page.
OVERVIEWS: Final = {
    "index.html": "Papers",
    "claims.html": "Claims",
    "atlas.html": "Atlas",
    "reported.html": "Published values",
    "machines.html": "Machines",
    "records.html": "Records",
}

#: All overviews, and the page with the roofline of a machine, linked from the list of machines.
PAGES: Final = (*OVERVIEWS, "roofline.html")

Address: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s<>\"'{}|\\^`]+/$")]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Words around the papers.

    ``url``: address of the site, with a slash at the end.  ``footer``: owner of the site.
    ``authors``: authors of replication reports; if there are none, the ``teacher`` of the
    ``course`` is their author.
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


def read_settings(data: Path) -> Settings:
    """Read the settings of the site from ``data``; return the defaults if it has no ``site.yaml``.

    Raises ``RecordError`` for an unknown key, or a value of a wrong type.
    """
    path = data / "site.yaml"
    if not path.exists():
        return Settings()
    file_type: Any = Settings | None  # None if all lines of the file are comments
    settings: Settings | None = read_strictly(path, file_type, _REMEDY, data)
    return settings or Settings()


@cache
def environment(folder: str, *, escape: bool) -> jinja2.Environment:
    """Return the Jinja environment of a folder; the cache avoids compiling a template twice."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / folder),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["with_apostrophes"] = with_apostrophes
    return templates


def render_template(name: str, settings: Settings, **content: Any) -> str:
    """Render ``templates/html/<name>``; escape ``content``, and show invisible characters."""
    shared = {"policy": POLICY, "overviews": OVERVIEWS, "settings": settings}
    template = environment("html", escape=True).get_template(name)
    return escape_invisible(template.render(**shared, **content))


def write_assets(target: Path) -> None:
    """Copy the style sheet and the scripts of all pages into the folder ``target/ASSETS``."""
    folder = target / ASSETS
    folder.mkdir(parents=True, exist_ok=True)
    for path in (TEMPLATES / "html" / ASSETS).iterdir():
        shutil.copyfile(path, folder / path.name)


def script_of(name: str, content: Any) -> str:
    """Return a script that sets ``ridgepoint.<name>`` to ``content``; show invisible characters.

    Other scripts read it, since a page opened from disk can load scripts, but no JSON files.
    """
    text = json.dumps(
        escape_invisible_in(content), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return f"(globalThis.ridgepoint ??= {{}}).{name} = {text};\n"
