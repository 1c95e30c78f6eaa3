"""Whatever stands in a file under ``data/``: one sentence that names it, or a right paper."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from figures.characters import visible
from report.engine.computing import compute_usable
from report.errors import RecordError, StudyError
from report.instruments.allocator_snapshot import read_snapshot
from report.instruments.counters.logs import unpack
from report.instruments.memory_timeline import read_timeline
from report.instruments.trace import read_trace
from report.paper.tables import Column, Table, to_latex, to_markdown
from report.records import unpacking
from report.records.filed import encode, file_hash, parse
from report.records.imported_files import list_imports
from report.records.network_counts import Counts, read_counts, write_counts
from report.records.record import Record
from report.records.store import digest, list_records, read_record, record_name, write_record
from report.records.usage import choices_of, fate
from report.render.shell import script_of
from report.system.outputs import write_json
from tests import factory, profiling
from tests.fuzz.records import small

Fault = Callable[[dict[str, Any]], None]
PLACE = "data/conv_scaling/x.json"


def change(*path: str | int, to: Any) -> Fault:
    """Another value at a path."""
    *above, last = path

    def apply(document: dict[str, Any]) -> None:
        part: Any = document
        for step in above:
            part = part[step]
        part[last] = to

    return apply


CASE = msgspec.structs.replace(
    factory.case(2, subject="example"), rounds=(factory.round_(1, {"time": (0.5, 0.25)}),)
)
GOOD: dict[str, Any] = json.loads(encode(factory.record([*factory.layer_cases(), CASE])))
MANY = 10**6

#: What is done to a good record, the field named, and a word of what is wrong.
RECORDS: dict[str, tuple[Fault, str, str]] = {
    "too many shards": (
        change("shard", to={"number": 1, "of": MANY, "sweep": "0" * 64}), "shard.of", "<= 10000",
    ),
    "too late a shard": (
        change("shard", to={"number": MANY, "of": 2, "sweep": "0" * 64}), "shard.number", "10000",
    ),
    "too many processes": (
        change("protocol", "processes", to={"retained": MANY}), "protocol.processes", "10000",
    ),
    "too late a process": (
        change("cases", 8, "rounds", 0, "process", to=MANY), "rounds[0].process", "10000",
    ),
    "too large a kernel": (
        change("networks", 0, 0, "kernel", to=[MANY, 3]), "networks[0][0].kernel", "4096",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_a_fault_of_a_record_is_named_with_its_place(name: str) -> None:
    fault, field, word = RECORDS[name]
    document = copy.deepcopy(GOOD)
    fault(document)
    with pytest.raises(RecordError) as caught:
        parse(json.dumps(document).encode(), PLACE)
    message = str(caught.value)
    assert message.startswith(f"{PLACE}: ")
    assert field in message
    assert word in message


def test_a_field_twice_is_refused_although_the_name_fits_the_text(tmp_path: Path) -> None:
    text = encode(factory.record())
    twice = text.replace(b'"samples": [', b'"samples": [1.0], "samples": [', 1)
    assert twice != text
    name = record_name(factory.record())[: -len("00000000.json")]
    path = tmp_path / "conv_scaling" / f"{name}{file_hash(twice)}.json"
    path.parent.mkdir()
    path.write_bytes(twice)
    with pytest.raises(RecordError, match=r"samples: found this field twice"):
        read_record(path, tmp_path)


def test_a_text_without_end_is_looked_at_once() -> None:
    """Each of its quotes once began a look at all that follows."""
    with pytest.raises(RecordError, match="not valid JSON: found the end of the file"):
        parse(b'{"schema": 3, "study": "' + rb"\"" * 240_000, PLACE)


# ---------------------------------------------------------------------------- what is packed

READERS: dict[str, Callable[[bytes, str], Any]] = {
    "trace": read_trace,
    "timeline": read_timeline,
    "logs": lambda content, place: unpack(content, "lackey", place),
}
#: Pickles that ask for much memory: a place to keep an object at, an array, one list many times.
LIST = [{"action": "alloc", "size": 1}] * 3000
BOMBS = {
    "kept": b"\x80\x04}r\xff\xff\xff\x03.",
    "array": b"\x80\x05\x96\xff\xff\xff\x3f\x00\x00\x00\x00.",
    "lists": pickle.dumps({"segments": [], "device_traces": [LIST] * 3000}),
}


@pytest.mark.parametrize("name", READERS)
def test_what_unpacks_to_too_much_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "LARGEST_UNPACKED", 1000)
    with pytest.raises(RecordError, match=r"x\.gz: found more than 1,000 B when unpacked; "):
        READERS[name](gzip.compress(bytes(1001)), "x.gz")


@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_that_asks_for_all_memory_is_refused(name: str) -> None:
    with pytest.raises(RecordError, match=r"^x\.pickle: .*(pickle|entries)"):
        read_snapshot(BOMBS[name], "x.pickle")


def test_a_cut_list_of_networks_is_refused(tmp_path: Path) -> None:
    counted = [Counts(network=name, family=name, image="3x8x8") for name in "abc"]
    write_counts(path := tmp_path / "networks.csv", counted)
    assert read_counts(path) == tuple(counted)
    lines = path.read_bytes().splitlines(keepends=True)
    for cut in range(len(lines)):
        path.write_bytes(b"".join(lines[:cut]))
        with pytest.raises(RecordError, match=r"networks\.csv: line \d: expected total,"):
            read_counts(path)


# ------------------------------------------------------- one bad file beside good ones is left out


def refiled(record: Record, data: Path, fault: Fault, files: dict[str, bytes] | None = None) -> str:
    """Write a changed record under the name that fits its content; the file."""
    document = json.loads(encode(record))
    fault(document)
    text = json.dumps(document).encode()
    path = data / record.study / record_name(parse(text, PLACE))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    for name, content in (files or {}).items():
        path.with_suffix("").mkdir(exist_ok=True)
        (path.with_suffix("") / name).write_bytes(content)
    return path.relative_to(data).as_posix()


def swapped(document: dict[str, Any]) -> None:
    """Two cases of inference_memory have each other's factors."""
    one, other = document["cases"][6], document["cases"][1]
    one["factors"], other["factors"] = other["factors"], one["factors"]


def renamed(document: dict[str, Any]) -> None:
    """Layers of a residual network whose shortcuts cannot be told."""
    for layer in (layer for network in document["networks"] for layer in network):
        layer["name"] = layer["name"].replace("shortcut", "x")


def bad_trace(content: bytes) -> tuple[Fault, dict[str, bytes]]:
    """An attachment of conv_profiling with a right digest and this content."""
    files = dict(profiling.FILES)
    name = next(name for name in files if name.startswith("trace"))
    files[name] = gzip.compress(content)

    def apply(document: dict[str, Any]) -> None:
        (one,) = (each for each in document["attachments"] if each["name"] == name)
        one["sha256"] = digest(files[name])

    return apply, files


LATE = b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1e308, "dur": 1e308}]}'
BESIDE: dict[str, tuple[str, Fault, dict[str, bytes]]] = {
    "swapped cases": ("inference_memory", swapped, {}),
    "renamed layers": ("training_roofline", renamed, {}),
    "another file": ("conv_profiling", *bad_trace(b'{"no": 1}')),
    "times without end": ("conv_profiling", *bad_trace(LATE)),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_record_that_a_study_fails_with_is_left_out(name: str, tmp_path: Path) -> None:
    study, fault, files = BESIDE[name]
    whole = small(study)
    good = msgspec.structs.replace(
        whole.record,
        started="2026-10-01T10:00:00Z",
        environment=msgspec.structs.replace(whole.record.environment, key="another-machine"),
    )
    data = factory.data_folder(tmp_path)
    write_record(good, data, whole.files)
    expected = compute_usable(study, data).findings.as_json(study, ())
    bad = refiled(whole.record, data, fault, files or dict(whole.files))
    chosen, inputs, findings = compute_usable(study, data)
    (notice,) = (each for each in chosen.notices if each.startswith("left out: "))
    assert notice.startswith(f"left out: data/{bad.removesuffix('.json')}")
    assert [item.file for item in inputs.records] == [f"{study}/{record_name(good)}"]
    assert findings.as_json(study, ()) == expected


def test_a_single_record_that_a_study_fails_with_is_named(tmp_path: Path) -> None:
    data = factory.data_folder(tmp_path)
    bad = refiled(small("inference_memory").record, data, swapped)
    with pytest.raises(StudyError, match=bad) as caught:
        compute_usable("inference_memory", data)
    assert "report/studies/inference_memory/" in str(caught.value)
    assert "--debug" not in str(caught.value)


def test_a_cut_import_beside_whole_ones_is_left_out(tmp_path: Path) -> None:
    data, study = factory.data_folder(tmp_path), "gpu_survey"
    source = factory.ROOT / "data" / study / "imported"
    (data / study / "imported").mkdir(parents=True)
    for path in sorted(source.glob("*.json"))[:2]:
        (data / study / "imported" / path.name).write_bytes(path.read_bytes())
    first = list_imports(study, data)[0].file
    (data / first).write_bytes((data / first).read_bytes()[:5000])
    chosen, inputs, _ = compute_usable(study, data)
    assert any(each.startswith(f"left out: data/{first}: ") for each in chosen.notices)
    assert len(inputs.imported) == 1


# ---------------------------------------------------------------------------------- what is shown


HIDDEN = "a\u202eb\x1b[31m\x07"


def test_every_character_of_data_can_be_seen(tmp_path: Path) -> None:
    content = {HIDDEN: [HIDDEN, (HIDDEN, 1, None)]}
    write_json(content, tmp_path / "x.json")
    for text in (script_of("x", content), (tmp_path / "x.json").read_text("utf-8")):
        assert visible(text) == text
        assert "\\u001b" not in text
        assert text.count("‹U+202E›") == 3


def test_of_a_table_of_thousands_a_part_is_printed_with_the_file_of_all() -> None:
    table = Table("tbl-x", "A table.", (Column("Case"),), tuple((f"c{i}",) for i in range(5000)))
    for text in (to_markdown(table), to_latex(table)):
        assert "c0" in text
        assert "c4999" not in text
    assert "The first 200 of 5,000 rows" in to_markdown(table)
    assert "tbl-x.csv" in to_markdown(table)


def test_missing_shards_are_named_as_ranges(tmp_path: Path) -> None:
    shard = {"number": 5, "of": 9000, "sweep": "0" * 64}
    file = refiled(factory.measurement(), tmp_path, change("shard", to=shard))
    choices = choices_of(list_records("conv_scaling", tmp_path), tmp_path, ())
    assert fate(choices, file)[1].endswith("missing 1 to 4 and 6 to 9000")
