"""Run the stale steps of a build; if there are none, import no more than ``plan`` imports."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from report.engine import cache
from report.engine.plan import plan
from report.engine.steps import SITE, Announce, BuildRequest, Failure


class Summary(NamedTuple):
    """The result of a build: ``stale`` steps with their reasons, and ``notices`` for the user.

    ``engine_note`` describes the engine of the PDFs.  ``replaced`` maps a study to the folders and
    files that were written.
    """

    request: BuildRequest
    stale: Mapping[str, str]
    notices: tuple[str, ...]
    engine_note: str
    replaced: Mapping[str, Sequence[Path]] = MappingProxyType({})
    failed: tuple[Failure, ...] = ()


def build(request: BuildRequest, announce: Announce) -> Summary:
    """Run the stale steps of ``request``.

    Raises ``RidgepointError`` only for problems that stop every study, such as a missing engine or
    a folder that cannot be written.  Studies that fail alone are in the summary's ``failed``.
    """
    current = plan(request)
    stale = current.stale()
    replaced: dict[str, Sequence[Path]] = {}
    failed: list[Failure] = []
    if stale or _was_interrupted(current.built, str(request.out)):
        from report.engine.place import only_build
        from report.engine.run import run

        with only_build(request.out, announce) as stage:
            # Another build may have run steps meanwhile, and links of outputs are gone.
            current = plan(request)
            if stale := current.stale():
                replaced, failed = run(current, stale, stage, announce)
            cache.write_site_digests(current.built, str(request.out))
    current.index.save()
    names = {*request.studies, SITE} - {failure.study for failure in failed}
    notices: dict[str, None] = {}
    for id, entry in current.built.items():
        if id.partition("/")[0] in names:
            notices |= dict.fromkeys(entry.notices)
    return Summary(request, stale, (*notices,), current.engine_note, replaced, tuple(failed))


def _was_interrupted(built: Mapping[str, cache.StepEntry], out: str) -> bool:
    """Return whether a killed build left temporary files, or digests that are not of this site."""
    if any(name.startswith(cache.SCRATCH) for name in os.listdir(out)):
        return True
    return not cache.lists_site(built, out)
