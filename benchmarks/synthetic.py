"""Made-up inputs of any size, in scratch folders only: records, and a project of many studies.

Records are cut from a committed one, so that every field is there and in its place; nothing of
them is a result, and none of them may lie in ``data/``.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.project import ROOT, copy_project
from report.records.filed import encode
from report.records.record import Case, Record, Series
from report.records.store import read_study, record_name

STUDY: Final = "conv_scaling"
#: What is kept of a case.
_SAMPLES: Final = 10
_FIRST: Final = datetime(2001, 1, 1, tzinfo=UTC)


def pattern(study: str = STUDY) -> Record:
    """The newest committed record of a study, with one short series of times in each case."""
    record = read_study(STUDY, ROOT / "data")[-1].record
    cases = tuple(_cut(case) for case in record.cases if case.samples("time"))
    return msgspec.structs.replace(record, study=study, cases=cases, attachments=())


def _cut(case: Case) -> Case:
    short = Series(quantity="time", unit="s", samples=case.samples("time")[:_SAMPLES])
    return msgspec.structs.replace(case, series=(short,), rounds=(), layers=case.layers[:1])


def sized(record: Record, cases: int, number: int) -> Record:
    """A record of ``cases`` cases that began ``number`` minutes after the first; none are alike."""
    numbered = enumerate(islice(cycle(record.cases), cases))
    many = tuple(
        msgspec.structs.replace(case, factors={**case.factors, "copy": index})
        for index, case in numbered
    )
    moment = (_FIRST + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return msgspec.structs.replace(record, cases=many, started=moment, finished=moment)


def write_records(data: Path, records: int, cases: int, study: str = STUDY) -> int:
    """Write ``records`` records of ``cases`` cases each into ``data``; returns their bytes."""
    base = pattern(study)
    (data / study).mkdir(parents=True, exist_ok=True)
    return sum(_write(sized(base, cases, number), data) for number in range(records))


def _write(record: Record, data: Path) -> int:
    # Without the store's fsync: nothing is lost if these files are.
    return (data / record.study / record_name(record)).write_bytes(encode(record) + b"\n")


def small_studies(studies: int) -> tuple[str, ...]:
    """The names of so many small studies."""
    return tuple(f"small_{number:03d}" for number in range(studies))


def write_project(folder: Path, studies: int, cases: int = 10) -> None:
    """A copy of the project in ``folder`` whose ``studies`` studies are all the small one."""
    copy_project(folder)
    for study in (folder / "report" / "studies").iterdir():
        if study.is_dir():
            shutil.rmtree(study)
    for name in ("pins.yaml", "expected.yaml"):
        # They name the studies that are gone.
        (folder / "data" / name).unlink(missing_ok=True)
    base = pattern()
    for number, study in enumerate(small_studies(studies)):
        _write_study(study, sized(base, cases, number), folder)


def _write_study(study: str, record: Record, folder: Path) -> None:
    code = folder / "report" / "studies" / study
    code.mkdir()
    (code / "__init__.py").write_text("ATTACHMENTS = ()\n", "utf-8")
    shutil.copyfile(Path(__file__).with_name("small_study.py"), code / "study.py")
    data = folder / "data"
    (data / study).mkdir()
    _write(msgspec.structs.replace(record, study=study), data)
    (data / "reported" / f"{study}.json").write_text(json.dumps(_reported(study)), "utf-8")
    template = folder / "templates" / "papers" / f"{study}.qmd.j2"
    shutil.copyfile(Path(__file__).with_name("small_study.qmd.j2"), template)


def _reported(study: str) -> dict[str, object]:
    """Nothing was reported, by a source that is in the bibliography."""
    real = json.loads((ROOT / "data" / "reported" / f"{STUDY}.json").read_text("utf-8"))
    return {**real, "study": study, "tables": [], "values": []}


def change_one(folder: Path, number: int) -> None:
    """Change one sample of the record of one small study."""
    path = next((folder / "data" / small_studies(number + 1)[number]).glob("*.json"))
    content = json.loads(path.read_text("utf-8"))
    content["cases"][0]["series"][0]["samples"][0] *= 1.5
    path.write_text(json.dumps(content, indent=1), "utf-8")
