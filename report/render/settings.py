"""What the people of a site say of it: ``data/site.yaml``, with a default for everything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from report.records.record import Text
from report.records.strict import read_strictly

_REMEDY: Final = "mend it as docs/publishing.md says, or remove the file"

Address: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s<>\"'{}|\\^`]+/$")]


class Author(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One of those who publish the site."""

    name: Text
    affiliation: Text | None = None


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The words around the papers; ``url`` is where the site is published, with a slash at its end.

    The authors of a paper stand in its front matter; these are the people of the site.
    """

    title: Text = "Performance of convolutional networks, measured and reproduced"
    lead: Text = (
        "Each paper is computed from raw measurements that are kept beside it: "
        "theory, measurement and published values stand side by side."
    )
    course: Text | None = None
    authors: tuple[Author, ...] = ()
    footer: Text | None = None
    licence: Text | None = None
    url: Address | None = None


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
