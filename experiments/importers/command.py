"""``python -m experiments import FILE…``: convert published files to records with their origin."""

import argparse
import csv
import gzip
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import asdict

from experiments.importers import profiles, tables
from experiments.importers.imported import FETCH_AGAIN, Imported, ImportSource
from experiments.machine.code import ROOT
from report.core.errors import RecordError
from report.core.records.file_format import encode, parse
from report.core.records.files import read_file
from report.core.records.record import IMPORT_SCHEMA, Attachment, ImportedRecord, Origin
from report.core.records.store import digest, read_usable_records, write_record
from report.core.system.commandline import parse_named_values

#: Largest file (B) that is stored beside its record; larger uncompressed files are gzipped first.
LARGEST_STORED_FILE: Final = 150_000
#: Largest record (B) that can be committed.
LARGEST_RECORD: Final = 600_000

#: Format → pattern that a file's content begins with, and function that reads a file.
#: Readers never guess: they raise ``RecordError``, for example for numbers without a unit.
FORMATS: Final[dict[str, tuple[str, Callable[[ImportSource], Imported]]]] = {
    "kineto_trace": (r'\s*\{[\s\S]*"traceEvents"', profiles.read_kineto),
    "memory_timeline": (r"\s*\[\s*\[(\s*-?\d+\s*,){3}\s*\d+\s*\]", profiles.read_memory),
    # The first line names a column of networks and a column of step times.
    "timm_csv": (r"(?=.*\bmodel\b).*\b(infer|train)_step_time\b", tables.read_timm),
    # The first line names a column with a unit in brackets.
    "tidy_csv": (r"(.*,)?[^\w\n]*\w+ \[[^],\n]+\]", tables.read_tidy),
    # A log of ncu has a header with kernels' names or, if it lacks a table, a message of ncu.
    "ncu_csv": (r'[\s\S]*("Kernel Name"|(^|\n)==(PROF|WARNING|ERROR)== )', profiles.read_ncu),
}
#: Exceptions that damaged content raises in readers where they do not check it.
_READER_ERRORS: Final = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, csv.Error,
)  # fmt: skip


def import_files(options: argparse.Namespace) -> int:
    """Import all files or, if one causes an error, none; return the exit code 0."""
    user_facts = parse_named_values("--set", options.set)
    user_facts |= {"device": options.device} if options.device else {}
    records = []
    for path in options.files:
        raw = read_file(path, str(path), "correct the name")
        if not raw.strip():
            raise RecordError(f"{path.name}: the file is empty; fetch it again.")
        records.append(_record(ImportSource(path.name, raw, user_facts), options))
    for record, files in records:
        print(f"Record: {write_record(record, options.records, files)}")
    if not (ROOT / "report" / "studies" / options.study).is_dir():
        print(f"There is no study {options.study} yet; python build.py --new begins one.")
    return 0


def read_any(source: ImportSource) -> tuple[str, Imported]:
    """Return a file's format and content; raise ``RecordError`` for unknown format or damage."""
    for name, (pattern, read) in FORMATS.items():
        if not re.match(pattern.encode(), source.content):
            continue
        try:
            return name, read(source)
        except _READER_ERRORS as error:
            reason = f"not a valid file of {name} ({type(error).__name__}: {error})"
            raise source.error(f"{reason}; fetch it again") from error
    formats = ", ".join(FORMATS)
    raise source.error(f"found no file of a format that can be imported ({formats})")


def _record(
    source: ImportSource, options: argparse.Namespace
) -> tuple[ImportedRecord, dict[str, bytes]]:
    """Convert a published file to a record; also return the files to store beside the record."""
    sha256 = digest(source.raw)
    usable, _ = read_usable_records(options.study, options.records, ImportedRecord)
    for stored in usable:
        if stored.record.origin.sha256 == sha256:
            raise RecordError(f"{source.name}: imported already as {stored.file}; nothing to do.")
    format_, imported = read_any(source)
    files = _file_to_store(source)
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
            given=dict(source.user_facts),
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
            for name, content in files.items()
        ),
    )
    # Every null field gets a reason.
    missing = dict.fromkeys(("started", "finished"), imported.unstated)
    for name, value in (asdict(record.origin) | asdict(record.environment)).items():
        if value is None:
            was_asked = name in ("address", "commit")
            missing[name] = "not given when it was imported" if was_asked else imported.unstated
    missing |= imported.missing
    if not files:
        missing["published_file"] = (
            f"it has {len(source.raw):,} bytes; its SHA-256 tells it from others"
        )
    text = encode(msgspec.structs.replace(record, missing=missing))
    if len(text) > LARGEST_RECORD:
        reason = f"its record would have {len(text):,} bytes, more than {LARGEST_RECORD:,}"
        raise source.error(f"{reason}; import a part of the file")
    return parse(text, source.name, ImportedRecord, FETCH_AGAIN), files


def _file_to_store(source: ImportSource) -> dict[str, bytes]:
    """Return {plain name: content} of the published file; empty if it is too large to store."""
    # Of several other characters in a row the last remains: it may be the point of the extension.
    name = re.sub(r"[^a-z0-9]*([^a-z0-9])", r"\1", source.name.lower())
    name = re.sub(r"[^a-z0-9._-]", "-", name).strip("._-")
    if not name:
        raise source.error("its name has no letter from a to z and no number; rename the file")
    content = source.raw
    is_uncompressed = source.content is source.raw
    if len(content) > LARGEST_STORED_FILE and is_uncompressed:
        content, name = gzip.compress(source.raw, mtime=0), f"{name}.gz"
    return {name: content} if len(content) <= LARGEST_STORED_FILE else {}
