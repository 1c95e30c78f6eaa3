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
from report.theory.work import mnist_conv2

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"

#: A record of a CPU without cases and ceilings.
PLAIN = parse(Path(__file__).with_name("record.json").read_bytes(), "tests/record.json")

#: Bytes of the layer ``mnist_conv2`` for one image: 64 channels × 24 × 24 values of 4 B.
OUTPUT_BYTES = 147_456
#: Its 64 × 32 × 3 × 3 weights and 64 biases of 4 B.
PARAMETER_BYTES = 73_984

GPU = Gpu(
    model="NVIDIA Example 100",
    memory_bytes=80 * 2**30,
    compute_capability="9.0",
    driver="575.57.08",
    cuda="12.9",
    cudnn="9.10",
)


def imported_attachment(study: str, pattern: str) -> bytes:
    """Return the only attachment of a study's imported records whose name matches ``pattern``."""
    matches: list[object] = []
    for stored in store.read_records(study, DATA, record_types.ImportedRecord):
        matches.extend(store.read_attachments(stored, (pattern,), DATA).values())
    (content,) = matches
    assert isinstance(content, bytes)
    return content


def replace_text(path: Path, old: str, new: str) -> None:
    """Replace every ``old`` in a file by ``new``; fail if there is none."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def layer(batch: int, name: str = "conv2") -> Convolution:
    """Return the convolution that conv_scaling measures, for ``batch`` images."""
    return msgspec.structs.replace(mnist_conv2(batch), name=name)


def round_(process: int, samples: Mapping[str, Iterable[Sample]], **change: Any) -> Round:
    """Return the measurements of a case in one process (allocator policy: ``retained``).

    ``samples``: quantity → samples.  ``change`` overrides fields, such as the policy.
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
    """Return a case; ``time`` in s, ``memory`` as quantity → samples in B.

    By default the only layer is that of ``layer(batch)``.
    """
    series = {"time": tuple(time)} if time else {}
    for name, samples in (memory or {}).items():
        series[name] = tuple(samples)
    return Case(
        factors={"batch": batch, "layout": "contiguous", "pass": pass_, "subject": subject},
        status=status,
        reason=reason,
        layers=(layer(batch),) if layers is None else layers,
        series=series,
    )


def memory(held: int, peak: int) -> dict[str, Sequence[int]]:
    """Return three equal readings of each memory quantity, in B.

    4,096 B are allocated before the call, ``held`` more after it, and ``peak`` more at its peak.
    """
    return {
        "allocated_before": [4096] * 3,
        "allocated_after": [4096 + held] * 3,
        "allocated_peak": [4096 + peak] * 3,
    }


def scattered(centre: float, spread: float = 0.01, n: int = 15) -> list[float]:
    """Return ``n`` fixed samples from ``(1 - spread) * centre``; their median is ``centre``.

    Multiples of 7 modulo ``n`` mix small and large samples: sorted samples would look correlated,
    and would count as few independent samples.  Samples above ``centre`` deviate twice as far as
    those below, so that no interval is symmetric.
    """
    samples = []
    for rank in sorted(range(n), key=lambda i: 7 * i % n):
        deviation = 2 * rank / (n - 1) - 1  # from -1 to 1
        samples.append(centre * (1 + spread * max(deviation, 2 * deviation)))
    return samples


def layer_cases(
    batches: Sequence[int] = (1, 4, 16, 64),
    time: Callable[[int], float] = lambda batch: 1e-4 + 2e-4 * batch,
) -> list[Case]:
    """Return forward cases of the layer, and ``forward_backward`` cases of three times the time.

    ``time`` maps a batch to seconds.  A call holds the output, and twice the output at its peak.
    """
    cases = []
    for pass_, factor in (("forward", 1), ("forward_backward", 3)):
        for batch in batches:
            readings = memory(batch * OUTPUT_BYTES, 2 * batch * OUTPUT_BYTES)
            cases.append(case(batch, pass_, scattered(factor * time(batch)), readings))
    return cases


def rounds(times: Iterable[Sequence[Sample]], **series: Sequence[Sample]) -> tuple[Round, ...]:
    """Return one round per process with its times (s); other ``series`` are equal in all rounds."""
    result = []
    for process, samples in enumerate(times, start=1):
        result.append(round_(process, {"time": samples, **series}))
    return tuple(result)


def measurement(
    started: str = "2026-11-01T10:00:00Z",
    times: Iterable[Sequence[Sample]] = ((1.0, 1.1, 1.2), (1.0, 1.1, 1.3)),
    held: int = 8192,
    **change: Any,
) -> Record:
    """Return a record of one case (batch 4) that was measured in separate processes.

    ``times`` (s) has one series per process.  A call allocates ``held`` bytes and keeps them.
    ``change`` overrides fields of the record.
    """
    timed_case = msgspec.structs.replace(
        case(4, memory=memory(held, held)), rounds=rounds(times, page_faults=(0, 0, 0))
    )
    plain = record([timed_case], started=started)
    protocol = msgspec.structs.replace(plain.protocol, processes={"retained": 2}, budget_s=60.0)
    return msgspec.structs.replace(plain, **{"protocol": protocol, **change})


def ceiling(operation: Any, moment: Any, rate: float) -> Ceiling:
    """Return a measured peak of ``rate``: FLOP/s of ``matrix_product``, otherwise B/s."""
    size, work, unit = "16777216 elements", 2**27, "B"
    if operation == "matrix_product":
        size, work, unit = "1024x1024x1024", 2 * 1024**3, "FLOP"
    samples = tuple(scattered(work / rate))
    return Ceiling(operation, moment, "float32", size, work, unit, samples=samples)


def ceilings(product: float = 2e11, copy: float = 3e10) -> tuple[Ceiling, ...]:
    """Return both ceilings (measured peaks in FLOP/s and B/s), before and after the run."""
    peaks = []
    for moment in ("before", "after"):
        peaks += [ceiling("matrix_product", moment, product), ceiling("copy", moment, copy)]
    return tuple(peaks)


def environment(key: str = "example-2t", gpu: Gpu | None = None, **change: Any) -> Environment:
    """Return the environment of a run on a CPU or on ``gpu``; ``change`` overrides fields.

    ``key`` names the machine.
    """
    fields = {"key": key, "gpu": gpu, "device": "cuda" if gpu else "cpu", **change}
    machine = msgspec.structs.replace(PLAIN.environment, **fields)
    missing = dict.fromkeys(null_fields(machine), "not set by this test")
    return msgspec.structs.replace(machine, missing={**missing, **machine.missing})


def host(**change: Any) -> Host:
    """Return a host with the fields ``change``; all others are None or empty."""
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
    """Return a record, by default with ``layer_cases()`` and ``ceilings()``."""
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
    """Return the record as if it had been read from its file."""
    return store.Stored(content, f"{content.study}/{store.record_name(content)}")


def data_folder(parent: Path, *records: Record) -> Path:
    """Write a folder ``data`` with these records and copies of the project's other data.

    The copies are what the sources of the studies report, devices and references.
    """
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
#: A virtual server; the fields that differ between servers of one type are None.
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


def output_of(command: Sequence[str], folder: Path = ROOT) -> str:
    """Run a command that must succeed; return its standard output."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit_all(folder: Path) -> None:
    """Make a folder a git repository if it is none, and commit all files."""
    git = ("git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run([*git, *words], check=True, capture_output=True)


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None
) -> None:
    """Wait until ``condition`` is true; fail if ``process`` ends first, or after four minutes."""
    deadline = time.monotonic() + 240
    while not condition():
        assert process is None or process.poll() is None, process and process.communicate()
        assert time.monotonic() < deadline, "the condition was never true"
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


def digests(folder: Path, excluded: Collection[str] = ()) -> dict[str, str]:
    """Return path → digest of all files below ``folder`` whose name is not ``excluded``."""
    result = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in excluded:
            result[path.relative_to(folder).as_posix()] = store.digest(path.read_bytes())
    return result
