"""Invalid files below ``data/``: each error is one sentence that names the file."""

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from figures.characters import escape_invisible
from report.core.errors import LONGEST, RecordError, RenderError, RidgepointError, StudyError
from report.core.records.choice import read_editions
from report.core.records.file_format import encode, parse
from report.core.records.record import ImportedRecord, Record
from report.core.records.reported import read_devices, read_reported
from report.core.records.store import Stored, read_records, record_name, write_record
from report.core.records.strict import SyntaxFaultError, parse_yaml
from report.core.system.exchange import write_json
from report.evaluation.gather import choose_records, compute, compute_usable
from report.evidence.runs import Run
from report.instruments.judgement import require_usable
from report.paper.findings import Inputs
from report.paper.tables import table_of
from report.quantity.expression import exact_number
from report.render.shell import script_of
from report.render.source import read_source
from report.studies import STUDIES
from tests import factory
from tests.degraded import small_record

HUGE, LONG = 10**309, "x" * 10**5
DATA = factory.ROOT / "data"
#: New values of ``change``: ``GONE`` removes the value; ``TWICE`` repeats a list's first item.
GONE, TWICE = object(), object()


def change(document: Any, path: str, new_value: Any) -> None:
    """Set, remove or repeat the value at a path such as ``cases.0.factors``."""
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in parents:
        document = document[key]
    if new_value is GONE:
        del document[last]
    elif new_value is TWICE:
        document[last].append(copy.deepcopy(document[last][0]))
    else:
        document[last] = new_value


CASE = msgspec.structs.replace(
    factory.case(2, subject="example"),
    rounds=(
        factory.round_(1, {"time": (0.5, 0.25)}, policy="default"),
        factory.round_(2, {"time": (0.75,)}),
    ),
)
RECORD = factory.record([*factory.layer_cases(), CASE])
TEXT = encode(RECORD)
#: An imported record: a published table with one row per case.
IMPORTED = Path(__file__).with_name("imported.json").read_bytes()
REPORTED = (DATA / "reported" / "conv_scaling.json").read_bytes()


#: Kind of file → path below ``data``, function that returns valid content, function that reads the
#: file.  The tests write YAML files as JSON, which is valid YAML.
KINDS: dict[str, tuple[str, Callable[[], Any], Callable[[Path], Any]]] = {
    "imported": (
        "x", lambda: json.loads(IMPORTED), lambda p: parse(p.read_bytes(), "data/x", ImportedRecord)
    ),
    "record": ("x", lambda: json.loads(TEXT), lambda p: parse(p.read_bytes(), "data/x")),
    "reported": ("reported/conv_scaling.json", lambda: json.loads(REPORTED), read_reported),
    "devices": (
        "devices.yaml", lambda: parse_yaml((DATA / "devices.yaml").read_text())[0], read_devices
    ),
    "editions": (
        "editions.yaml",
        lambda: {"conv_scaling": {"roles": {"cpu": "a", "gpu": ["conv_scaling/a.json"]}}},
        lambda path: read_editions(path.parent, STUDIES),
    ),
}  # fmt: skip
FACTORS = json.loads(TEXT)["cases"][1]["factors"]
LOGS = {"name": "lackey.json.gz", "sha256": "0" * 64, "meaning": "logs"}
#: Kind of file → changes: path, new value, part of the message, and the place that the message
#: names, if it differs from the path.  Each kind of limit is tested once; ``test_documents``
#: compares the schema, which contains all limits.
REFUSALS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "record": (
        ("remark", 1, "unknown field"),
        ("study", GONE, "missing"),
        ("cases", {}, "found an object"),
        ("cases.0.series.time.1", "1", 'found "1"'),
        ("cases.0.series.time.0", 1e300, "float <="),
        ("cases.0.series.time.0", 1e-300, "at least 1e-12"),
        ("cases.0.series.allocated_before.2", 0.5, "found 0.5"),
        ("units.time", "ms", "found 'ms'"),
        ("units.duration", "s", "no quantity"),
        ("units.time", GONE, "missing"),
        ("cases.3.factors", FACTORS, "cases[1]"),
        ("cases.0.factors.pass", LONG, "<= 200"),
        (f"cases.0.factors.{LONG}", 1, "200", "cases[0].factors"),
        ("cases.0.reason", "no", "found 'no', but a status ok needs no reason"),
        ("cases.0.status", "failed", "found null, but", "cases[0].reason"),
        ("cases.0.status", "fine", "'fine'"),
        ("layers.0.type", "conv3d", "'conv3d'", "layers[0]"),
        ("layers.0.input_shape", [1] * 9, "length <= 8"),
        ("layers.0.input_shape.2", HUGE, "<= 1099511627776"),
        ("cases.1.layers.0", 1, "beyond the 1", "cases[1].layers"),
        ("layers.0.input_shape.0", 2, "one image", "cases[1].layers"),
        ("cases.8.rounds", TWICE, "same process twice"),
        ("cases.8.rounds.1.status", "failed", "found null", "cases[8].rounds[1].reason"),
        ("started", "2026-13-01T00:00:00Z", "regex"),
        ("started", "2026-02-31T00:00:00Z", "on no day of the calendar"),
        ("finished", "2026-11-01T09:59:59Z", "before the run started"),
        ("finished", "2026-11-01T10:00:00Z", "a run of 0 s, but its samples of time last 3 s"),
        ("cases.0.series.allocated_before.2", 2**40, "B of allocated_before, more", "cases[0]"),
        ("cases.0.series.allocated_peak", [1], "of allocated_before, 1 of", "cases[0].series"),
        ("command", ["--threads", "9"], "found --threads 9, but the machine says 2"),
        ("command", ["--device", "cuda"], "found --device cuda, but the machine says cpu"),
        ("environment.missing.gpu", GONE, "why gpu is null", "environment.missing"),
        ("code.commit", None, "why code.commit is null", "environment.missing"),
        ("ceilings.0.work", 3 * 2**30, "work 3,221,225,472 for matrix_product", "ceilings"),
        ("ceilings.1.working_set", 2**20, "for copy of 16777216 elements", "ceilings"),
        ("ceilings.1.operation", "convolution", "convolution of 16777216 elements", "ceilings"),
        ("ceilings", TWICE, "matrix_product of 1024x1024x1024 before the run 2 times"),
        ("environment.device", "cuda", "found null", "environment.gpu"),
        ("shard", {"number": 3, "of": 2, "sweep": "a" * 64}, "at most 2", "shard.number"),
        ("attachments", [{**LOGS, "name": "../x"}], "regex", "attachments[0].name"),
        ("attachments", [LOGS, LOGS], "lackey.json.gz twice"),
        ("schema", GONE, "missing"),
        ("schema", 3, "reads version 4; run the experiment"),
        ("schema", 99, "reads version 4; update ridgepoint"),
    ),
    "imported": (
        ("origin.licence", "free for all!", "regex"),
        ("missing.framework", GONE, "why framework is null", "missing"),
        ("conditions", {"network": "amp"}, "condition of all cases", "cases[0].factors.network"),
        ("rows.1.1", [0.25, 1], "another number of cells", "rows[1]"),
        ("rows.1.1.0", -1, "found -1", "cases[1].series.mean_time[0]"),
        ("rows.1.0.0", "a", "cases[0]", "cases[1].factors"),
        ("columns.0", "time", "missing", "units.time"),
        ("schema", 3, "version 3"),
        ("origin.imported", "2026-02-30T10:00:00Z", "on no day of the calendar", "imported"),
    ),
    "reported": (
        ("source", "Goyal 2024", "regex"),
        ("study", "conv_profiling", "'conv_profiling'"),
        ("tables", TWICE, "'I' appears twice"),
        ("values", TWICE, "'kernel_height' appears twice"),
        ("tables.0.columns.1.key", "batch", "columns: 'batch'", "tables[0]"),
        ("tables.0.columns.1.decimals", None, "null", "tables[0].columns[1]"),
        ("tables.0.rows.2", [64], "2 cells, found 1", "tables[0]: rows[2]"),
        ("tables.0.rows.0.1", "339,738,624", "'339,7", "tables[0]: rows[0][1]"),
        ("tables.6.rows.0.0", 1, "text", "tables[6]: rows[0][0]"),
        ("tables.0.rows.0.1", None, "null"),
        ("tables.0.rows.0.1", {"missing": ""}, "length", "rows[0][1].missing"),
        ("tables.0.rows.0.1", 0.5, "found 0.5", "tables[0]: rows[0][1]"),
        ("values.16.number", 0.519, "0.519", "values[16]: number"),
    ),
    "devices": (
        ("devices", TWICE, "twice", "keys"),
        ("devices.0.peaks", TWICE, "appears twice", "devices[0]: peaks"),
        ("devices.0.peaks.0.unit", "GB/s", "GB/s", "devices[0].peaks[0]: unit"),
        ("devices.0.peaks.0.value", 0, "> 0"),
        ("devices.0.peaks.0.value", "0o17", "expected float, found"),
        ("devices.0.peaks.0.value", 1e300, "1e+300"),
    ),
    "editions": (
        ("conv_scaling", "a.json", "expected object", "line 1: conv_scaling"),
        ("conv_scaling.roles.gpu", 2026, "2026"),
        ("conv_scaling.roles.gpus", "a", "'gpus'", "roles"),
        ("conv_scaling.roles.cpu", GONE, "cpu is missing", "conv_scaling.roles"),
        ("conv_scaling.data", "2026", "unknown field"),
        ("conv_scalling", {"roles": {"cpu": "a"}}, "no study"),
    ),
}


def assert_sentence(error: Exception, begin: str = "") -> str:
    """Check that the message is one line with file, fault and advice; return the message."""
    message = str(error)
    assert message.startswith(begin)
    assert "data/" in message.partition(": ")[0]
    assert "; " in message
    assert len(message) <= LONGEST
    assert message.isprintable()
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_messages_name_the_place_of_a_fault(kind: str, tmp_path: Path) -> None:
    file, valid_content, read = KINDS[kind]
    path = tmp_path / "data" / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(valid_content()))
    read(path)
    for where, new_value, fault, *other_place in REFUSALS[kind]:
        document = valid_content()
        change(document, where, new_value)
        path.write_text(json.dumps(document))
        with pytest.raises(RecordError) as caught:
            read(path)
        message = assert_sentence(caught.value)
        place = other_place[0] if other_place else re.sub(r"\.(\d+)", r"[\1]", where)
        assert place in message and fault in message, (where, message)


# ---------------------------------------------------------------------- invalid JSON, unsafe YAML

SEED = b'"seed": 0'


@pytest.mark.parametrize(("old", "new", "fault"), [
    (SEED, b'"seed": NaN', "not valid JSON"),
    (SEED, b'"seed": 1e400', "out of range"),
    (SEED, b'"seed": ' + b"9" * 5000, "5000 digits"),
    (b'"study"', b'"\xf6study"', "line 3: found the byte 0xf6, which is not UTF-8"),
    (TEXT, TEXT.partition(b'"seed"')[0], "not valid JSON"),
    (TEXT, TEXT + b"\n}", "not valid JSON: Extra data: line"),
    (TEXT, b"\xff\xfe" + TEXT, "line 1: "),
    (TEXT, b"[]", "the top level: expected object, found a list of 0"),
    (TEXT, b"[" * 100_000, "data/x.json"),
])  # fmt: skip
def test_invalid_json_is_refused(old: bytes, new: bytes, fault: str) -> None:
    assert old in TEXT
    with pytest.raises(RecordError) as caught:
        parse(TEXT.replace(old, new, 1), "data/x.json")
    assert fault in assert_sentence(caught.value, "data/x.json: ")


@pytest.mark.parametrize(("text", "line", "fault"), [
    ("a: 1\nb:\n  c: 2\n  c: 3", 4, "the key c twice"),
    ("a: 1\nb: &a [x, x]\nc: [*a, *a]", 3, "the alias *a"),
    ("a: !!binary aGk=", 1, "the tag tag:yaml.org,2002:binary"),
    ("a:\n\tb: 1", 2, "cannot start any token"),
    ("a: 1\n---\nb: 2", 2, "another document"),
    ("? [a]\n: 1", 1, "a key that is no text"),
    ('"\\ud800": a', 1, "character escape"),
    ('a: "\\Uffffffff"', 1, "character escape"),
    ("a: 1\nb: \x07", 2, "the character U+0007"),
    ("[" * 600, 1, "nested without end"),
    ("x" * 300_000, 1, "found 300,000 characters"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_unsafe_yaml_is_refused_in_data_and_in_papers(
    text: str, line: int, fault: str, tmp_path: Path
) -> None:
    with pytest.raises(SyntaxFaultError) as caught:
        parse_yaml(text)
    assert caught.value.line == line
    assert fault in caught.value.fault
    (tmp_path / "editions.yaml").write_text(text)
    with pytest.raises(RecordError, match=r"editions\.yaml: "):
        read_editions(tmp_path)
    (tmp_path / "paper.qmd").write_text(f"---\n{text}\n---\n")
    with pytest.raises(RenderError, match=r"paper\.qmd"):
        read_source(tmp_path, "paper")


def test_strings_that_yaml_would_convert_stay_text() -> None:
    """YAML 1.1 would read dates, numbers, truth values, nulls and merge keys."""
    for text in (
        "2001-99-99", "2001-01-01", "12:30:00", "1:30", "0o17", "017", "0x1f", "yes", "OFF", "~",
        "Null", "TRUE", ".inf", ".nan", "1_000", "+1", ".5", "1.", "1e", "1e400", "9" * 5000, "<<",
    ):  # fmt: skip
        assert parse_yaml(f"a: {text}")[0] == {"a": text}
    assert parse_yaml("12: a\ntrue: b\n<<: c")[0] == {"12": "a", "true": "b", "<<": "c"}
    numbers = {"0": 0, "-12": -12, "1.50": 1.5, "1e5": 1e5, "-2.5E-3": -0.0025}
    for text, number in numbers.items():
        assert parse_yaml(f"[{text}, '{text}']")[0] == [number, text]
    content, _ = parse_yaml("\ufeffa:\n  - {b: null, 'c d': [true]}\n  - |\n    two\n    lines\n")
    assert content == {"a": [{"b": None, "c d": [True]}, "two\nlines\n"]}


def test_messages_name_the_line_of_a_fault_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "data" / "editions.yaml"
    path.parent.mkdir()
    for text, message in (
        (b"a:\n  roles:\n    cpu: a\n    gpu: 5\n", "line 4: a.roles.gpu: "),
        (b"a:\n  compared: [a,\n    b, 5]\n", "line 3: a.compared[2]: "),
        (b"a:\n  roles: {cpu: a}\nb:\n  compared: []\n  colour: x\n", "line 5: b.colour: "),
        (b"\xef\xbb\xbfa:\n  roles:\n    cpu: \xf6\n", "line 3: found the byte 0xf6"),
    ):
        path.write_bytes(text)
        with pytest.raises(RecordError) as caught:
            read_editions(path.parent)
        assert f"/editions.yaml: {message}" in assert_sentence(caught.value)
    path.write_text("# a comment, and no study\n")
    assert read_editions(path.parent) == {}


# ------------------------------------------------------------- records that no study can use


def write_changed_record(record: Record, data: Path, where: str, new_value: Any) -> str:
    """Write the record with another value at ``where``; return the file's path below ``data``."""
    document = json.loads(encode(record))
    change(document, where, new_value)
    text = json.dumps(document).encode()
    path = data / record.study / record_name(record, text)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    return path.relative_to(data).as_posix()


@pytest.mark.parametrize(("study", "where", "new_value", "fault"), [
    ("conv_scaling", "layers.0.output_shape", [1, 64], "layer conv2"),
    ("conv_scaling", "layers.0.padding", [2**40] * 2, "layer conv2"),
    *(("conv_scaling", "cases.0.factors.batch", level, "batch")
      for level in ("64", True, 1.5, 0, 10**20)),
    ("backend_speedup", "cases.0.factors.samples", 10**20, "samples"),
    ("conv_profiling", "cases.0.layers", GONE, "layers: found no layer of a case that ran"),
])  # fmt: skip
def test_impossible_cases_are_named(
    study: str, where: str, new_value: Any, fault: str, tmp_path: Path
) -> None:
    data = factory.data_folder(tmp_path)
    file = write_changed_record(small_record(study), data, where, new_value)
    with pytest.raises(RidgepointError) as caught:
        compute(study, choose_records(study, data).inputs)
    message = assert_sentence(caught.value, f"data/{file}: ")
    assert "cases[" in message and fault in message


@pytest.mark.parametrize(
    "error",
    [None, StudyError("data/{}: a.json: cut off."), StudyError("Found no value."), KeyError("x")],
)
def test_records_on_which_a_study_fails_are_left_out(
    error: Exception | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``error``, the study refuses the batch "64", a text; else it raises ``error``."""
    study, newer = "conv_scaling", small_record("conv_scaling")
    machine = msgspec.structs.replace(newer.environment, key="another-machine")
    older = msgspec.structs.replace(newer, started="2026-10-01T10:00:00Z", environment=machine)
    data = factory.data_folder(tmp_path)
    batch = newer.cases[0].factors["batch"] if error else "64"
    bad_file = write_changed_record(newer, data, "cases.0.factors.batch", batch)

    def failing_study(inputs: Inputs) -> Any:
        if error and bad_file in inputs.files:
            raise type(error)(str(error).format(bad_file))

    if error:
        monkeypatch.setattr("report.evaluation.gather.find_study", lambda study: failing_study)
    with pytest.raises(RidgepointError, match=bad_file):
        compute_usable(study, data)
    write_record(older, data)
    chosen, _ = compute_usable(study, data)
    (notice,) = (notice for notice in chosen.notices if notice.startswith("left out: "))
    assert notice.startswith(f"left out: data/{bad_file}: {'' if error else 'cases[0]'}")
    assert [row["file"] for row in chosen.listing if row.get("left_out")] == [bad_file]
    assert [item.file for item in chosen.inputs.records] == [f"{study}/{record_name(older)}"]


def test_errors_in_code_name_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = factory.data_folder(tmp_path, small_record("conv_scaling"))
    file = str(factory.ROOT / "report" / "theory" / "work.py")
    for error, message in (
        (SyntaxError("bad", (file, 7, 1, "")), "report/theory/work.py:7: bad"),
        (NameError("no x"), "report/evaluation/gather.py:[0-9]+: no x; correct that line"),
    ):
        monkeypatch.setattr("report.evaluation.gather.find_study", Mock(side_effect=error))
        with pytest.raises(StudyError, match=f"^{message}"):
            compute_usable("conv_scaling", data)


def test_misspelt_quantities_and_units_of_a_study_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = factory.data_folder(tmp_path, small_record("conv_scaling"))
    parsec = [{"Time (parsec)": exact_number("time", "s", 1)}]
    no_unit = r"the heading 'Time \(parsec\)': parsec is not s with a decimal prefix"
    misspelt = r"'tiem' is no quantity of .*quantities.py \(did you mean time\?\)"
    run = Run(factory.stored(factory.record()), "x")
    for query, message in (
        (lambda inputs: run.series("tiem", {}), misspelt),
        (lambda inputs: run.samples("tiem", {}), misspelt),
        (lambda inputs: table_of("tbl-x", parsec), no_unit),
    ):
        monkeypatch.setattr("report.evaluation.gather.find_study", lambda name, study=query: study)
        with pytest.raises(StudyError, match=f"^report/studies/conv_scaling: {message}; correct"):
            compute_usable("conv_scaling", data)


def test_records_without_cases_and_records_that_raise_an_error_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message contains the file's path once, whatever the name of the data folder."""
    data = factory.data_folder(tmp_path, small_record("conv_scaling")).rename(tmp_path / "class")
    plain = factory.record(machine=factory.environment("odd-1t"))
    for record, reason in (
        (msgspec.structs.replace(plain, cases=()), "cases: found none; measure again."),
        (plain, "cannot be used (ValueError: odd); restore it with git, or measure"),
    ):
        path = write_record(record, data)

        def raise_error(stored: Stored, name: str = path.name) -> Stored:
            if name in stored.file and require_usable(stored):
                raise ValueError("odd")
            return stored

        monkeypatch.setattr("report.instruments.judgement.require_usable", raise_error)
        chosen = choose_records("conv_scaling", data)
        (notice,) = (notice for notice in chosen.notices if path.name in notice)
        assert notice.startswith(f"left out: data/conv_scaling/{path.name}: {reason}")
        assert notice.count("conv_scaling") == 1
        path.unlink()


def test_only_damaged_imports_are_left_out(tmp_path: Path) -> None:
    """One import is truncated; another lacks a condition that the study needs."""
    data, study = factory.data_folder(tmp_path), "gpu_survey"
    folder = data / study / "imported"
    folder.mkdir(parents=True)
    first, second, third = read_records(study, DATA, ImportedRecord)[:3]
    shutil.copy(DATA / first.file, folder)
    (data / second.file).write_bytes((DATA / second.file).read_bytes()[:5000])
    document = json.loads((DATA / third.file).read_bytes())
    change(document, "conditions.precision", GONE)
    text = json.dumps(document).encode()
    incomplete = folder / record_name(third.record, text)
    incomplete.write_bytes(text)
    chosen, _ = compute_usable(study, data)
    notice_of_truncated, notice_of_incomplete = (
        notice for notice in chosen.notices if notice.startswith("left out: ")
    )
    assert notice_of_truncated.startswith(f"left out: data/{second.file}: ")
    place = f"data/{incomplete.relative_to(data)}: conditions.precision"
    assert notice_of_incomplete.startswith(f"left out: {place}")
    assert [stored.file for stored in chosen.inputs.imported] == [first.file]


DEVICES = read_devices(DATA / "devices.yaml")
SOURCE = read_reported(DATA / "reported" / "conv_scaling.json")
MISSING_SOURCE = read_reported(DATA / "reported" / "none.json")


@pytest.mark.parametrize(("model", "key"), [
    ("Tesla V100-SXM2-16GB", "v100-sxm2"),
    ("nvidia h200", "h200"),
    ("NVIDIA GeForce RTX 3090", "rtx-3090"),
    ("NVIDIA GeForce RTX 3090 Ti", None),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
    ("NVIDIA H200 NVL", None),
    ("", None),
])  # fmt: skip
def test_devices_are_looked_up_by_model(model: str, key: str | None) -> None:
    device = DEVICES.find(model)
    assert (device and device.key) == key


@pytest.mark.parametrize(("query", "message"), [
    (lambda: MISSING_SOURCE.table("I"),
     "^data/reported/none.json: no table 'I': the file is missing"),
    (lambda: SOURCE.table("VII"), "no table 'VII': it has I, II, III, IV, V, VI, summary"),
    (lambda: SOURCE.table("I", rows=9), "Table I: expected 9 rows, found 5"),
    (lambda: SOURCE.value("speedup"), "no value 'speedup': it has kernel_height"),
    (lambda: SOURCE.table("I").column("time"), "Table I .* has no column 'time'"),
])  # fmt: skip
def test_messages_list_the_known_names(query: Callable[[], object], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        query()


#: Text with a character that reverses the direction, and with control characters of terminals.
INVISIBLE = "a\u202eb\x1b[31m\x07"


def test_invisible_characters_of_data_are_written_as_code_points(tmp_path: Path) -> None:
    content = {INVISIBLE: [INVISIBLE, (INVISIBLE, 1, None)]}
    write_json(content, tmp_path / "x.json")
    for text in (script_of("x", content), (tmp_path / "x.json").read_text("utf-8")):
        assert escape_invisible(text) == text
        assert "\\u001b" not in text
        assert text.count("‹U+202E›") == 3


@pytest.mark.parametrize("text", [LONG * 100, INVISIBLE, "a\ud800b", "a\nb\r\tc", "\u202e" * 10**6])
def test_a_message_is_one_short_printable_line(text: str) -> None:
    message = assert_sentence(RecordError(f"data/x.json: found {text}; restore it."), "data/x.json")
    assert message.endswith("; restore it.")


def test_an_error_of_rendering_has_at_most_twenty_short_lines() -> None:
    lines = str(RenderError("\n".join(["one", "y" * 500, *"abc"] * 30))).splitlines()
    assert (max(map(len, lines)), len(lines)) == (LONGEST, 20)
