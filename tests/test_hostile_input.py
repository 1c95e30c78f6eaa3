"""Whatever stands in a file under ``data/``: one sentence that names it, or a right paper."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from report.engine.computing import compute
from report.engine.gather import gather
from report.engine.pipeline import ROOT
from report.errors import LONGEST, RecordError, RenderError, RidgepointError, StudyError
from report.evidence.case_checks import check_factors
from report.records.filed import content_hash, encode, parse
from report.records.store import read_record
from tests import factory
from tests.fuzz import records
from tests.test_records import change, drop

ONE = "conv_scaling"
HUGE, LONG = 10**309, "x" * 10**7
TIME = ("cases", 0, "series", 0, "samples", 0)
LAYER = ("networks", 0, 0)


def put(study: str, text: bytes, data: Path) -> Path:
    """Write the text as a record of ``study``, with the attachments of the small one."""
    path = data / study / "20261101T100000Z-example-2t-00000000.json"
    path.with_suffix("").mkdir(parents=True)
    path.write_bytes(text)
    for name, content in records.small(study).files.items():
        (path.with_suffix("") / name).write_bytes(content)
    return path


def case_of(study: str, subject: str) -> int:
    """The place of the first case of a subject."""
    cases = records.small(study).record.cases
    return next(i for i, case in enumerate(cases) if case.factors["subject"] == subject)


def factor(study: str, subject: str, name: str, to: Any) -> tuple[str, Any, str, str]:
    """A study whose first case of a subject has another level, and how a message names it."""
    place = case_of(study, subject)
    field = f"cases[{place}].factors"
    return study, change("cases", place, "factors", name, to=to), field, name


def without(study: str, subject: str, name: str) -> tuple[str, Any, str, str]:
    place = case_of(study, subject)
    return study, drop("cases", place, "factors", name), f"cases[{place}].factors", name


#: Study, what is done to its small record, and two pieces that the message holds.
REFUSED: tuple[tuple[str, Callable[[Any], None], str, str], ...] = (
    (ONE, change(*TIME, to=HUGE), "series[0].samples[0]", "at most 64 bits"),
    (ONE, change(*TIME, to=1e300), "series[0].samples[0]", "at most 64 bits"),
    (ONE, change(*TIME, to=5e-324), "series[0].samples[0]", "at least 1e-12"),
    (ONE, change("ceilings", 0, "work", to=HUGE), "ceilings[0].work", "at most 64 bits"),
    (ONE, change("ceilings", 0, "samples", 0, to=5e-324), "ceilings[0].samples[0]", "5e-3"),
    (ONE, change("protocol", "seed", to=HUGE), "protocol.seed", "at most 64 bits"),
    (ONE, change("environment", "memory_bytes", to=HUGE), "memory_bytes", "64 bits"),
    (ONE, change("environment", "cpu", "model", to=LONG), "cpu.model", "at most 200"),
    (ONE, change("cases", 0, "factors", "pass", to=LONG), "factors.pass", "200"),
    (ONE, change("study", to=LONG), "study", "found"),
    (ONE, change(*LAYER, "input_shape", to=[1, 32, HUGE, 26]), "cases[0]", "layer conv2"),
    (ONE, change("cases", 0, "layers", "batch", to=HUGE), "cases[0]", "layer conv2"),
    (ONE, change("cases", 0, "layers", "network", to=HUGE), "cases[0].layers.network", "found 1"),
    (ONE, change("cases", 1, "layers", "batch", to=-1), "cases[1].layers.batch", "found -1"),
    (ONE, change(*LAYER, "output_shape", to=[1, 64]), "cases[0]", "layer conv2"),
    (ONE, change(*LAYER, "input_shape", 0, to=0), "networks[0][0].input_shape", "found 0"),
    (ONE, change(*LAYER, "stride", to=[-1, 1]), "networks[0][0].stride", "found -1"),
    (ONE, change(*LAYER, "padding", to=[10**30] * 2), "cases[0]", "layer conv2"),
    *(
        factor("conv_scaling", "layer", "batch", level)
        for level in ("64", True, 1.5, -1, 0, 10**30)
    ),
    *(
        factor("backend_speedup", "scaling", "samples", level)
        for level in ("64", True, 1.5, -1, 0, 10**30)
    ),
    factor("backend_speedup", "scaling", "hidden", "wide"),
    factor("backend_speedup", "training", "dtype", "int9"),
    without("backend_speedup", "training", "samples"),
    without("conv_profiling", "trace", "scope"),
    without("conv_profiling", "training", "dataset"),
    without("conv_scaling", "variant", "batch"),
    without("inference_memory", "accuracy", "network"),
    without("training_roofline", "training", "subject"),
)  # fmt: skip


@pytest.mark.parametrize(("study", "fault", "field", "found"), REFUSED)
def test_what_no_study_can_compute_from_is_refused(
    study: str, fault: Callable[[Any], None], field: str, found: str, tmp_path: Path
) -> None:
    document = json.loads(encode(records.small(study).record))
    fault(document)
    path = put(study, json.dumps(document).encode(), data := factory.data_folder(tmp_path))
    with pytest.raises(RidgepointError) as caught:
        compute(study, gather(study, data))
    message = str(caught.value)
    assert message.startswith(f"data/{study}/{path.name}: ")
    assert field in message
    assert found in message
    assert len(message) <= LONGEST


TEXT = encode(factory.record())
SEED = b'"seed": 0'


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (SEED, SEED + b',\n"seed": 7', "line 9, protocol.seed: found this field twice"),
        (SEED, SEED + rb', "\u0073eed": 0', "protocol.seed: found this field twice"),
        (b'"batch": 1,', b'"batch": 1, "batch": 1,', "factors.batch: found this field twice"),
        (b'"schema": 3', b'"schema": 3e400', "schema"),
        (b'"schema": 3', b'"schema": ' + b"9" * 5000, "schema"),
        (b'"schema": 3', b'"schema": [1', "not valid JSON"),
        (SEED, b'"seed": 1e400', "protocol.seed"),
        (SEED, b'"seed": ' + b"9" * 5000, "protocol.seed"),
        (SEED, b'"seed": -' + b"9" * 4300, "protocol.seed"),
    ],
)  # fmt: skip
def test_json_that_contradicts_itself_or_overflows_is_refused(
    old: bytes, new: bytes, found: str
) -> None:
    assert old in TEXT
    with pytest.raises(RecordError) as caught:
        parse(TEXT.replace(old, new, 1), "data/x.json")
    assert str(caught.value).startswith("data/x.json: ")
    assert found in str(caught.value)
    assert len(str(caught.value)) <= LONGEST


def test_a_field_twice_is_noticed_though_the_hash_fits_what_is_kept(tmp_path: Path) -> None:
    record = factory.record()
    data = tmp_path / "data"
    path = data / record.study / f"20261101T100000Z-example-2t-{content_hash(record)}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(TEXT)
    assert read_record(path, data).untouched
    path.write_bytes(TEXT.replace(SEED, b'"seed": 5, "seed": 0'))
    with pytest.raises(RecordError, match=r"protocol\.seed: found this field twice"):
        read_record(path, data)


def test_a_factor_is_named_with_its_case() -> None:
    stored = factory.stored(factory.record())
    check_factors(stored, {"layer": {"batch": int, "pass": ("forward", "forward_backward")}})
    for needed, found in (
        ({"batch": str}, "batch: expected text, found 1"),
        ({"pass": int}, "pass: expected a whole number from 1 on, found 'forward'"),
        ({"pass": ("up", "down")}, "pass: expected one of up, down, found 'forward'"),
        ({"size": int}, "size: this factor is missing"),
    ):
        with pytest.raises(StudyError, match=rf"^data/.*: cases\[0\]\.factors\.{re.escape(found)}"):
            check_factors(stored, {"layer": needed})


def test_a_study_names_the_file_that_its_numbers_come_from(tmp_path: Path) -> None:
    """Deep in theory nobody knows from which file a layer came."""
    study = "training_roofline"
    document = json.loads(encode(records.small(study).record))
    for network in document["networks"]:
        for layer in network:
            layer["name"] = layer["name"].replace("shortcut", "x")
    path = put(study, json.dumps(document).encode(), data := factory.data_folder(tmp_path))
    with pytest.raises(StudyError, match=rf"^data/{study}/{path.name}: layer "):
        compute(study, gather(study, data))


@pytest.mark.parametrize(
    ("study", "table", "rows"),
    [(ONE, "III", "5"), ("conv_profiling", "kernels", "4"), ("training_roofline", "cores", "2")],
)  # fmt: skip
def test_a_row_of_the_source_that_is_gone_is_refused(
    study: str, table: str, rows: str, tmp_path: Path
) -> None:
    path = factory.data_folder(tmp_path) / "reported" / f"{study}.json"
    document = json.loads(path.read_bytes())
    del next(t for t in document["tables"] if t["id"] == table)["rows"][-1]
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(StudyError, match=rf"^data/reported/{study}\.json: .*expected {rows} rows"):
        compute(study, gather(study, tmp_path / "data"))


# ------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 10**7, "x…x"),
        ("a\u202eb", r"a\u202eb"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\ud800b", r"a\ud800b"),
        ("a\nb\r\tc", "a b c"),
        ("\u202e" * 10**6, r"\u202e"),
    ],
)
def test_a_message_is_one_short_printable_line(text: str, shown: str) -> None:
    message = str(RecordError(f"data/x.json: found {text}; mend it."))
    assert shown in message
    assert message.startswith("data/x.json: found ")
    assert message.endswith("; mend it.")
    assert len(message) <= LONGEST
    assert message.isprintable()


def test_a_renderer_may_name_several_problems_each_in_a_line() -> None:
    message = str(RenderError("\n".join(["one", "y" * 500, *"abc"] * 30)))
    assert message.startswith("one\ny")
    assert max(map(len, message.splitlines())) == LONGEST
    assert len(message.splitlines()) == 20


# -------------------------------------------------------------------------- the command itself


def build(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    places = ["--data", str(data), "--out", str(data.parent / "out")]
    command = [sys.executable, "build.py", "conv_scaling", "--html", *places, *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("file", "content", "options"),
    [
        ("pins.yaml", b"k: " + b"[" * 200_000, ()),
        ("devices.yaml", b"- " * 100_000, ()),
        ("expected.yaml", b"{a: " * 60_000, ("--check",)),
        ("pins.yaml", b"conv_scaling: !!python/object:os.system [x]", ()),
        ("expected.yaml", b"conv_scaling: {claims: {a: 2001-99-99, a: x}}", ("--check",)),
        ("references.bib", rb"@misc{a, title = {\input{/etc/passwd}}}", ()),
        ("conv_scaling/20261101T100000Z-example-2t-00000000.json",
         TEXT.replace(b'"schema": 3', b'"schema": 3e400'), ()),
        ("conv_scaling/20261101T100000Z-example-2t-00000000.json",
         TEXT.replace(b'"batch": 4', b'"batch": "4"', 1), ()),
    ],
)  # fmt: skip
def test_the_command_prints_one_sentence(
    file: str, content: bytes, options: Iterable[str], tmp_path: Path
) -> None:
    path = factory.data_folder(tmp_path) / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    finished = build(tmp_path / "data", *options)
    (message,) = [line for line in finished.stderr.splitlines() if not line.startswith("[")]
    assert finished.returncode == 1
    assert message.startswith("error: ")
    assert f"data/{file}: " in message
    assert len(message.removeprefix("error: ")) <= LONGEST
