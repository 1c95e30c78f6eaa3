"""Records: writing, reading, quantities, attachments, and frames with one row per sample."""

import copy
import errno
import io
import json
import os
import shutil
from array import array
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from report.commands.check import review
from report.core.errors import RecordError
from report.core.missing import Missing
from report.core.records import store
from report.core.records.file_format import EVENTS, encode, join_events, parse, split_events
from report.core.records.files import TABLE, gzipped, read_table, unpacked
from report.core.records.frames import sample_frame, write_samples
from report.core.records.quantities import FIXED, QUANTITIES
from report.core.records.record import (
    Attachment,
    Case,
    ImportedRecord,
    Record,
    Shard,
    pack_samples,
)
from report.core.records.strict import may_repeat_a_field
from report.engine.steps import BuildRequest
from report.evaluation.gather import choose_records
from report.evidence.runs import Run
from report.studies import STUDIES
from tests import factory
from tests.papers import compose
from tests.test_refusals import CASE, IMPORTED, RECORD

FILE = "data/conv_scaling/x.json"
DOCUMENT: dict[str, Any] = json.loads(encode(RECORD))


def case_with_second_round(**fields: Any) -> Case:
    """Return a case of two processes; ``fields`` replace those of the second process's round."""
    first, second = CASE.rounds
    return msgspec.structs.replace(CASE, rounds=(first, msgspec.structs.replace(second, **fields)))


OUTCOMES = (("ok", None), ("failed", "It broke."), ("unavailable", "No GPU."))
LAYERS = (factory.layer(1, "a"), factory.layer(1, "b"), factory.layer(3, "a"))


@pytest.mark.parametrize("shard", [None, Shard(number=2, of=4, sweep="a" * 64)])
@pytest.mark.parametrize("name", ["", 'a "name"', "a\\b", "a\nb"])
def test_records_are_read_as_written(name: str, shard: Shard | None) -> None:
    rounds, cases, times = [], [], (1e-9, 0.003008995, 1 / 3, 1e5)
    for policy, (process, (status, reason)) in product(
        (None, "default", "jemalloc"), enumerate(OUTCOMES, start=1)
    ):
        fields = {"policy": policy, "status": status, "reason": reason}
        disturbance = "Another program ran." if policy == "default" else None
        series = {"time": times[:process]}
        rounds.append(factory.round_(process, series, disturbance=disturbance, **fields))
    networks = ((), LAYERS[:1], LAYERS, LAYERS[1:], LAYERS)
    for batch, (layers, (status, reason)) in enumerate(product(networks, OUTCOMES), start=1):
        case = factory.case(batch, status=status, reason=reason, layers=layers)
        factors = {"batch": batch, name: "x"}
        cases.append(msgspec.structs.replace(case, rounds=tuple(rounds[:batch]), factors=factors))
    record = msgspec.structs.replace(factory.record(cases), shard=shard)
    decoded = parse(encode(record), FILE)
    assert decoded == record
    assert encode(decoded) == encode(record)
    all_layers = [case.layers for case in decoded.cases]
    assert len(set(map(id, all_layers))) == len(set(all_layers)), "equal layers are one tuple"


def test_rounds_layers_and_ceilings_have_one_line_each() -> None:
    """Layers are written once, for one image; a case has the number of its network and a batch."""
    lines = [line.strip().rstrip(",") for line in encode(RECORD).decode().splitlines()]
    parts = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    rounds = DOCUMENT["cases"][-1]["rounds"]
    for part in (*rounds, *DOCUMENT["cases"][:-1], *DOCUMENT["layers"], *DOCUMENT["ceilings"]):
        assert part in parts, part
    assert DOCUMENT["networks"] == [[["conv2", 0]]]
    (layer,) = DOCUMENT["layers"]
    assert (layer["input_shape"][0], layer["output_shape"][0]) == (1, 1)
    batches = (1, 4, 16, 64, 1, 4, 16, 64, 2)
    assert [case["layers"] for case in DOCUMENT["cases"]] == [[0, batch] for batch in batches]


def test_packed_samples_are_equal_and_written_alike() -> None:
    """The samples are numbers of one type, of both types, large and few."""
    series = {
        "time": (0.1, 0.2, 0.3, 4e-7), "page_faults": (0, 1, 2, 2**31), "allocated_peak": (1, 2, 3),
        "free_top": (7, 8, 9, 10), "image_rate": (1, 2.5, 3, 4),
    }  # fmt: skip
    case = msgspec.structs.replace(factory.case(9), series=series, rounds=())
    record = factory.record([case, *factory.layer_cases()])
    text, samples = encode(record), {name: [*numbers] for name, numbers in series.items()}
    pack_samples(record.cases)
    assert [type(numbers) for numbers in series.values()] == [array, array, tuple, array, tuple]
    assert {name: [*numbers] for name, numbers in series.items()} == samples
    assert encode(record) == text


def test_no_line_of_a_record_is_too_long_for_code_hosts() -> None:
    """Long series, rounds with many series, and deep networks are split into lines."""
    layers = tuple(factory.layer(1, f"layer with a long name, number {n}") for n in range(400))
    series = {name: tuple(n / 7 for n in range(2000)) for name in ("time", "cpu_time")}
    many_series = dict.fromkeys(list(QUANTITIES)[:40], tuple(range(2000)))
    round_ = factory.round_(1, {**many_series, **series})
    case = msgspec.structs.replace(factory.case(9, layers=layers), series=series, rounds=(round_,))
    record = factory.record([case, *factory.layer_cases()])
    text = encode(record)
    assert max(map(len, text.decode().split("\n"))) < 10_000
    assert parse(text, FILE) == record


def test_cases_of_one_network_must_have_the_same_layers() -> None:
    cases = [
        msgspec.structs.replace(
            factory.case(batch, layers=(factory.layer(batch, name),)),
            factors={"network": "A", "batch": batch},
        )
        for batch, name in ((4, "conv1"), (8, "conv9"))
    ]
    message = r"cases\[1\]\.layers: found others than in cases\[0\], of the same network"
    with pytest.raises(RecordError, match=message):
        parse(encode(factory.record(cases)), FILE)


def test_allocator_events_are_written_as_an_attachment(tmp_path: Path) -> None:
    """Without the attachment, a record is read without events; an altered one is refused."""
    series = {"memory_events": (700, -700), "memory_owners": (0, 0), "allocated_peak": (700,)}
    with_events = factory.record([CASE, msgspec.structs.replace(factory.case(9), series=series)])
    cases, content = split_events(with_events.cases)
    assert cases[0] == CASE and cases[1].series == {"allocated_peak": (700,)}
    assert split_events(cases) == (cases, b"")
    attachment = Attachment(name=EVENTS, sha256=store.digest(content), meaning="events")
    without_events = msgspec.structs.replace(with_events, cases=cases, attachments=(attachment,))
    path = store.write_record(without_events, tmp_path, {EVENTS: content})
    assert b"memory_events" not in path.read_bytes().replace(EVENTS.encode(), b"")
    read_back = store.read_record(path, tmp_path).record
    assert read_back == msgspec.structs.replace(with_events, attachments=(attachment,))
    attachment_path = store.attachments_folder(path) / EVENTS
    attachment_path.unlink()
    stored = store.read_record(path, tmp_path)
    run = Run(stored, "x")
    reason = f"no memory events recorded on x: {EVENTS} is not beside the record"
    assert stored.record.cases == cases
    assert run.samples("memory_events", cases[1].factors) == Missing(reason)
    attachment_path.write_bytes(b"altered")
    with pytest.raises(RecordError, match=f"{EVENTS}: the SHA-256 is not"):
        store.read_record(path, tmp_path)


def test_events_that_do_not_fit_the_cases_are_refused() -> None:
    record = factory.record([factory.case(1), factory.case(2)])
    for text, message in (
        (b"[{}]", "found the events of 1 cases, but the record has 2"),
        (b'[{}, {"memory_owners": [-1]}]', r"memory_owners\[0\]: expected int >= 0, found -1"),
        (b'[{}, {"memory_owners": [1], "memory_owners": [2]}]', "memory_owners twice"),
        (b'[{}, {"time": [1]}]', "time: object contains unknown field"),
    ):
        with pytest.raises(RecordError, match=message):
            join_events(record, text, "here")


def test_whole_nanoseconds_are_read_as_the_nearest_seconds() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["units"]["time"] = document["ceilings"][0]["unit"] = "ns"
    document["ceilings"][0]["samples"] = [3008995, 1]
    document["cases"] = document["cases"][:1]
    document["cases"][0]["series"] = {"time": [0, 1, 3008995, 2**51], "allocated_peak": [7]}
    record = parse(json.dumps(document).encode(), FILE)
    assert record.ceilings[0].samples == (0.003008995, 1e-9)
    expected = {"time": (0, 1e-9, 0.003008995, 2**51 / 1e9), "allocated_peak": (7,)}
    assert record.cases[0].series == expected
    assert json.loads(encode(record))["units"]["time"] == "s"


@pytest.mark.parametrize(("old", "new"), [("20261101T10", "20261101T11"), ("e-2t-", "e-4t-")])
def test_a_name_with_another_time_or_machine_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = store.write_record(factory.record(), tmp_path)
    renamed = path.rename(path.with_name(path.name.replace(old, new)))
    message = f"does not fit the time and machine .* rename it to {path.name}"
    with pytest.raises(RecordError, match=message):
        store.read_record(renamed, tmp_path)


def test_samples_of_a_case_come_from_rounds_of_the_policy() -> None:
    """Rounds of the only policy serve all policies; failed and disturbed rounds are used last.

    The first round of the policy ``default`` has 0.5 and 0.25 s, the second round 0.75 s.
    """
    case = case_with_second_round()
    assert case.samples("time", "retained") == (0.75,)
    assert case.samples("time", "default") == (0.5, 0.25)
    assert case.samples("time", "jemalloc") == ()
    assert case_with_second_round(policy="default").samples("time", "jemalloc") == (0.5, 0.25, 0.75)
    for fault in ({"status": "failed", "reason": "It broke."}, {"disturbance": "Another ran."}):
        case_with_fault = case_with_second_round(policy="default", **fault)
        assert case_with_fault.samples("time", "default") == (0.5, 0.25)
    assert case_with_second_round(disturbance="Another program ran.").samples("time") == (0.75,)
    assert factory.case(1, time=(1.0, 2.0)).samples("cpu_time") == ()


def test_quantities_admit_only_possible_values() -> None:
    """A time is a duration, a step's loss a number, faults a count, and an event a difference."""
    names = ("time", "step_loss", "page_faults", "memory_events")
    for admitting, numbers in (
        (names, (0, 1, 2**63 - 1)),
        (names[:2], (0.5, 1e-12)),
        (names[1:2], (0.99e-12,)),
        (names[3:], (-1,)),
        ((), (-0.5,)),
    ):
        for number, name in product(numbers, names):
            for samples in ((number,), (1, number, 2)):
                assert QUANTITIES[name].admits(samples) == (name in admitting), (name, samples)
    assert all(quantity.admits(()) for quantity in QUANTITIES.values())
    for name in ("train_accuracy", "test_accuracy", "image_correct", "batch_ran"):
        assert QUANTITIES[name].admits((0, 1)) and not QUANTITIES[name].admits((0, 2, 1)), name
    assert not QUANTITIES["page_faults"].admits((True,))
    assert not QUANTITIES["page_faults"].admits((1.0,))


def test_fixed_quantities_depend_only_on_case_and_program() -> None:
    assert {"allocated_peak", "requested_after", "ncu_fp32_additions"} < FIXED < QUANTITIES.keys()
    assert not FIXED & {"reserved_peak", "time", "ncu_dram_bytes", "lackey_multiply_adds_base"}


ATTACHED_FILES = {"lackey.json.gz": b"\x1f\x8b logs", "ncu.json.gz": b"more"}


def record_with_attachments() -> Record:
    attachments = []
    for name, content in ATTACHED_FILES.items():
        attachments.append(Attachment(name=name, sha256=store.digest(content), meaning="counts"))
    return msgspec.structs.replace(factory.record(), attachments=tuple(attachments))


def test_written_records_are_read_back_and_never_replaced(tmp_path: Path) -> None:
    record = record_with_attachments()
    path = store.write_record(record, tmp_path, ATTACHED_FILES)
    assert path.name == f"20261101T100000Z-example-2t-{store.digest(encode(record))[:8]}.json"
    folder = path.with_suffix("")
    assert sorted(path.parent.iterdir()) == [folder, path]
    assert {item.name: item.read_bytes() for item in folder.iterdir()} == ATTACHED_FILES
    (stored,) = store.read_records("conv_scaling", tmp_path)
    sha256 = store.digest(path.read_bytes())
    assert stored == store.Stored(record, f"conv_scaling/{path.name}")
    assert store.read_attachments(stored, ATTACHED_FILES, tmp_path) == ATTACHED_FILES
    assert store.read_attachments(stored, ("other.*",), tmp_path) == {}
    with pytest.raises(RecordError, match="records are never replaced"):
        store.write_record(record, tmp_path)
    assert store.digest(path.read_bytes()) == sha256


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()):
        monkeypatch.setattr(os, "fsync", Mock(side_effect=error))
        with pytest.raises((RecordError, KeyboardInterrupt), match=r"No space left.*make room|^$"):
            store.write_record(factory.record(), tmp_path)
        assert list((tmp_path / "conv_scaling").iterdir()) == []


def test_altered_attachments_are_refused_and_missing_ones_have_a_reason(tmp_path: Path) -> None:
    path = store.write_record(record_with_attachments(), tmp_path, ATTACHED_FILES)
    stored = store.read_record(path, tmp_path)
    attachment_path = store.attachments_folder(path) / "ncu.json.gz"
    attachment_path.write_bytes(b"altered")
    with pytest.raises(RecordError, match=r"ncu\.json\.gz: the SHA-256 is not that in the record"):
        store.read_attachments(stored, ("ncu.*",), tmp_path)
    attachment_path.unlink()
    missing = Missing("ncu.json.gz is not beside the record")
    contents = {**ATTACHED_FILES, "ncu.json.gz": missing}
    assert store.read_attachments(stored, ("*",), tmp_path) == contents
    shutil.rmtree(attachment_path.parent)
    assert store.read_attachments(stored, ("ncu.*",), tmp_path) == {"ncu.json.gz": missing}
    assert store.read_record(path, tmp_path) == stored


@pytest.mark.parametrize("sizes", [[2**40], [2**25] * 3])
def test_records_with_too_large_attachments_are_left_out(tmp_path: Path, sizes: list[int]) -> None:
    """One attachment of 1 TiB is too large; so are three of 32 MiB together."""
    study, names = "backend_speedup", [f"backend.{n}.json" for n in range(len(sizes))]
    sha256 = store.digest(bytes(2**25))
    zeros = [Attachment(name=name, sha256=sha256, meaning="zeros") for name in names]
    small = factory.record(study=study, machine=factory.environment("small-1t"))
    large = factory.record(study=study, machine=factory.environment("large-1t"))
    large = msgspec.structs.replace(large, attachments=tuple(zeros))
    data = factory.data_folder(tmp_path, small, large)
    (path,) = (data / study).glob("*large*.json")
    store.attachments_folder(path).mkdir()
    for name, size in zip(names, sizes, strict=True):
        with (store.attachments_folder(path) / name).open("wb") as stream:
            stream.truncate(size)
    chosen = choose_records(study, data)
    assert [stored.record.environment.key for stored in chosen.inputs.records] == ["small-1t"]
    (notice,) = (notice for notice in chosen.notices if "large-1t" in notice)
    assert f"{names[-1]}: this attachment and those before it exceed the 67,108,864 B" in notice


def test_committed_records_and_attachments_are_unchanged() -> None:
    """Digests reveal every edit; no file is missing, and the folders contain no other file."""
    data, records, expected = factory.ROOT / "data", 0, set[Path]()
    for study, kind in product(STUDIES, (Record, ImportedRecord)):
        for stored in store.read_records(study, data, kind):
            attachments = store.read_attachments(stored, ("*",), data)
            assert not stored.edited and Missing not in map(type, attachments.values())
            folder = store.attachments_folder(data / stored.file)
            expected |= {data / stored.file, *(folder / name for name in attachments)}
            records += 1
    files = set[Path]()
    for study in STUDIES:
        files |= {path for path in (data / study).rglob("*") if path.is_file()}
        files -= {*(data / study).glob(f"*{TABLE}")}
    assert expected == files
    assert records >= 82, "the number of committed records when this test was written"


def test_records_are_read_oldest_first_and_edits_are_detected(tmp_path: Path) -> None:
    """Linked and edited records are read too, since their content decides which record is used."""
    assert store.read_records("conv_scaling", tmp_path) == ()
    path_by_day = {}
    for day in (3, 1, 2):
        record = factory.record(started=f"2026-11-0{day}T10:00:00Z")
        path_by_day[day] = store.write_record(record, tmp_path)
    factory.replace_text(path_by_day[2], '"plan": "full"', '"plan": "quick"')
    path_by_day[2].rename(tmp_path / "moved.json")
    path_by_day[2].symlink_to("../moved.json")
    (tmp_path / "conv_scaling" / ".journal.json").write_text("no record", encoding="utf-8")
    records = store.read_records("conv_scaling", tmp_path)
    days = [(stored.record.started[8:10], stored.edited) for stored in records]
    assert days == [("01", False), ("02", True), ("03", False)]


def test_files_that_are_no_records_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "another"
    folder.mkdir(parents=True)
    (tmp_path / "out.json").write_bytes(encode(factory.record()))
    names = [f"20261101T100000Z-{letter}-00000000.json" for letter in "abcdef"]
    (folder / names[0]).mkdir()
    os.mkfifo(folder / names[1])
    for name, target in zip(names[2:], ("/dev/zero", "nowhere", "../../out.json"), strict=False):
        (folder / name).symlink_to(target)
    shutil.copy(tmp_path / "out.json", folder / names[5])
    (folder / "20261101T100000Z-g.json").touch()
    records, refused = store.read_usable_records("another", tmp_path / "data")
    assert records == ()
    for (file, message), fault in zip(sorted(refused.items()), (
        *("found no regular file",) * 3, "cannot be read", "out of the data directory",
        "file to conv_scaling", "restore the file's name",
    ), strict=True):  # fmt: skip
        assert message.startswith(f"data/{file}: ") and fault in message
    with pytest.raises(RecordError, match="found no regular file"):
        store.read_records("another", tmp_path / "data")


def test_csv_tables_are_read_by_the_types_of_their_fields(tmp_path: Path) -> None:
    class TableRow(msgspec.Struct, frozen=True):
        network: str
        bytes: int
        growing: int | None = None

    table = tmp_path / "t.csv"
    assert read_table(table, TableRow) == ()
    table.write_text("network,bytes,growing,note\nnet,12,,x\nother,3,4,\n")
    expected = (TableRow("net", bytes=12), TableRow("other", bytes=3, growing=4))
    assert read_table(table, TableRow) == expected
    for text, message in (
        ("network,bytes\nnet,12\nnet,many\n", "t.csv: line 3: .*int.*restore the file with git"),
        ("network\nnet\n", "t.csv: line 2: .*bytes"),
        ("network,bytes\nnet,\n", "t.csv: line 2: .*bytes"),
    ):
        table.write_text(text)
        with pytest.raises(RecordError, match=message):
            read_table(table, TableRow)
    table.write_bytes(b"network,bytes\n\xff,1\n")
    with pytest.raises(RecordError, match="no text"):
        read_table(table, TableRow)


def test_misnamed_files_are_reported_by_builds_and_by_checks(tmp_path: Path) -> None:
    data = factory.data_folder(tmp_path, record_with_attachments())
    assert store.stray_files(STUDY, data) == ()
    name = "20261101T100000Z-a-00000000"
    files = f"imported/{name}.zip", f"{name}.ZIP", f"{name}.JSON", f"{name}/ncu.json.gz", ".hidden"
    factory.write_files(data / STUDY, dict.fromkeys(files, b"x"))
    request = BuildRequest((STUDY,), ("html",), tmp_path / "out", data=data)
    for notes in (choose_records(STUDY, data).notices, review(request)[1]):
        text = " ".join(notes)
        for file in files[:3]:
            assert f"data/{STUDY}/{file}: is no record, since its name does not end in" in text
        assert f"data/{STUDY}/{name}: holds files of {name}.json, which does not exist" in text
        assert "hidden" not in text


def test_a_repeated_field_is_refused() -> None:
    """Decoders keep the last of two equal fields, so a repeated field could hide an edit."""
    text = encode(RECORD).decode()
    for old, new, message in (
        ('"time": [', '"time":[1e9],"time": [', "time twice"),
        ('"study": ', '"study": "conv_profiling", "study": ', "study twice"),
        ('"batch": 4', r'"batch": 4, "b\u0061tch": 8', "batch twice"),
        ('"batch": 4', '"batch": 4, "[1,2,3,4,5]": 1, "[5,4,3,2,1]": 2', None),
    ):
        assert old in text
        repeated = text.replace(old, new, 1).encode()
        if message is None:
            parse(repeated, FILE)
            continue
        with pytest.raises(RecordError, match=f"found the field {message}"):
            parse(repeated, FILE)
    assert may_repeat_a_field(rb'{"a\u003a": 1, "a:": 2}')
    # The text of a field, not an escape.
    assert not may_repeat_a_field(rb'{"reason": "C:\\u003a", "time": 1}')


def test_a_repeated_field_in_an_edited_file_is_refused(tmp_path: Path) -> None:
    path = store.write_record(RECORD, tmp_path)
    text = path.read_text("utf-8")
    path.write_text(text.replace('"study": ', '"study": "conv_profiling", "study": ', 1), "utf-8")
    with pytest.raises(RecordError, match="found the field study twice"):
        store.read_record(path, tmp_path)


CASES = (
    msgspec.structs.replace(
        factory.case(8, memory={"allocated_peak": (7,)}),
        rounds=(
            factory.round_(1, {"time": (0.5, 0.25)}),
            factory.round_(2, {"time": (0.75,)}, policy="default"),
        ),
    ),
    factory.case(16, status="out_of_memory", reason="Memory ran out."),
)
CASE_WITH_QUOTES = msgspec.structs.replace(
    factory.case(8, time=(0.5, 1)), factors={"batch": 8, "unit": 'a "b", c', "flag": True}
)
STORED = (
    factory.stored(factory.record(CASES, factory.environment("other-1t"))),
    factory.stored(factory.record([CASE_WITH_QUOTES])),
)
FIRST, SECOND = (stored.file for stored in STORED)
CSV = f"""\
batch,layout,pass,subject,file,device,case,case_unit,flag,process,policy,quantity,unit,samples
8,contiguous,forward,layer,{FIRST},other-1t,0,,,,,allocated_peak,B,7
8,contiguous,forward,layer,{FIRST},other-1t,0,,,1,retained,time,s,0.5 0.25
8,contiguous,forward,layer,{FIRST},other-1t,0,,,2,default,time,s,0.75
8,,,,{SECOND},example-2t,0,"a ""b"", c",True,,,time,s,0.5 1
"""


def test_each_series_is_a_row_of_a_file_and_each_sample_a_row_of_a_frame() -> None:
    stream = io.StringIO()
    write_samples(STORED, stream)
    assert stream.getvalue() == CSV
    frame = sample_frame(STORED)
    assert list(frame["value"]) == [7, 0.5, 0.25, 0.75, 0.5, 1]
    assert list(frame["batch"]) == [8] * 6


STUDY = "conv_scaling"


def imported_case(network: str, *mean_time: float, reason: str | None = None) -> Case:
    status: Any = "unavailable" if reason else "ok"
    series = {"mean_time": mean_time} if mean_time else {}
    return Case(factors={"network": network}, status=status, reason=reason, series=series)


def imported_record(*cases: Case, **change: Any) -> ImportedRecord:
    """Return an imported record with these cases; ``change`` are other fields."""
    return msgspec.structs.replace(parse(IMPORTED, FILE, ImportedRecord), cases=cases, **change)


def test_imported_records_are_read_back() -> None:
    record = imported_record(imported_case("a", 0.5), imported_case("b", 0.25))
    assert parse(IMPORTED, FILE, ImportedRecord) == record
    untimed = imported_record(imported_case("a"), imported_case("b", reason="no"))
    for original in (record, untimed, imported_record()):
        assert parse(encode(original), FILE, ImportedRecord) == original


def test_papers_use_imported_records_and_name_the_authors(tmp_path: Path) -> None:
    """The study has one record of the project and two imported records."""
    data = factory.data_folder(tmp_path, factory.record())
    for time in (0.5, 0.25):
        cases = imported_case("a", time), imported_case("b", reason="no time")
        store.write_record(imported_record(*cases, study=STUDY), data)
    imports = store.read_records(STUDY, data, ImportedRecord)
    chosen = choose_records(STUDY, data)
    assert chosen.inputs.imported == imports
    (own,) = chosen.inputs.records
    assert [item.file for item in chosen.files] == [own.file, *(item.file for item in imports)]
    source = compose(STUDY, data, factory.ROOT / "templates" / "papers", tmp_path / "stage")
    text = "Example 100: measured by Example Author with benchmark.py, 2 files, licence Apache-2.0"
    assert text in (source / f"{STUDY}.qmd").read_text("utf-8").replace("\\", "")
    values = json.loads((source / "values.json").read_text("utf-8"))
    (line,) = (item["line"] for item in values["imported"])
    assert line == "Example 100: measured by Example Author, licence Apache-2.0"
    assert values["records"] == [item.file for item in chosen.files]
    assert [stored.edited for stored in imports] == [False, False]
    factory.replace_text(data / imports[0].file, "0.", "1.")
    assert store.read_record(data / imports[0].file, data, ImportedRecord).edited


def test_files_that_are_too_large_unpacked_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("report.core.records.files.LARGEST_UNPACKED", 4)
    assert unpacked(gzipped(b"1234"), "x", "cut it") == b"1234"
    with pytest.raises(RecordError, match="x: has more than 4 B unpacked; cut it"):
        unpacked(gzipped(b"12345"), "x", "cut it")
