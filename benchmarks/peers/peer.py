"""What a peer is: the files of its project, the command that builds it, and where its pages are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.work import DOCUMENTS, data, data_text, shared


@dataclass(frozen=True)
class Peer:
    """A tool that does the five-document work.

    ``kit`` names the installation it runs in (``versions.toml``).  ``source`` and ``page`` hold
    ``{document}``; ``built`` is all that the tool leaves in the project, its caches too, and what
    a cold build does not find.
    """

    name: str
    title: str
    makes: str
    caching: str
    kit: str
    files: Callable[[], Mapping[str, str]]
    modules: tuple[str, ...]
    source: str
    page: str
    command: tuple[str, ...]
    built: tuple[str, ...]


def project_files(peer: Peer) -> dict[str, str]:
    """Every file of the peer's project: path → text."""
    return {
        **{f"data/{document}.json": data_text(data(document)) for document in DOCUMENTS},
        **{module: shared(module) for module in peer.modules},
        **peer.files(),
    }


def write_project(peer: Peer, folder: Path) -> None:
    """Write the peer's project into ``folder``."""
    for name, text in project_files(peer).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
