"""Attacks on records: one node of a small record is damaged, then it is read and computed from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from report.engine.computing import compute
from report.engine.gather import gather
from report.engine.pipeline import ROOT
from report.errors import RecordError
from report.paper.manuscript import render_manuscript
from report.records.filed import encode, parse
from report.records.record import Record
from report.records.store import read_record, record_name
from report.studies.training_roofline.subject import Step
from tests import factory, inference, profiling, test_backend_speedup, training
from tests.fuzz.judge import judge, not_finite
from tests.fuzz.outcome import Outcome, Report

#: A study is computed from one attack in so many, since it takes a hundred times as long.
COMPUTED = 40
#: How a text begins that stands for JSON which Python's writer would not write.
_RAW = "raw JSON: "
_EXTREMES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 5e-324, 1e-300, 1e18, 1e308, 2**31, 2**53 + 1,
    2**63, 10**30, 10**310, -(10**310), "", "64", "x" * 1000, "\u202eabc", "a\nb", "\x00",
    "{{ v }}", "\\input{x}", [], {}, [[]], {"a": 1}, "00000000", f"{_RAW}1e400", f"{_RAW}NaN",
    f"{_RAW}-Infinity", f"{_RAW}{'9' * 5000}", f"{_RAW}1E5", f"{_RAW}-0",
    f'{_RAW}"\\ud800"', f"{_RAW}{'[' * 5000}",
)  # fmt: skip


class Small(NamedTuple):
    """A record small enough to be read a thousand times, with the files beside it."""

    record: Record
    files: Mapping[str, bytes] = {}

    @property
    def text(self) -> bytes:
        """The record as it is written."""
        return _written(self.record.study)


def _conv_scaling() -> Small:
    """Cases of every subject of a real run."""
    (path, *_) = sorted((ROOT / "data" / "conv_scaling").glob("*-1t-*.json"))
    document = json.loads(path.read_bytes())
    by_subject: dict[str, list[Any]] = {}
    for case in document["cases"]:
        by_subject.setdefault(case["factors"]["subject"], []).append(case)
        for series in case["series"]:
            del series["samples"][8:]
    cases = [case for found in by_subject.values() for case in found[:: len(found) // 8 + 1]]
    changed = {**document, "cases": cases, "attachments": []}
    return Small(parse(json.dumps(changed).encode(), path.name))


def _inference() -> Small:
    hows = ({}, {"layout": "channels_last"}, {"precision": "bfloat16"}, {"execution": "folded"})
    calls = [inference.call("LeNet-5", 8, **how) for how in hows]
    tiled = {"network": "ResNet-20", "image": 224, "batch": 8}
    calls += [
        inference.call("LeNet-5", 64),
        inference.call(**tiled),
        inference.call(**tiled, execution="tiled_blocks", tile=16),
    ]
    return Small(inference.record(inference.cases(calls=calls)))


def _training() -> Small:
    plain = Step("ResNet-18", 64, 2)
    steps = [plain, Step("ResNet-18", 64, 8), plain.with_(precision="bfloat16")]
    cases = [training.product("before"), training.sensor("clock"), training.profile(plain)]
    cases += [training.case(step, process) for step in steps for process in (1, 2)]
    return Small(training.record([*cases, training.product("after")]))


def _backend_speedup() -> Small:
    files = test_backend_speedup.inputs(test_backend_speedup.one_thread()).attachments
    (content,) = files.values()
    record = test_backend_speedup.record(machine=factory.environment("example-1t", threads=1))
    return Small(record, content)


_MADE: Mapping[str, Callable[[], Small]] = {
    "conv_scaling": _conv_scaling,
    "conv_profiling": lambda: Small(profiling.record(), profiling.FILES),
    "inference_memory": _inference,
    "training_roofline": _training,
    "backend_speedup": _backend_speedup,
}


@lru_cache
def small(study: str) -> Small:
    """The record of ``study`` that is attacked, with the digests of its files."""
    made = _MADE[study]()
    return Small(profiling.with_files(made.record, made.files), made.files)


@lru_cache
def _written(study: str) -> bytes:
    return encode(small(study).record) + b"\n"


def attack(random: Random, room: Path) -> Report:
    """Damage one record in one place, read it, and now and then compute its study from it."""
    # Every study takes about as much of the time.
    sizes = [len(small(study).text) for study in _MADE]
    (study,) = random.choices(tuple(_MADE), [1 / size for size in sizes])
    whole = small(study)
    kind, text = damaged(random, whole.text)
    folder = room / "data" / study
    if not folder.exists():
        _add_others(folder.parent)
        folder.mkdir()
    path = folder / _name(text, whole.record, renamed=random.random() < 0.5)
    path.write_bytes(text)
    computed = random.randrange(COMPUTED) == 0
    try:
        return judge(f"{study}: {kind}", path.name, lambda: _use(path, whole, computed=computed))
    finally:
        path.unlink()
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)


def _add_others(data: Path) -> None:
    """All that a study reads beside its records."""
    data.mkdir(exist_ok=True, parents=True)
    shutil.copytree(ROOT / "data" / "reported", data / "reported", dirs_exist_ok=True)
    shutil.copyfile(ROOT / "data" / "devices.yaml", data / "devices.yaml")


def _name(text: bytes, old: Record, *, renamed: bool) -> str:
    """The name of the undamaged record, or the one that fits what the damage left of it."""
    try:
        return record_name(parse(text, "x") if renamed else old)
    except RecordError:
        return record_name(old)


def _use(path: Path, whole: Small, *, computed: bool) -> Outcome:
    data, study = path.parents[1], whole.record.study
    stored = read_record(path, data)
    same = stored.record == whole.record
    assert same or not stored.untouched or path.name != record_name(whole.record), "not noticed"
    if computed:
        path.with_suffix("").mkdir()
        for name, content in whole.files.items():
            (path.with_suffix("") / name).write_bytes(content)
        found = compute(study, gather(study, data))
        wrong = list(not_finite(found.as_json(study, ())))
        assert not wrong, f"not finite: {', '.join(wrong[:3])}"
        render_manuscript(ROOT / "templates" / "papers" / f"{study}.qmd.j2", found)
    return Outcome.UNCHANGED if stored.untouched else Outcome.MARKED


# ------------------------------------------------------------------------------------- damage


def damaged(random: Random, text: bytes) -> tuple[str, bytes]:
    """What is done to a JSON text, in a word, and the text afterwards."""
    if random.random() < 0.1:
        return _cut(random, text)
    document = json.loads(text)
    kind = random.choice(tuple(_CHANGES))
    _CHANGES[kind](random, *_node(random, document))
    # Without an indent Python's encoder is the quick one.
    return kind, _with_raw(json.dumps(document)).encode()


def _node(random: Random, document: Any) -> tuple[Any, Any]:
    """A container of the document and the key or index of one of its parts, at any depth."""
    container, key = document, random.choice(tuple(document))
    while isinstance(inner := container[key], dict | list) and inner and random.random() < 0.85:
        keys = tuple(inner) if isinstance(inner, dict) else range(len(inner))
        container, key = inner, random.choice(keys)
    return container, key


def _cut(random: Random, text: bytes) -> tuple[str, bytes]:
    start = random.randrange(len(text))
    end = min(len(text), start + random.choice((0, 1, 3, 40, len(text))))
    return "bytes", text[:start] + random.randbytes(random.choice((0, 1, 2))) + text[end:]


def _delete(random: Random, container: Any, key: Any) -> None:
    del container[key]


def _repeat(random: Random, container: Any, key: Any) -> None:
    if isinstance(container, list):
        container.insert(key, container[key])
    else:
        value = json.dumps(container[key])
        container[key] = f"{_RAW}{value}, {json.dumps(key)}: {value}"


def _replace(random: Random, container: Any, key: Any) -> None:
    container[key] = random.choice(_EXTREMES)


def _change_type(random: Random, container: Any, key: Any) -> None:
    found = container[key]
    made: list[Any] = [[found], {"a": found}, None]
    made += [str(found)] if not isinstance(found, str) else [0, True]
    made += [-found, found * 1.5, found * 10**9, bool(found)] if isinstance(found, int) else []
    container[key] = random.choice(made)


def _swap(random: Random, container: Any, key: Any) -> None:
    other = random.choice(
        tuple(container) if isinstance(container, dict) else range(len(container))
    )
    container[key], container[other] = container[other], container[key]


def _rename(random: Random, container: Any, key: Any) -> None:
    if isinstance(container, dict):
        container[random.choice(("", "batch", "x", "\u202e", key + "s"))] = container.pop(key)


def _empty(random: Random, container: Any, key: Any) -> None:
    if isinstance(container[key], dict | list):
        container[key].clear()


_CHANGES: Mapping[str, Callable[[Random, Any, Any], None]] = {
    "delete": _delete,
    "repeat": _repeat,
    "replace": _replace,
    "type": _change_type,
    "swap": _swap,
    "rename": _rename,
    "empty": _empty,
}


def _with_raw(text: str) -> str:
    """``text`` with every raw piece as itself in place of the text that stands for it."""
    start = text.find(f'"{_RAW}')
    if start < 0:
        return text
    piece, end = json.JSONDecoder().raw_decode(text, start)
    return text[:start] + piece.removeprefix(_RAW) + text[end:]
