"""The tools that stand beside ridgepoint, each with a generated project of the same work."""

from __future__ import annotations

from typing import Final

from benchmarks.peers import commands, mystmd, sphinx_myst_nb
from benchmarks.peers.peer import Peer

#: In the order of the tables.
PEERS: Final[tuple[Peer, ...]] = (
    sphinx_myst_nb.PEER,
    mystmd.PEER,
    commands.DOIT,
    commands.SCRIPT,
)
