"""Planned cases of all studies, and a small run of each study.

Forks of this process measure, since the import of torch into new processes would take half of the
time.  Only conv_scaling measures ceilings.
"""

import gzip
import mmap
import os
import platform
import socket
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import pytest
import torch
import torch._inductor  # for all forks, in which torch's profiler would import it

from experiments import image_loader, inference_memory, registry, training_roofline
from experiments.commands.checks import checks_of
from experiments.conv_profiling import SHAPES, implementations_of
from experiments.counters import counting, lackey
from experiments.harness import measure, processes
from experiments.harness.measure import layers_of_case
from experiments.harness.request import Request
from experiments.harness.study import QUICK, Device, Session, Subject, UnavailableError
from report.core.errors import UsageError
from report.core.missing import Missing
from report.core.records.file_format import encode
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, Factors, Policy
from report.core.records.store import Stored, read_attachments, record_name
from report.studies.inference_memory import theory
from report.studies.inference_memory.subject import LimitOutcome
from report.theory.conditions import Conditions, vector_channels
from tests.experiments.conftest import ROOT, measure_study
from tests.stand_ins import fork_worker

STUDIES = {name: registry.load(name) for name in registry.STUDIES}


def planned_cases(
    name: str, device: Device = "cpu", *settings: str, **options: Any
) -> tuple[Factors, ...]:
    """Return the cases that a run of the study would measure."""
    return Request(name, Path(), device, settings=settings, **options).select()[2]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", STUDIES)
def test_cases_are_unique_and_counting_takes_minutes(name: str, device: Device) -> None:
    study, cases = STUDIES[name].on(device), planned_cases(name, device)
    assert len({frozenset(case.items()) for case in cases}) == len(cases)
    assert len(planned_cases(name, device, quick=True)) < len(cases)
    for protocol in (study.plan.full, study.plan.quick):
        assert set(protocol.processes) <= set(get_args(Policy))
        assert 1 <= protocol.minimum_samples <= protocol.maximum_samples
    # Two studies count executed operations, cases with little work first.
    selection = counting.select(study, device, dict(enumerate(cases)), "auto", Path(), "no version")
    assert device == "cuda" or selection.seconds(lackey) <= lackey.BUDGET_S
    work = [counting.multiply_adds(study, cases[index]) for index in selection.new]
    assert work == sorted(work) and not selection.earlier
    assert bool(work) == (name in {"conv_scaling", "conv_profiling"})


@pytest.mark.parametrize("name", ["conv_profiling", "conv_scaling"])
def test_every_call_returns_the_output_of_the_last_layer(name: str) -> None:
    meta: Any = "meta"  # tensors without memory
    for case in planned_cases(name, "cuda"):
        workload = measure.build_workload(STUDIES[name], case, meta)
        workload.once()
        result: Any = workload.call()
        last = layers_of_case(STUDIES[name], case)[-1]
        assert tuple(result.shape) == tuple(last.output_shape), case


def test_conv_profiling_measures_the_named_shapes() -> None:
    study = STUDIES["conv_profiling"]
    for case in planned_cases("conv_profiling"):
        inputs, outputs = map(int, str(case["channels"]).split("-"))
        kernel, image, batch = (int(case[name]) for name in ("kernel", "input", "batch"))
        # The layer's input is two pixels smaller than the network's images.
        side = image - 2
        (layer,) = layers_of_case(study, case)
        assert layer.input_shape == (batch, inputs, side, side)
        expected_macs = batch * outputs * (side + 1 - kernel) ** 2 * inputs * kernel**2
        assert counting.multiply_adds(study, case) == expected_macs
    all_shapes = [shape for shapes in SHAPES.values() for shape in shapes]
    assert len(all_shapes) == len(set(all_shapes)), "no held-out shape was used to derive rules"
    assert study.plan.full.processes == {"retained": 8} and study.plan.full.maximum_samples == 200


def test_code_and_formats_are_read_from_the_log_of_onednn() -> None:
    """Only executed convolutions count, not the other lines of the log."""
    shape = "mb8_ic9oc16_ih19oh17kh3sh1dh0ph0_iw19ow17kw3sw1dw0pw0"
    formats, verbose = "src:aBcd8b wei:A,attr-scratchpad:user", "onednn_verbose,v1"
    log = f"""{verbose},info,cpu,isa:Intel AVX2
{verbose},primitive,exec,cpu,reorder,jit:uni,undef,src:f32 dst:f32,,,8x9x19x19,0.4
{verbose},primitive,exec,cpu,convolution,jit:avx2,forward,{formats},alg:direct,{shape},4.8
"""
    assert implementations_of(log) == {shape: "jit:avx2 src:aBcd8b wei:A"}


def test_settings_select_cases() -> None:
    settings = ("sweep=peaks", "network=AlexNet", "batch=3,65,64")
    cases = planned_cases("inference_memory", "cpu", *settings)
    assert {case["batch"] for case in cases} == {3, 64}, "a CPU measures AlexNet up to batch 64"
    with pytest.raises(UsageError, match="no case"):
        planned_cases("inference_memory", "cpu", "sweep=tiling", "network=AlexNet")
    with pytest.raises(UsageError, match="possible are float32, bfloat16"):
        planned_cases("training_roofline", "cpu", "precision=tfloat32")


def test_the_users_images_replace_the_data_set_of_a_study() -> None:
    cases = planned_cases("backend_speedup", images=Path())
    assert {case["dataset"] for case in cases if "dataset" in case} == {"mnist"}


#: A batch of 10⁹ images needs 86 TB, more than any machine has.
TOO_MANY = 10**9
#: Study → settings (``--set``) that select a few small cases.
RUNS: dict[str, tuple[str, ...]] = {
    "conv_scaling": ("subject=layer", f"batch=1,{TOO_MANY}"),
    "conv_profiling": ("batch=64",),
    "inference_memory": ("sweep=peaks", "network=ResNet-20", "batch=1"),
    "training_roofline": ("subject=training,profile", "network=ResNet-18", "image=32", "batch=2",
                          "precision=float32", "layout=contiguous"),
    "backend_speedup": ("backend=numpy", "hidden=10", "samples=1000"),
}  # fmt: skip


class Run(NamedTuple):
    """The only record of a run, its attachments by name, and the folder of records."""

    stored: Stored
    files: dict[str, bytes]
    records: Path

    def case(self, **factors: object) -> Case:
        """Return the only case with these factors."""
        (match,) = (c for c in self.stored.record.cases if factors.items() <= c.factors.items())
        return match


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a function that measures a study once and returns its run."""

    @cache
    def measure_once(name: str) -> Run:
        records = tmp_path_factory.mktemp(name)
        words = [word for setting in RUNS[name] for word in ("--set", setting)]
        ceilings = name == "conv_scaling"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(processes, "start_worker", fork_worker)
            stored = measure_study(name, records, "--threads", "1", *words, ceilings=ceilings)
        return Run(stored, read_attachments(stored, ("*",), records), records)

    return measure_once


@pytest.mark.parametrize("name", RUNS)
def test_a_run_writes_a_valid_anonymous_record(run: Callable[[str], Run], name: str) -> None:
    stored, files, records = run(name)
    study, record = STUDIES[name], stored.record
    for case in record.cases:
        fits = case.factors.get("batch") != TOO_MANY
        assert case.status == ("ok" if fits else "out_of_memory")
        assert (case.reason is None) == fits
        assert case.layers == layers_of_case(study, case.factors)
        measured_series = [series for series in case.all_series if series]
        assert bool(measured_series) == fits
        for series in measured_series:
            for quantity, samples in series.items():
                assert samples and QUANTITIES[quantity].admits(samples)
        assert len(set(case.samples("allocated_peak"))) <= 1, "all calls have the same peak"
        # Records contain allocator events only for studies that replay them.
        assert ("memory_events" in case.series) == (fits and name.startswith("conv"))
        assert bool(case.rounds) == (fits and study.policies(case.factors, record.protocol) != ())
        for round_ in case.rounds:
            times = round_.samples("time")
            assert round_.status == "ok" and times and min(times) > 0
            assert len(round_.samples("page_faults")) == len(times)
    levels = {check.topic: check.level for check in checks_of(stored, records)}
    # In parallel tests, a measured ceiling may be lower than the rates of cases.
    assert "problem" not in {level for topic, level in levels.items() if topic != "ceilings"}
    written = (records / stored.file).read_bytes()
    assert Path(stored.file).name == record_name(record, written)
    assert b'memory_events"' not in written
    assert record.command[:5] == ("python", "-m", "experiments", "run", name)
    assert record.started <= record.finished
    # Neither record nor attachments contain names of the machine or its user.
    names = [str(Path.home()) + "/", str(ROOT), str(records.parent)]
    if len(socket.gethostname()) > 4:  # a shorter name could be part of a word of the record
        names.append(socket.gethostname())
    for content in (encode(record), *files.values()):
        is_gzip = content.startswith(b"\x1f\x8b")
        text = gzip.decompress(content) if is_gzip else content
        assert not [name for name in names if name.encode() in text]


def test_ceilings_are_measured_before_and_after_a_run(run: Callable[[str], Run]) -> None:
    """A ceiling is a peak rate of the machine, measured by a program of known work."""
    conv_run = run("conv_scaling")
    ceilings = conv_run.stored.record.ceilings
    work = {(item.operation, item.instrument, item.moment): item.work for item in ceilings}
    for moment in ("before", "after"):
        operations = {item.operation for item in ceilings if item.moment == moment}
        assert operations >= {"matrix_product", "convolution", "copy", "read", "triad"}
        assert work["matrix_product", "torch.mm", moment] == 2 * 1024**3
        # FLOPs of a 3 × 3 convolution of 256 to 256 channels on 8 images of 28 × 28 pixels.
        assert work["convolution", "torch.nn.Conv2d", moment] == 2 * 8 * 26**2 * 256 * 9 * 256
        # Page mapping has no ceiling on systems that map several pages at once.
        assert work.get(("page_mapping", "mmap", moment)) in (None, 64 * 2**20 // mmap.PAGESIZE)
    failed = conv_run.case(batch=TOO_MANY, **{"pass": "forward"})
    assert "86528000000000 B" in str(failed.reason)


def test_a_profile_times_forward_and_backward_of_every_layer(run: Callable[[str], Run]) -> None:
    case = run("training_roofline").case(subject="profile")
    (round_,) = case.rounds
    forward = round_.samples("layer_forward_time")
    backward = round_.samples("layer_backward_time")
    assert len(forward) == len(backward) == len(case.layers) * len(round_.samples("time"))
    assert 0 < sum(forward) + sum(backward) < sum(round_.samples("time"))


def test_waiting_for_images_is_part_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setattr(training_roofline, "LOADED_STEPS", 2)
    monkeypatch.setattr(training_roofline, "LOADED_WARMUP", 1)
    crops = image_loader.RandomCrops(side=32, image=8, count=4)
    assert crops[3].shape == (3, 8, 8) and crops[3].dtype is torch.float32
    # Normalized pixels: black is 2 standard deviations below the mean, white at most 2.45 above.
    assert -2.01 < crops[0].min() < crops[0].max() < 2.45
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    session, cores = Session("cpu", QUICK), os.sched_getaffinity(0)
    for files in ("none", "32"):  # images in memory, or photographs of 32 pixels per side
        factors = {"subject": "loading", "network": "none", "image": 8, "batch": 2, "files": files}
        if files != "none" and len(cores) == 1:
            with pytest.raises(UnavailableError, match="a core of its own"):
                training_roofline.times(factors, session)
            continue
        series = training_roofline.times(factors, session)
        steps, waits = series["time"], series["loading_time"]
        assert len(steps) == 2
        assert all(wait < step for wait, step in zip(waits, steps, strict=True))
        assert os.sched_getaffinity(0) == cores


def test_training_from_scratch_learns(run: Callable[[str], Run]) -> None:
    """Accuracy is recorded before the first and after each of 500 iterations."""
    backend_run = run("backend_speedup")
    training = backend_run.case(subject="training")
    accuracies = training.samples("test_accuracy")
    assert len(accuracies) == 501 and accuracies[-1] > 0.9
    (timed,) = backend_run.case(subject="scaling").rounds
    assert {"time", "first_call_time"} <= set(timed.series)
    assert set(backend_run.files) == {"images.json", "backend.numpy.json"}


def test_bfloat16_without_kernels_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    in_bfloat16 = Subject(torch.nn.ReLU(), torch.empty(1), precision="bfloat16")
    with pytest.raises(UnavailableError, match="no bfloat16 kernels"):
        measure.refuse_emulated_precision(in_bfloat16, "cpu")
    # Neither a GPU nor float32 is refused.
    measure.refuse_emulated_precision(in_bfloat16, "cuda")
    measure.refuse_emulated_precision(replace(in_bfloat16, precision="float32"), "cpu")


@pytest.mark.parametrize(("device", "kept"), [
    ("cpu", {"allocated_peak"}),
    # The study subtracts the workspace of cuBLAS, which the events before a call show.
    ("cuda", {"allocated_peak", "memory_events", "memory_events_before"}),
])  # fmt: skip
def test_allocations_are_listed_where_the_study_needs_them(
    device: Device, kept: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    series = {"allocated_peak": (8,), "memory_events": (8, -8)}
    if device == "cuda":
        series["memory_events_before"] = (16, 8, -8)
    monkeypatch.setattr(inference_memory, "build_workload", lambda *_: SimpleNamespace(once=int))
    monkeypatch.setattr(inference_memory, "measure_memory", lambda *_: series)
    monkeypatch.setattr(inference_memory, "limit_memory", nullcontext)
    factors: Factors = {"subject": "inference", "network": "LeNet-5"}
    assert {*inference_memory.memory(factors, Session(device, QUICK))} == kept


def _search_under_limit() -> dict[int, int]:
    """Try batches of ResNet-20 in 16 MiB; return batch → 1 if the batch ran, else 0."""
    torch.set_num_threads(1)
    case: Factors = {"subject": "limit", "network": "ResNet-20", "image": 32}
    subject = inference_memory.subject({**case, "layout": "contiguous"})
    series: Any = inference_memory.largest_batch(subject, 16 * 2**20)
    return dict(zip(series["batch_tried"], series["batch_ran"], strict=True))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limit needs glibc")
def test_theory_predicts_the_largest_batch_under_a_real_limit() -> None:
    """Preparing the limit changes the C library's heap, so a separate process measures."""
    with get_context("spawn").Pool(1) as pool:
        ran_by_batch = pool.apply(_search_under_limit)
    largest = max(batch for batch, ran in ran_by_batch.items() if ran)
    assert ran_by_batch[largest + 1] == 0
    conditions = Conditions(
        channels_per_block=vector_channels(torch.backends.cpu.get_cpu_capability())
    )
    limit = LimitOutcome("ResNet-20", 32, "contiguous", mebibytes=16, largest_batch=largest)
    fits = theory.predict_batch(limit, conditions)
    assert not isinstance(fits, Missing) and fits.largest == largest


@pytest.mark.parametrize(("largest", "start"), [(57, 57), (73, 119), (13, 1), (0, 9), (1, 1)])
def test_the_search_finds_the_largest_batch(largest: int, start: int) -> None:
    tried = inference_memory._search(lambda batch: batch <= largest, start)
    assert max((batch for batch, ran in tried.items() if ran), default=0) == largest
    # Growing steps and bisection need few attempts.
    assert not tried[largest + 1] and len(tried) < 14


def test_filling_a_heap_ends_if_the_heap_cannot_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = iter(range(100_000))
    library = SimpleNamespace(sbrk=lambda _: 0, malloc=lambda _: next(blocks))
    monkeypatch.setattr(inference_memory.ctypes, "CDLL", lambda _: library)
    inference_memory._fill_heap()
    allocated = next(blocks)  # the number of blocks before this one
    assert allocated == inference_memory._LARGEST_HEAP // inference_memory._SMALLEST_MAPPED_BLOCK
