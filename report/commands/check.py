"""``--check``: is everything that was built still right, and does it still say the same?

What the papers are expected to say stands in ``data/expected.yaml``: the verdict of each claim, and
the reported values that are known to fail their audit.  ``--accept`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from report.engine.computing import compute
from report.engine.gather import choose, gather
from report.engine.pipeline import Request, Summary, look
from report.engine.steps import ARTIFACTS, RECORDS
from report.errors import RidgepointError, unwritable
from report.paper.manuscript import render_manuscript
from report.paper.prose import check_prose
from report.records.strict import read_strictly, refuse_first
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


#: What a type checker takes for no class.
_FILE: Final[Any] = dict[str, Expected] | None


@dataclass(frozen=True)
class Results:
    """What one paper says now."""

    claims: Mapping[str, str]
    audits: tuple[str, ...]
    unsupported: tuple[str, ...] = ()


def faults(request: Request) -> tuple[str, ...]:
    """What is wrong, a sentence each; nothing is written.

    Raises ``RidgepointError`` for an ``expected.yaml`` that cannot be understood.
    """
    found = look(request)
    expected = read_expected(request.data)
    return (
        # What a paper says comes first: it is why somebody looks.
        *(
            fault
            for study in request.studies
            for fault in _changed(study, request, found, expected)
        ),
        *_typed(request),
        *(each for study in request.studies for each in _left_out(study, request, found)),
        *_stale(found),
    )


def faults_as(found: Iterable[str], form: str) -> tuple[str, ...]:
    """Faults as lines of ``text``, as one ``json`` array, or as commands of a ``github`` workflow.

    The form of a workflow's commands: https://docs.github.com/actions/reference/workflow-commands
    """
    if form == "json":
        return (json.dumps([{"level": "error", "message": fault} for fault in found], indent=2),)
    if form == "github":
        return tuple(f"::error title=ridgepoint::{fault.replace('%', '%25')}" for fault in found)
    return tuple(found)


def accept_results(request: Request) -> Path:
    """Write what the papers say now as expected; studies that are not asked for stay as they are.

    Raises ``RidgepointError`` for a study that cannot be computed, or a folder without permission.
    """
    found = look(request)
    now = {study: results(study, request, found) for study in request.studies}
    old = {
        study: Results(item.claims, item.audits)
        for study, item in read_expected(request.data).items()
    }
    content = {
        study: {"claims": dict(item.claims), "audits": list(item.audits)}
        for study, item in {**old, **now}.items()
    }
    path = request.data / EXPECTED
    text = yaml.safe_dump(content, allow_unicode=True, sort_keys=True, width=100)
    try:
        path.write_text(_HEAD + text, "utf-8")
    except OSError as error:
        raise unwritable(error) from error
    return path


def read_expected(data: Path) -> dict[str, Expected]:
    """What the papers are expected to say; nothing without a file.  Raises ``RecordError``."""
    path = data / EXPECTED
    if not path.exists():
        return {}
    found: dict[str, Expected] = read_strictly(path, _FILE, "YAML", _REMEDY, data) or {}
    unknown = (f"{name}: found a name that is no study" for name in found if name not in STUDIES)
    refuse_first(unknown, path, f"the studies are {', '.join(STUDIES)}")
    return found


def differences(study: str, expected: Expected, now: Results) -> Iterator[str]:
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


def results(study: str, request: Request, found: Summary) -> Results:
    """What the paper of ``study`` says of the present data; computed only if that is not known.

    Raises ``RidgepointError`` for a study that cannot be computed.
    """
    known = request.out / "values" / f"{study}.json"
    made = f"{study}/document"
    if any(verdict.step.id == made and verdict.fresh for verdict in found.verdicts):
        content = json.loads(known.read_text("utf-8"))
    else:
        found_now = compute(study, gather(study, request.data))
        template = request.papers / f"{study}.qmd.j2"
        manuscript = render_manuscript(template, found_now)
        unsupported = [each.refusal(template.name) for each in manuscript.unsupported]
        content = {**found_now.as_json(study, ()), "unsupported": unsupported}
    claims = {id: claim["verdict"] for id, claim in content["claims"].items()}
    return Results(claims, tuple(_failed(content["audits"])), tuple(content["unsupported"]))


def _failed(audits: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for audit in audits:
        if audit["verdict"] == "differs":
            yield f"{audit['place']}: {audit['formula']}"


def _changed(
    study: str, request: Request, found: Summary, expected: Mapping[str, Expected]
) -> Iterator[str]:
    try:
        now = results(study, request, found)
    except RidgepointError as error:
        yield str(error)
        return
    yield from now.unsupported
    if study in expected:
        yield from differences(study, expected[study], now)


def _stale(found: Summary) -> Iterator[str]:
    for verdict in found.stale:
        after = f"it follows from {', '.join(verdict.after)}"
        yield f"{verdict.step.id} is stale: {'; '.join(verdict.reasons) or after}."


def _left_out(study: str, request: Request, found: Summary) -> Iterator[str]:
    """The records that papers do without, since they cannot be used; looked for only if need be."""
    known = request.out / ARTIFACTS / study / RECORDS
    fresh = any(v.step.id == f"{study}/study" and v.fresh for v in found.verdicts)
    try:
        listed = (
            json.loads(known.read_text("utf-8")) if fresh else choose(study, request.data).listing
        )
    except RidgepointError:
        return  # reported with what the paper says
    yield from (f"{study}: {each['why']}" for each in listed if each.get("left_out"))


def _typed(request: Request) -> Iterator[str]:
    for study in request.studies:
        template = request.papers / f"{study}.qmd.j2"
        try:
            check_prose(template, template.read_text("utf-8"))
        except RidgepointError as error:
            yield str(error)
        except (OSError, UnicodeDecodeError) as error:
            yield f"templates/papers/{template.name}: cannot be read ({error}); restore it."
