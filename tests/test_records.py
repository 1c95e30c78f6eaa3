"""Records: writing, reading, quantities, attachments, and frames with one row per sample."""

import copy
import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import build
from report.core.errors import RecordError
from report.core.missing import Missing
from report.core.records import store
from report.core.records.filed import EVENTS, encode, join_events, parse, split_events
from report.core.records.files import TABLE, gzipped, read_table, unpacked
from report.core.records.frames import sample_frame, write_samples
from report.core.records.quantities import FIXED, QUANTITIES
from report.core.records.record import Attachment, Case, ImportedRecord, Record, Shard
from report.engine.gather import choose
from report.evidence.runs import Run
from report.studies import STUDIES
from tests import factory
from tests.papers import compose
from tests.test_refusals import CASE, IMPORTED, RECORD

PLACE = "data/conv_scaling/x.json"
GOOD: dict[str, Any] = json.loads(encode(RECORD))


def in_rounds(**change: Any) -> Case:
    """Return a case of two processes; ``change`` are fields of the second process's round."""
    first, second = CASE.rounds
    return msgspec.structs.replace(CASE, rounds=(first, msgspec.structs.replace(second, **change)))


#: Layers of one network at several batches, of several networks, and of different batches in one.
LAYERS = st.lists(st.builds(factory.layer, st.integers(1, 3), st.sampled_from("ab")), max_size=3)
OUTCOMES = st.sampled_from([("ok", None), ("failed", "It broke."), ("unavailable", "No GPU.")])
TIMES = st.lists(st.floats(1e-9, 1e5) | st.integers(1, 10**12).map(lambda n: n / 1e9), max_size=3)
POLICIES = st.sampled_from([None, "default", "retained", "jemalloc"])


ROUNDS = st.lists(
    st.builds(
        lambda process, policy, outcome, noise, times: factory.round_(
            process, {"time": times}, policy=policy, status=outcome[0], reason=outcome[1],
            disturbance=noise,
        ),
        st.integers(1, 3), POLICIES, OUTCOMES, st.none() | st.just("Another program ran."), TIMES,
    ),
    max_size=3,
    unique_by=lambda each: (each.process, each.policy),
)  # fmt: skip


@settings(max_examples=30)
@given(
    st.lists(st.tuples(LAYERS.map(tuple), OUTCOMES, ROUNDS.map(tuple)), max_size=4),
    st.sampled_from([None, Shard(number=2, of=4, sweep="a" * 64)]),
    st.text(max_size=4) | st.sampled_from(['a "name"', "a\\b", "a\nb"]),
)
def test_records_survive_writing(parts: list[Any], shard: Shard | None, name: str) -> None:
    cases = [
        msgspec.structs.replace(
            factory.case(number, status=status, reason=reason, layers=layers),
            rounds=measured,
            factors={"batch": number, name: "x"},
        )
        for number, (layers, (status, reason), measured) in enumerate(parts, start=1)
    ]
    record = msgspec.structs.replace(factory.record(cases), shard=shard)
    again = parse(encode(record), PLACE)
    assert again == record
    assert encode(again) == encode(record)
    # Cases of the same layers share them.
    assert len({id(case.layers) for case in again.cases}) == len({c.layers for c in again.cases})


def test_rounds_layers_and_ceilings_have_one_line_each() -> None:
    lines = [line.strip().rstrip(",") for line in encode(RECORD).decode().splitlines()]
    alone = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    rounds = GOOD["cases"][-1]["rounds"]
    for part in (*rounds, *GOOD["cases"][:-1], *GOOD["layers"], *GOOD["ceilings"]):
        assert part in alone, part

    assert GOOD["networks"] == [[["conv2", 0]]]
    (only,) = GOOD["layers"]
    assert (only["input_shape"][0], only["output_shape"][0]) == (1, 1)
    batches = (1, 4, 16, 64, 1, 4, 16, 64, 2)
    assert [case["layers"] for case in GOOD["cases"]] == [[0, batch] for batch in batches]


def test_no_line_is_longer_than_a_forge_shows() -> None:
    """Neither by one series, nor by many in a round, nor by the layers of a deep network."""
    deep = tuple(factory.layer(1, f"layer with a long name, number {n}") for n in range(400))
    series = {name: tuple(n / 7 for n in range(2000)) for name in ("time", "cpu_time")}
    short = dict.fromkeys(list(QUANTITIES)[:40], tuple(range(2000)))
    many = factory.round_(1, {**short, **series})
    case = msgspec.structs.replace(factory.case(9, layers=deep), series=series, rounds=(many,))
    record = factory.record([case, *factory.layer_cases()])
    text = encode(record)
    assert max(map(len, text.decode().split("\n"))) < 10_000
    assert parse(text, PLACE) == record


def test_cases_of_one_network_ran_the_same_layers() -> None:
    cases = [
        msgspec.structs.replace(
            factory.case(batch, layers=(factory.layer(batch, name),)),
            factors={"network": "A", "batch": batch},
        )
        for batch, name in ((4, "conv1"), (8, "conv9"))
    ]
    message = r"cases\[1\]\.layers: found others than in cases\[0\], of the same network"
    with pytest.raises(RecordError, match=message):
        parse(encode(factory.record(cases)), PLACE)


def test_allocator_events_are_an_attachment_and_are_read_back(tmp_path: Path) -> None:
    series = {"memory_events": (700, -700), "memory_owners": (0, 0), "allocated_peak": (700,)}
    whole = factory.record([CASE, msgspec.structs.replace(factory.case(9), series=series)])
    cases, content = split_events(whole.cases)
    assert cases[0] == CASE and cases[1].series == {"allocated_peak": (700,)}
    assert split_events(cases) == (cases, b"")
    attachment = Attachment(name=EVENTS, sha256=store.digest(content), meaning="events")
    filed = msgspec.structs.replace(whole, cases=cases, attachments=(attachment,))
    path = store.write_record(filed, tmp_path, {EVENTS: content})
    assert b"memory_events" not in path.read_bytes().replace(EVENTS.encode(), b"")
    read = store.read_record(path, tmp_path).record
    assert read == msgspec.structs.replace(whole, attachments=(attachment,))
    place = store.attachments_folder(path) / EVENTS
    place.unlink()
    stored = store.read_record(path, tmp_path)
    run = Run(stored, "x")
    why = f"no memory events recorded on x: {EVENTS} is not beside the record"
    assert stored.record.cases == cases
    assert run.samples("memory_events", cases[1].factors) == Missing(why)
    place.write_bytes(b"altered")
    with pytest.raises(RecordError, match=f"{EVENTS}: is another file"):
        store.read_record(path, tmp_path)


def test_events_of_no_case_are_refused() -> None:
    record = factory.record([factory.case(1), factory.case(2)])
    for text, said in (
        (b"[{}]", "found the events of 1 cases, but the record has 2"),
        (b'[{}, {"memory_owners": [-1]}]', r"memory_owners\[0\]: expected int >= 0, found -1"),
        (b'[{}, {"memory_owners": [1], "memory_owners": [2]}]', "memory_owners twice"),
        (b'[{}, {"time": [1]}]', "time: object contains unknown field"),
    ):
        with pytest.raises(RecordError, match=said):
            join_events(record, text, "here")


def test_whole_nanoseconds_are_read_as_the_nearest_seconds() -> None:
    document = copy.deepcopy(GOOD)
    document["units"]["time"] = document["ceilings"][0]["unit"] = "ns"
    document["ceilings"][0]["samples"] = [3008995, 1]
    document["cases"] = document["cases"][:1]
    document["cases"][0]["series"] = {"time": [0, 1, 3008995, 2**51], "allocated_peak": [7]}
    record = parse(json.dumps(document).encode(), PLACE)
    assert record.ceilings[0].samples == (0.003008995, 1e-9)
    expected = {"time": (0, 1e-9, 0.003008995, 2**51 / 1e9), "allocated_peak": (7,)}
    assert record.cases[0].series == expected
    assert json.loads(encode(record))["units"]["time"] == "s"


@pytest.mark.parametrize(("old", "new"), [("20261101T10", "20261101T11"), ("e-2t-", "e-4t-")])
def test_a_name_of_another_time_or_machine_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = store.write_record(factory.record(), tmp_path)
    other = path.rename(path.with_name(path.name.replace(old, new)))
    with pytest.raises(
        RecordError, match=f"does not fit the time and machine .* rename it to {path.name}"
    ):
        store.read_record(other, tmp_path)


def test_samples_of_a_case_come_from_rounds_under_the_policy() -> None:
    """Those of the only policy stand for any; failed and disturbed rounds give way to others."""
    case = in_rounds()
    assert [case.samples("time", p) for p in ("retained", "default", "jemalloc")] == [
        (0.75,), (0.5, 0.25), (),
    ]  # fmt: skip
    assert in_rounds(policy="default").samples("time", "jemalloc") == (0.5, 0.25, 0.75)
    for fault in ({"status": "failed", "reason": "It broke."}, {"disturbance": "Another ran."}):
        found = in_rounds(policy="default", **fault)
        assert found.samples("time", "default") == (0.5, 0.25)
    assert in_rounds(disturbance="Another program ran.").samples("time") == (0.75,)
    assert factory.case(1, time=(1.0, 2.0)).samples("cpu_time") == ()


# ------------------------------------------------------------------------------------- quantities

#: A number → the quantities among four that admit it: a duration, a loss, a count, a difference.
ADMITTED: dict[float, str] = {
    0: "time step_loss page_faults memory_events",
    1: "time step_loss page_faults memory_events",
    2**63 - 1: "time step_loss page_faults memory_events",
    0.5: "time step_loss",
    1e-12: "time step_loss",
    0.99e-12: "step_loss",
    -1: "memory_events",
    -0.5: "",
}


def test_quantities_admit_only_possible_values() -> None:
    for number, admitting in ADMITTED.items():
        names = ["time", "step_loss", "page_faults", "memory_events"]
        alone = [name for name in names if QUANTITIES[name].admits((number,))]
        among = [name for name in names if QUANTITIES[name].admits((1, number, 2))]
        assert alone == among == admitting.split(), number
    assert all(quantity.admits(()) for quantity in QUANTITIES.values())
    for name in ("train_accuracy", "test_accuracy", "image_correct", "batch_ran"):
        assert QUANTITIES[name].admits((0, 1)) and not QUANTITIES[name].admits((0, 2, 1)), name
    assert not QUANTITIES["page_faults"].admits((True,))
    assert not QUANTITIES["page_faults"].admits((1.0,))


def test_fixed_quantities_depend_only_on_case_and_program() -> None:
    assert {"allocated_peak", "requested_after", "ncu_fp32_additions"} < FIXED < QUANTITIES.keys()
    assert not FIXED & {"reserved_peak", "time", "ncu_dram_bytes", "lackey_multiply_adds_base"}


# ------------------------------------------------------------------------------------------ on disk

FILES = {"lackey.json.gz": b"\x1f\x8b logs", "ncu.json.gz": b"more"}


def with_attachments() -> Record:
    named = tuple(
        Attachment(name=name, sha256=store.digest(content), meaning="what a counter printed")
        for name, content in FILES.items()
    )
    return msgspec.structs.replace(factory.record(), attachments=named)


def test_written_records_are_read_back_and_never_replaced(tmp_path: Path) -> None:
    record = with_attachments()
    path = store.write_record(record, tmp_path, FILES)
    assert path.name == f"20261101T100000Z-example-2t-{store.digest(encode(record))[:8]}.json"
    folder = path.with_suffix("")
    assert sorted(path.parent.iterdir()) == [folder, path]
    assert {item.name: item.read_bytes() for item in folder.iterdir()} == FILES
    (stored,) = store.read_records("conv_scaling", tmp_path)
    sha256 = store.digest(path.read_bytes())
    assert stored == store.Stored(record, f"conv_scaling/{path.name}")
    assert store.read_attachments(stored, FILES, tmp_path) == FILES
    assert store.read_attachments(stored, ("other.*",), tmp_path) == {}
    with pytest.raises(RecordError, match="records are never replaced"):
        store.write_record(record, tmp_path)
    assert store.digest(path.read_bytes()) == sha256


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failed_writer_leaves_nothing(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(descriptor: int) -> NoReturn:
        raise error

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises((RecordError, KeyboardInterrupt), match=r"No space left.*make room|^$"):
        store.write_record(factory.record(), tmp_path)
    assert list((tmp_path / "conv_scaling").iterdir()) == []


def test_altered_files_are_refused_and_missing_files_have_a_reason(tmp_path: Path) -> None:
    path = store.write_record(with_attachments(), tmp_path, FILES)
    stored = store.read_record(path, tmp_path)
    place = store.attachments_folder(path) / "ncu.json.gz"
    place.write_bytes(b"altered")
    with pytest.raises(RecordError, match=r"ncu\.json\.gz: is another file than the record names"):
        store.read_attachments(stored, ("ncu.*",), tmp_path)
    place.unlink()
    missing = Missing("ncu.json.gz is not beside the record")
    assert store.read_attachments(stored, ("*",), tmp_path) == {**FILES, "ncu.json.gz": missing}
    shutil.rmtree(place.parent)
    assert store.read_attachments(stored, ("ncu.*",), tmp_path) == {"ncu.json.gz": missing}
    assert store.read_record(path, tmp_path) == stored


@pytest.mark.parametrize("sizes", [[2**40], [2**25] * 3])
def test_attachments_beyond_all_bounds_are_not_read(tmp_path: Path, sizes: list[int]) -> None:
    """One of a tebibyte of zeros, and three that are too much together: both left out."""
    study, names = "backend_speedup", [f"backend.{n}.json" for n in range(len(sizes))]
    right = store.digest(bytes(2**25))
    zeros = [Attachment(name=name, sha256=right, meaning="zeros") for name in names]
    good = factory.record(study=study, machine=factory.environment("good-1t"))
    bad = factory.record(study=study, machine=factory.environment("bad-1t"))
    bad = msgspec.structs.replace(bad, attachments=tuple(zeros))
    data = factory.data_folder(tmp_path, good, bad)
    (path,) = (data / study).glob("*bad*.json")
    store.attachments_folder(path).mkdir()
    for name, size in zip(names, sizes, strict=True):
        with (store.attachments_folder(path) / name).open("wb") as stream:
            stream.truncate(size)
    chosen = choose(study, data)
    assert [stored.record.environment.key for stored in chosen.inputs.records] == ["good-1t"]
    (why,) = (notice for notice in chosen.notices if "bad-1t" in notice)
    assert f"{names[-1]}: it and the attachments before have more than the 67,108,864 B" in why


def test_committed_records_and_attachments_are_unchanged() -> None:
    """Whatever is converted, edited or lost, by hand or by git, is another byte."""
    data, records, named = factory.ROOT / "data", 0, set[Path]()
    for study, kind in product(STUDIES, (Record, ImportedRecord)):
        for stored in store.read_records(study, data, kind):
            attachments = store.read_attachments(stored, ("*",), data)
            assert not stored.edited and Missing not in map(type, attachments.values())
            beside = store.attachments_folder(data / stored.file)
            named |= {data / stored.file, *(beside / name for name in attachments)}
            records += 1
    folders = [data / study for study in STUDIES if (data / study).is_dir()]
    files = {path for each in folders for path in each.rglob("*") if path.is_file()}
    tables = {path for each in folders for path in each.glob(f"*{TABLE}")}
    assert named == files - tables
    assert records >= 82


def test_records_are_read_oldest_first_and_compared_with_their_names(tmp_path: Path) -> None:
    """Also where no paper uses it: what it says decides which record is used."""
    assert store.read_records("conv_scaling", tmp_path) == ()
    for day in (3, 1, 2):
        path = store.write_record(factory.record(started=f"2026-11-0{day}T10:00:00Z"), tmp_path)
    factory.edit(path, '"plan": "full"', '"plan": "quick"')
    (tmp_path / "conv_scaling" / ".journal.json").write_text("no record", encoding="utf-8")
    path.rename(tmp_path / "kept.json")
    path.symlink_to("../kept.json")
    found = store.read_records("conv_scaling", tmp_path)
    days = [(item.record.started[8:10], item.edited) for item in found]
    assert days == [("01", False), ("02", True), ("03", False)]


#: What lies in the folder of a study and is none of its records → what is said of it.
NO_RECORDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a-00000000": (Path.mkdir, "found no regular file"),
    "b-00000000": (os.mkfifo, "found no regular file"),
    "c-00000000": (lambda path: path.symlink_to("/dev/zero"), "found no regular file"),
    "d-00000000": (lambda path: path.symlink_to("nowhere"), "cannot be read"),
    "e-00000000": (
        lambda path: path.symlink_to("../../out.json"),
        "leads out of the data directory",
    ),
    "f": (Path.touch, "give the file its name back"),
    "g-00000000": (
        lambda path: path.write_bytes(encode(factory.record())),
        "move the file to conv_scaling",
    ),
}


def test_files_that_are_no_records_are_named(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_bytes(encode(factory.record()))
    (tmp_path / "data" / "another").mkdir(parents=True)
    reasons = {}
    for name, (make, words) in NO_RECORDS.items():
        file = f"another/20261101T100000Z-{name}.json"
        make(tmp_path / "data" / file)
        reasons[file] = words
    found, refused = store.survey("another", tmp_path / "data")
    assert found == () and refused.keys() == reasons.keys()
    for file, why in refused.items():
        assert why.startswith(f"data/{file}: ") and reasons[file] in why
    with pytest.raises(RecordError, match="found no regular file"):
        store.read_records("another", tmp_path / "data")


class Baseline(msgspec.Struct, frozen=True):
    network: str
    bytes: int
    growing: int | None = None


def test_a_table_beside_records_is_read_by_the_types_of_its_rows(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    assert read_table(table, Baseline) == ()
    table.write_text("network,bytes,growing,note\nnet,12,,x\nother,3,4,\n")
    assert read_table(table, Baseline) == (Baseline("net", 12), Baseline("other", 3, 4))
    for text, said in (
        ("network,bytes\nnet,12\nnet,many\n", "t.csv: line 3: .*int.*restore the file with git"),
        ("network\nnet\n", "t.csv: line 2: .*bytes"),
        ("network,bytes\nnet,\n", "t.csv: line 2: .*bytes"),
    ):
        table.write_text(text)
        with pytest.raises(RecordError, match=said):
            read_table(table, Baseline)
    table.write_bytes(b"network,bytes\n\xff,1\n")
    with pytest.raises(RecordError, match="no text"):
        read_table(table, Baseline)


def test_strays_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = factory.data_folder(tmp_path, with_attachments())
    assert store.strays(STUDY, data) == ()
    name = "20261101T100000Z-a-00000000"
    files = f"imported/{name}.zip", f"{name}.ZIP", f"{name}.JSON", f"{name}/ncu.json.gz", ".hidden"
    factory.write_files(data / STUDY, dict.fromkeys(files, b"x"))
    command = [STUDY, "--html", "--data", str(data), "--out", str(tmp_path / "out"), "--jobs", "1"]
    for words in ("--explain", "--check"):
        build.main([*command, words])
        said = " ".join(capsys.readouterr().out.split())
        for file in files[:3]:
            assert f"data/{STUDY}/{file}: is no record, since its name does not end in" in said
        assert f"data/{STUDY}/{name}: holds files of {name}.json, which is not there" in said
        assert "hidden" not in said


def test_a_repeated_field_is_refused() -> None:
    """Of two fields a decoder keeps the last, and the hash of an edited name may be right."""
    text = encode(RECORD).decode()
    for old, new, said in (
        ('"time": [', '"time":[1e9],"time": [', "time twice"),
        ('"study": ', '"study": "conv_profiling", "study": ', "study twice"),
        ('"batch": 4', r'"batch": 4, "b\u0061tch": 8', "batch twice"),
        ('"batch": 4', '"batch": 4, "[1,2,3,4,5]": 1, "[5,4,3,2,1]": 2', None),
    ):
        assert old in text
        twice = text.replace(old, new, 1).encode()
        if said is None:
            parse(twice, PLACE)
            continue
        with pytest.raises(RecordError, match=f"found the field {said}"):
            parse(twice, PLACE)


# --------------------------------------------------------------------------------------- as a frame

DEFAULT = factory.round_(2, {"time": (0.75,)}, policy="default")
TIMED = factory.round_(1, {"time": (0.5, 0.25)}), DEFAULT
FRAMED = (
    msgspec.structs.replace(factory.case(8, memory={"allocated_peak": (7,)}), rounds=TIMED),
    factory.case(16, status="out_of_memory", reason="Memory ran out."),
)
QUOTED = msgspec.structs.replace(
    factory.case(8, time=(0.5, 1)), factors={"batch": 8, "unit": 'a "b", c', "flag": True}
)
SAMPLED = (
    factory.stored(factory.record(FRAMED, factory.environment("other-1t"))),
    factory.stored(factory.record([QUOTED])),
)
ONE, OTHER = (stored.file for stored in SAMPLED)
SAMPLES = f"""\
batch,layout,pass,subject,file,device,case,case_unit,flag,process,policy,quantity,unit,repetition,value
8,contiguous,forward,layer,{ONE},other-1t,0,,,,,allocated_peak,B,0,7
8,contiguous,forward,layer,{ONE},other-1t,0,,,1,retained,time,s,0,0.5
8,contiguous,forward,layer,{ONE},other-1t,0,,,1,retained,time,s,1,0.25
8,contiguous,forward,layer,{ONE},other-1t,0,,,2,default,time,s,0,0.75
8,,,,{OTHER},example-2t,0,"a ""b"", c",True,,,time,s,0,0.5
8,,,,{OTHER},example-2t,0,"a ""b"", c",True,,,time,s,1,1
"""


def test_rows_of_a_frame_have_quantity_place_and_unit() -> None:
    stream = io.StringIO()
    write_samples(SAMPLED, stream)
    assert stream.getvalue() == SAMPLES
    frame = sample_frame(SAMPLED)
    assert list(frame["value"]) == [7, 0.5, 0.25, 0.75, 0.5, 1]
    assert list(frame["batch"]) == [8] * 6


# ------------------------------------------------------------------------------ of what others made

STUDY = "conv_scaling"


def parsed(text: bytes) -> ImportedRecord:
    return parse(text, "data/x.json", ImportedRecord)


def case(network: str, *mean_time: float, reason: str | None = None) -> Case:
    status: Any = "unavailable" if reason else "ok"
    series = {"mean_time": mean_time} if mean_time else {}
    return Case(factors={"network": network}, status=status, reason=reason, series=series)


def imported(*cases: Case, **change: Any) -> ImportedRecord:
    """A record of a GPU of which nothing but the name is known."""
    return msgspec.structs.replace(parsed(IMPORTED), cases=cases, **change)


def test_imported_records_are_read_back() -> None:
    record = imported(case("a", 0.5), case("b", 0.25))
    assert parsed(IMPORTED) == record
    for each in (record, imported(case("a"), case("b", reason="no")), imported()):
        assert parsed(encode(each)) == each


def test_own_records_alone_speak_for_devices_and_a_paper_says_who_measured(tmp_path: Path) -> None:
    """Of an own record, and two of somebody else of the same study."""
    data = factory.data_folder(tmp_path, factory.record())
    for time in (0.5, 0.25):
        store.write_record(
            imported(case("a", time), case("b", reason="no time"), study=STUDY), data
        )
    theirs = store.read_records(STUDY, data, ImportedRecord)
    chosen = choose(STUDY, data)
    assert chosen.inputs.imported == theirs
    (own,) = chosen.inputs.records
    assert [each.file for each in chosen.files] == [own.file, *(each.file for each in theirs)]
    source = compose(STUDY, data, factory.ROOT / "templates" / "papers", tmp_path / "stage")
    said = "Example 100: measured by Example Author with benchmark.py, 2 files, licence Apache-2.0"
    assert said in (source / f"{STUDY}.qmd").read_text("utf-8").replace("\\", "")
    values = json.loads((source / "values.json").read_text("utf-8"))
    (line,) = (each["line"] for each in values["imported"])
    assert line == "Example 100: measured by Example Author, licence Apache-2.0"
    assert values["records"] == [each.file for each in chosen.files]
    assert [stored.edited for stored in theirs] == [False, False]
    factory.edit(data / theirs[0].file, "0.", "1.")
    assert store.read_record(data / theirs[0].file, data, ImportedRecord).edited


def test_too_large_attachments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("report.core.records.files.LARGEST_UNPACKED", 4)
    assert unpacked(gzipped(b"1234"), "x", "cut it") == b"1234"
    with pytest.raises(RecordError, match="x: has more than 4 B unpacked; cut it"):
        unpacked(gzipped(b"12345"), "x", "cut it")
