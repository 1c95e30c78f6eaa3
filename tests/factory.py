"""Valid records with chosen cases, for tests that must not depend on a machine."""

import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from report.core.records import record as record_types
from report.core.records import store
from report.core.records.consistency import null_fields
from report.core.records.file_format import parse
from report.core.records.layers import Convolution, Layer
from report.core.records.record import Case, Ceiling, Environment, Gpu, Host, Record, Round, Sample
from tests.networks import mnist_conv2

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"

#: A record of a CPU without cases and ceilings.
PLAIN = parse(Path(__file__).with_name("record.json").read_bytes(), "tests/record.json")

#: Theory of the layer ``mnist_conv2``, computed by hand.
OUTPUT_BYTES = 147_456
PARAMETER_BYTES = 73_984

GPU = Gpu(
    model="NVIDIA Example 100",
    memory_bytes=80 * 2**30,
    compute_capability="9.0",
    driver="575.57.08",
    cuda="12.9",
    cudnn="9.10",
)


def published(study: str, pattern: str) -> bytes:
    """Return the only attachment of a study's imported records whose name matches ``pattern``."""
    matches: list[object] = []
    for stored in store.read_records(study, DATA, record_types.ImportedRecord):
        matches.extend(store.read_attachments(stored, (pattern,), DATA).values())
    (content,) = matches
    assert isinstance(content, bytes)
    return content


def edit(path: Path, old: str, new: str) -> None:
    """Replace every ``old`` in the text of a record by ``new``."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def layer(batch: int, name: str = "conv2") -> Convolution:
    """Return the convolution of conv_scaling."""
    return msgspec.structs.replace(mnist_conv2(batch), name=name)


def measured(samples: Mapping[str, Iterable[Sample]]) -> record_types.SeriesByQuantity:
    """Return the non-empty series as tuples, by quantity."""
    series = {name: tuple(values) for name, values in samples.items()}
    return {name: values for name, values in series.items() if values}


def round_(process: int, samples: Mapping[str, Iterable[Sample]], **change: Any) -> Round:
    """Return the measurements of a case in one process, by default a successful one.

    By default the process kept freed memory (policy ``retained``); ``change`` overrides fields.
    """
    series = {name: tuple(values) for name, values in samples.items()}
    return Round(**{"process": process, "policy": "retained", "series": series, **change})


def case(
    batch: int,
    pass_: str = "forward",
    time: Sequence[Sample] = (),
    memory: dict[str, Sequence[int]] | None = None,
    status: record_types.Status = "ok",
    reason: str | None = None,
    layers: tuple[Layer, ...] | None = None,
    subject: str = "layer",
) -> Case:
    """Return a case; ``time`` in s, ``memory`` as quantity → samples in B."""
    series = {"time": time, **(memory or {})}
    return Case(
        factors={"batch": batch, "layout": "contiguous", "pass": pass_, "subject": subject},
        status=status,
        reason=reason,
        layers=(layer(batch),) if layers is None else layers,
        series=measured(series),
    )


def memory(held: int, peak: int) -> dict[str, Sequence[int]]:
    """Return three equal readings of each memory quantity, in B.

    ``held`` (after the call) and ``peak`` (during the call) exceed the 4,096 B before the call.
    """
    return {
        "allocated_before": [4096] * 3,
        "allocated_after": [4096 + held] * 3,
        "allocated_peak": [4096 + peak] * 3,
    }


def scattered(centre: float, spread: float = 0.01, n: int = 15) -> list[float]:
    """Return fixed samples whose median is ``centre``.

    Multiples of 7 modulo ``n`` mix small and large samples: sorted samples would look correlated,
    and would count as few independent samples.  Samples above ``centre`` deviate twice as far as
    those below, so that no interval is symmetric.
    """
    ranks = sorted(range(n), key=lambda i: 7 * i % n)
    steps = (2 * rank / (n - 1) - 1 for rank in ranks)
    return [centre * (1 + spread * (step if step < 0 else 2 * step)) for step in steps]


def layer_cases(
    batches: Sequence[int] = (1, 4, 16, 64),
    time: Callable[[int], float] = lambda batch: 1e-4 + 2e-4 * batch,
) -> list[Case]:
    """Return cases of the layer; forward and backward together last three times as long."""
    cases = []
    for pass_, factor in (("forward", 1), ("forward_backward", 3)):
        for batch in batches:
            readings = memory(batch * OUTPUT_BYTES, 2 * batch * OUTPUT_BYTES)
            cases.append(case(batch, pass_, scattered(factor * time(batch)), readings))
    return cases


def rounds(
    times: Iterable[Sequence[Sample]],
    policy: record_types.Policy = "retained",
    **more: Sequence[Sample],
) -> tuple[Round, ...]:
    """Return one round per process: its times (s), and the series ``more``, equal in all rounds."""
    numbered = enumerate(times, start=1)
    return tuple(round_(n, {"time": time, **more}, policy=policy) for n, time in numbered)


def measurement(
    started: str = "2026-11-01T10:00:00Z",
    times: Iterable[Sequence[Sample]] = ((1.0, 1.1, 1.2), (1.0, 1.1, 1.3)),
    held: int = 8192,
    **change: Any,
) -> Record:
    """Return a record of one case that was measured in separate processes.

    ``times`` (s) has one series per process.  ``held`` is the size in B that is allocated after a
    call.  ``change`` overrides fields of the record.
    """
    timed_case = msgspec.structs.replace(
        case(4, memory=memory(held, held)), rounds=rounds(times, page_faults=(0, 0, 0))
    )
    plain = record([timed_case], started=started)
    protocol = msgspec.structs.replace(plain.protocol, processes={"retained": 2}, budget_s=60.0)
    return msgspec.structs.replace(plain, **{"protocol": protocol, **change})


def ceiling(operation: Any, moment: Any, rate: float) -> Ceiling:
    """Return a measured peak of ``rate`` FLOP/s or B/s."""
    work = 2 * 1024**3 if operation == "matrix_product" else 2**27
    return Ceiling(
        operation=operation,
        moment=moment,
        dtype="float32",
        size="1024x1024x1024" if operation == "matrix_product" else "16777216 elements",
        work=work,
        work_unit="FLOP" if operation == "matrix_product" else "B",
        samples=tuple(scattered(work / rate)),
    )


def ceilings(product: float = 2e11, copy: float = 3e10) -> tuple[Ceiling, ...]:
    """Return both ceilings (measured peaks in FLOP/s and B/s), before and after the run."""
    rates = {"matrix_product": product, "copy": copy}
    return tuple(
        ceiling(operation, moment, rate)
        for moment in ("before", "after")
        for operation, rate in rates.items()
    )


def environment(key: str = "example-2t", gpu: Gpu | None = None, **change: Any) -> Environment:
    """Return the environment of a run on a CPU or on ``gpu``; ``change`` overrides fields."""
    change = {"key": key, "gpu": gpu, "device": "cuda" if gpu else "cpu", **change}
    machine = msgspec.structs.replace(PLAIN.environment, **change)
    missing = dict.fromkeys(null_fields(machine), "not set by this test")
    return msgspec.structs.replace(machine, missing={**missing, **machine.missing})


def host(**change: Any) -> Host:
    """Return a host with the fields ``change``; all other fields are unknown."""
    unknown = dict.fromkeys(Host.__struct_fields__)
    return Host(**{**unknown, "flags": (), "caches": (), **change})


def record(
    cases: Iterable[Case] | None = None,
    machine: Environment | None = None,
    peaks: tuple[Ceiling, ...] | None = None,
    started: str = "2026-11-01T10:00:00Z",
    plan: Any = "full",
    study: str = "conv_scaling",
) -> Record:
    """Return a record of one layer's cases with both ceilings, unless other parts are given."""
    return msgspec.structs.replace(
        PLAIN,
        study=study,
        started=started,
        protocol=msgspec.structs.replace(PLAIN.protocol, plan=plan),
        environment=machine or PLAIN.environment,
        ceilings=ceilings() if peaks is None else peaks,
        cases=tuple(layer_cases() if cases is None else cases),
    )


def stored(content: Record) -> store.Stored:
    """Return the record as if it had been read from a file."""
    return store.Stored(content, f"{content.study}/{store.record_name(content)}")


def data_folder(parent: Path, *records: Record) -> Path:
    """Write a folder ``data`` with the sources, devices and references, and with these records."""
    data = parent / "data"
    shutil.copytree(DATA / "reported", data / "reported")
    for name in ("references.bib", "devices.yaml"):
        shutil.copyfile(DATA / name, data / name)
    for content in records:
        store.write_record(content, data)
    return data


#: Caches of 32 KiB and 1 MiB per core, and of 32 MiB per eight cores.
CACHES = (
    record_types.Cache(level=1, kind="data", size_bytes=2**15, cores=1),
    record_types.Cache(level=1, kind="instruction", size_bytes=2**15, cores=1),
    record_types.Cache(level=2, kind="unified", size_bytes=2**20, cores=1),
    record_types.Cache(level=3, kind="unified", size_bytes=2**25, cores=8),
)
#: A virtual server, without the fields that differ between servers of one type.
SERVER = host(
    vendor="AuthenticAMD",
    family=25,
    model=1,
    stepping=1,
    flags=("avx2", "fma"),
    caches=(record_types.Cache(level=3, kind="unified", size_bytes=2**25, cores=2),),
    sockets=1,
    virtualisation="kvm",
)


def printed(command: Sequence[str], folder: Path = ROOT) -> str:
    """Run a command that must succeed; return its standard output."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit(folder: Path) -> None:
    """Make a folder a git repository and commit all files."""
    git = ("git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run([*git, *words], check=True, capture_output=True)


def until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until ``condition`` holds; fail if ``process`` ends first, or after four minutes."""
    deadline = time.monotonic() + 240
    while not condition():
        assert process is None or process.poll() is None, process and process.communicate()
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.02)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files with these names below ``folder``; return the folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_program(path: Path, script: str) -> Path:
    """Write an executable script; return its path."""
    write_files(path.parent, {path.name: script})
    path.chmod(0o755)
    return path


def digests(folder: Path, but: Collection[str] = ()) -> dict[str, str]:
    """Return the digests of all files below ``folder``, except files named in ``but``."""
    return {
        path.relative_to(folder).as_posix(): store.digest(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in but
    }
