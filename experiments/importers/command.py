"""``python -m experiments import FILE…``: published files become records with their origin."""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness.recording import utc
from experiments.harness.study import UsageError
from experiments.importers.formats import read_any
from experiments.importers.imported import FETCH_AGAIN, Imported, Source, source_of
from report.errors import RecordError
from report.records.imported import (
    IMPORT_SCHEMA,
    Address,
    ImportedRecord,
    Licence,
    Origin,
    Revision,
    encode,
    list_imports,
    nullable,
    parse_import,
    write_import,
)
from report.records.record import Attachment, FileName, Slug
from report.records.store import digest

#: A published file of at most so many bytes, gzipped if it is text, is kept beside its record.
LARGEST_KEPT: Final = 150_000
_STUDIES: Final = Path(__file__).parents[2] / "report" / "studies"
#: A record beyond this is too large to be committed.
LARGEST_RECORD: Final = 600_000


def add_import(go: argparse.ArgumentParser) -> None:
    """The options of ``import``."""
    go.add_argument("files", nargs="+", type=Path, metavar="FILE", help="published measurements")
    go.add_argument("--study", required=True, help="the study whose data they become")
    go.add_argument(
        "--origin", required=True, metavar="TEXT", help="who measured: a person or organisation"
    )
    go.add_argument(
        "--licence", required=True, metavar="ID", help="SPDX identifier, such as Apache-2.0"
    )
    go.add_argument("--address", metavar="URL", help="where the file is published")
    go.add_argument("--commit", metavar="HASH", help="the revision of it there")
    go.add_argument("--device", metavar="NAME", help="full name of the device, as vendors write it")
    go.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a condition that the file does not tell, such as precision=amp; may be repeated",
    )
    go.add_argument(
        "--records", type=Path, default=Path("data"), metavar="DIR", help="default: data"
    )
    go.add_argument("--debug", action="store_true", help="show tracebacks")


def import_files(options: argparse.Namespace) -> int:
    """Import all files, or none: whatever cannot be imported stops before anything is written."""
    made = [_record(source_of(p, options.device, _given(options)), options) for p in options.files]
    for record, files in made:
        path = write_import(record, options.records, files)
        print(f"Record: {path}")
    if not (_STUDIES / options.study).is_dir():
        print(f"There is no study {options.study} yet; python build.py --new begins one.")
    return 0


def _given(options: argparse.Namespace) -> dict[str, str]:
    pairs = [text.partition("=") for text in options.settings]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise UsageError(f"--set {name}{sign}{value} is not possible; write NAME=VALUE.")
    return {name: value for name, _, value in pairs}


def _record(source: Source, options: argparse.Namespace) -> tuple[ImportedRecord, dict[str, bytes]]:
    """A published file as the record that will be read, with the files beside it."""
    study = _checked("--study", options.study, Slug)
    format_, imported = read_any(source)
    origin = _origin(source, imported, format_, options)
    _refuse_again(origin, options)
    files, reasons = _files(source, imported)
    record = ImportedRecord(
        schema=IMPORT_SCHEMA,
        study=study,
        origin=origin,
        environment=imported.environment,
        started=None,
        finished=None,
        conditions=dict(imported.conditions),
        rounding=dict(imported.rounding),
        missing=reasons,
        cases=imported.cases,
        attachments=tuple(
            Attachment(name=name, sha256=digest(content), meaning=meaning)
            for name, (content, meaning) in files.items()
        ),
    )
    record = msgspec.structs.replace(record, missing=_missing(record, imported, reasons))
    text = encode(record)
    if len(text) > LARGEST_RECORD:
        raise source.refused(
            f"its record would have {len(text):,} bytes, more than {LARGEST_RECORD:,}; import a "
            "part of the file"
        )
    return parse_import(text, source.name, FETCH_AGAIN), {
        name: content for name, (content, _) in files.items()
    }


def _origin(
    source: Source, imported: Imported, format_: str, options: argparse.Namespace
) -> Origin:
    return Origin(
        author=options.origin,
        address=options.address and _checked("--address", options.address, Address),
        commit=options.commit and _checked("--commit", options.commit, Revision),
        licence=_checked("--licence", options.licence, Licence),
        instrument=imported.instrument,
        instrument_version=None,
        format=format_,
        file=source.name,
        sha256=digest(source.raw),
        imported=utc(datetime.now(UTC)),
        given={**({"device": source.device} if source.device else {}), **source.given},
    )


def _checked(option: str, text: str, kind: object) -> str:
    try:
        return str(msgspec.convert(text, kind))
    except msgspec.ValidationError:
        raise UsageError(f"{option} {text!r} is not possible; --help says what it is.") from None


def _refuse_again(origin: Origin, options: argparse.Namespace) -> None:
    """Refuse a file that the study has already."""
    for stored in list_imports(options.study, options.records):
        if stored.record.origin.sha256 == origin.sha256:
            raise RecordError(f"{origin.file}: imported already as {stored.file}; nothing to do.")


def _files(
    source: Source, imported: Imported
) -> tuple[dict[str, tuple[bytes, str]], dict[str, str]]:
    """The files beside the record, and why the published one is not among them, if it is not."""
    name = re.sub(r"[^a-z0-9._-]+|(?<=[._-])[._-]+", "-", source.name.lower()).strip("._-")
    packed = source.raw
    if len(packed) > LARGEST_KEPT and source.content is source.raw:
        packed, name = gzip.compress(source.raw, mtime=0), f"{name}.gz"
    if len(packed) > LARGEST_KEPT:
        why = f"it has {len(source.raw):,} bytes; its SHA-256 tells it from others"
        return dict(imported.attachments), {"published_file": why}
    original = {_checked("The name", name, FileName): (packed, "the published file")}
    return {**original, **imported.attachments}, {}


def _missing(
    record: ImportedRecord, imported: Imported, reasons: Mapping[str, str]
) -> dict[str, str]:
    """A reason for all that is null, and for what else the importer or the command names."""
    null = [name for name, value in nullable(record).items() if value is None]
    own = {"address": "not given when it was imported", "commit": "not given when it was imported"}
    why = {name: own.get(name, imported.unstated) for name in null}
    return {**why, **imported.missing, **reasons}
