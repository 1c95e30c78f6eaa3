"""``python -m experiments import FILE…``: published files become records with their origin."""

from __future__ import annotations

import argparse
import csv
import gzip
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import asdict

from experiments.importers import profiles, tables
from experiments.importers.imported import FETCH_AGAIN, Imported, Source
from report.core.errors import RecordError, UsageError
from report.core.records.filed import encode, parse
from report.core.records.files import read_file
from report.core.records.imported import IMPORT_SCHEMA, ImportedRecord, Origin
from report.core.records.record import Attachment
from report.core.records.store import digest, survey, write_record

#: A published file of at most so many bytes, gzipped if it is text, is kept beside its record.
LARGEST_KEPT: Final = 150_000
#: A record beyond this is too large to be committed.
LARGEST_RECORD: Final = 600_000
_STUDIES: Final = Path(__file__).parents[2] / "report" / "studies"

#: Format → whether a file is of it, by its content, and what a file says; ``RecordError`` for what
#: has no unit, or would have to be guessed.
FORMATS: Final[dict[str, tuple[Callable[[Source], bool], Callable[[Source], Imported]]]] = {
    "kineto_trace": (profiles.is_trace, profiles.read_kineto),
    "memory_timeline": (profiles.is_timeline, profiles.read_memory),
    "timm_csv": (tables.is_timm, tables.read_timm),
    "tidy_csv": (tables.is_tidy, tables.read_tidy),
    "ncu_csv": (profiles.is_ncu, profiles.read_ncu),
}
#: What a file raises that holds something else than its format says, in a place not foreseen.
_UNFORESEEN: Final = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, csv.Error,
)  # fmt: skip


def import_files(options: argparse.Namespace) -> int:
    """Import all files, or none: whatever cannot be imported stops before anything is written."""
    given = dict(map(_pair, options.set))
    given |= {"device": options.device} if options.device else {}
    found = []
    for path in options.files:
        raw = read_file(path, str(path), "correct the name")
        if not raw.strip():
            raise RecordError(f"{path.name}: the file is empty; fetch it again.")
        found.append(_record(Source(path.name, raw, given), options))
    for record, files in found:
        print(f"Record: {write_record(record, options.records, files)}")
    if not (_STUDIES / options.study).is_dir():
        print(f"There is no study {options.study} yet; python build.py --new begins one.")
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UsageError(f"--set {text} is not possible; write NAME=VALUE.")
    return name, value


def read_any(source: Source) -> tuple[str, Imported]:
    """The format of ``source``, told by its content, and what it says.

    Raises ``RecordError`` for a file of no format, and a damaged one.
    """
    name = next((name for name, (detects, _) in FORMATS.items() if detects(source)), None)
    if name is None:
        formats = ", ".join(FORMATS)
        raise source.refused(
            f"found no file of a format that can be imported ({formats}); check it"
        )
    try:
        return name, FORMATS[name][1](source)
    except _UNFORESEEN as error:
        what = f"not what a file of {name} holds ({type(error).__name__}: {error})"
        raise source.refused(f"{what}; fetch it again") from error


def _record(source: Source, options: argparse.Namespace) -> tuple[ImportedRecord, dict[str, bytes]]:
    """A published file as the record that will be read, with the files beside it."""
    sha256 = digest(source.raw)
    for stored in survey(options.study, options.records, ImportedRecord)[0]:
        if stored.record.origin.sha256 == sha256:
            raise RecordError(f"{source.name}: imported already as {stored.file}; nothing to do.")
    format_, imported = read_any(source)
    kept = _files(source)
    record = ImportedRecord(
        schema=IMPORT_SCHEMA,
        study=options.study,
        origin=Origin(
            author=options.origin,
            address=options.address,
            commit=options.commit,
            licence=options.licence,
            instrument=imported.instrument,
            instrument_version=None,
            format=format_,
            file=source.name,
            sha256=sha256,
            imported=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            given=dict(source.given),
        ),
        environment=imported.environment,
        started=None,
        finished=None,
        conditions=dict(imported.conditions),
        rounding=dict(imported.rounding),
        missing={},
        cases=imported.cases,
        attachments=tuple(
            Attachment(name=name, sha256=digest(content), meaning="the published file")
            for name, content in kept.items()
        ),
    )
    # A reason for all that is null, and for what else the importer names.
    untold = dict.fromkeys(("address", "commit"), "not given when it was imported")
    told = asdict(record.origin) | asdict(record.environment) | {"started": None, "finished": None}
    null = [name for name, value in told.items() if value is None]
    missing = {name: untold.get(name, imported.unstated) for name in null} | dict(imported.missing)
    if not kept:
        size = f"it has {len(source.raw):,} bytes; its SHA-256 tells it from others"
        missing["published_file"] = size
    text = encode(msgspec.structs.replace(record, missing=missing))
    if len(text) > LARGEST_RECORD:
        large = f"its record would have {len(text):,} bytes, more than {LARGEST_RECORD:,}"
        raise source.refused(f"{large}; import a part of the file")
    return parse(text, source.name, ImportedRecord, FETCH_AGAIN), kept


def _files(source: Source) -> dict[str, bytes]:
    """The published file as it is kept beside the record; nothing of one that is too large."""
    # Of what stands between two words one sign is kept, the last, since an ending begins with it.
    name = re.sub(r"[^a-z0-9]*([^a-z0-9])", r"\1", source.name.lower())
    name = re.sub(r"[^a-z0-9._-]", "-", name).strip("._-")
    if not name:
        raise source.refused("its name has no letter from a to z and no number; rename the file")
    content = source.raw
    if len(content) > LARGEST_KEPT and source.content is source.raw:
        content, name = gzip.compress(source.raw, mtime=0), f"{name}.gz"
    return {name: content} if len(content) <= LARGEST_KEPT else {}
