"""Frame of every page: its head, the links above its content, and the footer.

Its words are settings of the site's publishers in ``data/site.yaml``.
"""

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

#: Folder of style sheets and scripts, which the pages' policy forbids within pages.
ASSETS: Final = "assets"

#: Scripts of every page, and of papers; none depends on another.
SCRIPTS: Final = ("regions.js", "dialog.js", "search.js", "tables.js")
PAPER_SCRIPTS: Final = (
    *SCRIPTS,
    "contents.js",
    "numbers.js",
    "references.js",
    "figures.js",
    "roofline.js",
)

#: Pages on all studies: file → text of links to it.
OVERVIEWS: Final = {
    "index.html": "Papers",
    "claims.html": "Claims",
    "atlas.html": "Atlas",
    "reported.html": "Published values",
    "machines.html": "Machines",
    "records.html": "Records",
}

#: All pages above, and the roofline of any machine, linked from the list of machines.
PAGES: Final = (*OVERVIEWS, "roofline.html")

Address: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s<>\"'{}|\\^`]+/$")]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Words around the papers; ``url`` is the address of the site, with a slash at its end.

    The ``footer`` names the site's owner; a paper's authors are in its front matter.  The authors
    of a replication report are ``authors``, or the ``teacher`` of the ``course``.
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


#: ``Settings | None``, which type checkers do not accept as a class.
_FILE: Final[Any] = Settings | None


def read_settings(data: Path) -> Settings:
    """Read the settings of the site; without a file they are the defaults.

    Raises ``RecordError`` for an unknown key, or a value of another type.
    """
    path = data / "site.yaml"
    if not path.exists():
        return Settings()
    # None if all lines of the file are comments.
    settings: Settings | None = read_strictly(path, _FILE, _REMEDY, data)
    return settings or Settings()


@cache
def environment(folder: str, *, escape: bool) -> jinja2.Environment:
    """Make the Jinja environment of a folder; cached, so that each template is compiled once."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / folder),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_template(name: str, settings: Settings, **content: Any) -> str:
    """Render the template ``templates/html/<name>`` with ``content``, which is escaped."""
    shared = {"policy": POLICY, "overviews": OVERVIEWS, "settings": settings}
    return visible(environment("html", escape=True).get_template(name).render(**shared, **content))


def write_assets(target: Path) -> None:
    """Copy the style sheet and the scripts of all pages below ``target``."""
    folder = target / ASSETS
    folder.mkdir(parents=True, exist_ok=True)
    for path in (TEMPLATES / "html" / ASSETS).iterdir():
        shutil.copyfile(path, folder / path.name)


def script_of(name: str, content: Any) -> str:
    """Write a script that sets ``ridgepoint.<name>`` to ``content``, for other scripts to read.

    A page that is opened from disk cannot read JSON files, but can load a script.
    """
    text = json.dumps(
        visible_in(content), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return f"(globalThis.ridgepoint ??= {{}}).{name} = {text};\n"
