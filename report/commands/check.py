"""``--check``: is everything that was built still right, and does it still say the same?

What the papers are expected to say stands in ``data/expected.yaml``: the verdict of each claim, and
the reported values that are known to fail their audit.  ``--accept`` writes it.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from report.commands.arguments import request_of
from report.commands.console import shown
from report.engine.gather import accept_records, compute_usable
from report.engine.pipeline import Request, look
from report.engine.steps import ARTIFACTS, RECORDS
from report.errors import RidgepointError, unwritable
from report.paper.manuscript import render_manuscript
from report.records.strict import read_by_study
from report.studies import STUDIES

EXPECTED: Final = "expected.yaml"
_REMEDY: Final = "let 'python build.py --accept' write it"
_HEAD: Final = """\
# What the papers are expected to say; python build.py --check tells when one says something else.
# claims: the verdict of each claim.  audits: the numbers of the source that do not follow from the
# numbers beside them.  Written by python build.py --accept; read the difference before committing.
"""


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one paper is expected to say: claim → verdict, and the audits that are known to fail."""

    claims: dict[str, str] = {}
    audits: tuple[str, ...] = ()


def check(options: Namespace) -> int:
    """Print what is stale or not as expected; returns 1 if anything is."""
    found = faults(request_of(options))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


def accept(options: Namespace) -> int:
    """Make the records of --use the edition; write down today's verdicts and audits as expected.

    Studies that are not asked for stay as they are.  Raises ``RidgepointError`` for a study that
    cannot be computed, or a folder without permission.
    """
    request = request_of(options)
    for study, files in request.use.items():
        print(shown(accept_records(study, request.data, files)))
    request, path = request._replace(use={}), request.data / EXPECTED
    stale = look(request).stale()
    now = {study: _results(_content(study, request, stale)[0]) for study in request.studies}
    content = msgspec.to_builtins({**read_expected(request.data), **now}, str_keys=True)
    text = yaml.safe_dump(content, allow_unicode=True, sort_keys=True, width=100)
    try:
        path.write_text(_HEAD + text, "utf-8")
    except OSError as error:
        raise unwritable(error) from error
    print(shown(path))
    return 0


def faults(request: Request) -> tuple[str, ...]:
    """What is wrong, a sentence each; nothing is written.

    Raises ``RidgepointError`` for an ``expected.yaml`` that cannot be understood.
    """
    stale = look(request).stale()
    expected = read_expected(request.data)
    said: list[str] = []
    for study in request.studies:
        try:
            content, listed = _content(study, request, stale)
        except RidgepointError as error:
            said.append(str(error))
            continue
        said += content["unsupported"]
        if study in expected:
            said += differences(study, expected[study], _results(content))
        said += [f"{study}: {each['why']}" for each in listed if each.get("left_out")]
    # What a paper says comes first: it is why somebody looks.
    return (*said, *(f"{step} is stale: {why}." for step, why in stale.items()))


def read_expected(data: Path) -> dict[str, Expected]:
    """What the papers are expected to say; nothing without a file.  Raises ``RecordError``."""
    return read_by_study(data / EXPECTED, Expected, _REMEDY, data, STUDIES)


def differences(study: str, expected: Expected, now: Expected) -> Iterator[str]:
    """The claims with another verdict than expected, and the audits that fail newly."""
    for claim, verdict in expected.claims.items():
        found = now.claims.get(claim)
        if found is None:
            yield f"{study}: the claim {claim} is made no more; it was {verdict}."
        elif found != verdict:
            yield f"{study}: the claim {claim} is {found}; it was {verdict}."
    for audit in now.audits:
        if audit not in expected.audits:
            yield f"{study}: a reported value fails its audit newly: {audit}."


def _results(content: dict[str, Any]) -> Expected:
    """What a paper says, as it may be expected."""
    failed = (each for each in content["audits"] if each["verdict"] == "differs")
    return Expected(
        {id: claim["verdict"] for id, claim in content["claims"].items()},
        tuple(f"{audit['place']}: {audit['formula']}" for audit in failed),
    )


def _content(
    study: str, request: Request, stale: Collection[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The values of a paper from the present data, and what became of each record.

    Computed only if that is not known; raises ``RidgepointError`` for a study that cannot be.
    """
    if not {f"{study}/study", f"{study}/document"} & set(stale):
        paths = (f"values/{study}.json", f"{ARTIFACTS}/{study}/{RECORDS}")
        content, listed = (json.loads((request.out / path).read_text("utf-8")) for path in paths)
        return content, listed
    chosen, findings = compute_usable(study, request.data)
    manuscript = render_manuscript(request.papers / f"{study}.qmd.j2", findings)
    content = {**findings.as_json(study, ()), "unsupported": manuscript.unsupported}
    return content, [*map(dict, chosen.listing)]
