"""What a GPU's run shows beside that of a processor: its tables, its numbers and its facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.paper.values import Value
from report.quantity.evaluation import point, slower
from report.quantity.expression import Quantity, absent, exact
from report.studies.backend_speedup import learning, memory_tables, tables
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant
from report.studies.backend_speedup.memory import BLOCK
from report.studies.backend_speedup.memory_values import declared, of_run
from report.studies.backend_speedup.subject import HIDDEN, Setting
from report.text.escape import markdown

_NO_RUN: Final = Missing("no library was timed on a GPU")
_ON_GPU: Final = tuple(variant for variant in VARIANTS if variant.on_gpu)
_CUPY: Final = Variant("cupy")
_TORCH: Final = Variant("torch_cuda")


def gpu_tables(inputs: Inputs, run: Run) -> tuple[Table, ...]:
    """The tables of a GPU's run that is not the one that the prose speaks of, by its key."""
    key = run.key
    found = (
        learning.backend_table(inputs, run, f"tbl-backends-{key}"),
        tables.performance(run, "perceptron", f"tbl-performance-{key}"),
        tables.performance(run, "convnet", f"tbl-performance-convnet-{key}"),
        tables.transfers(run, f"tbl-transfers-{key}"),
        tables.scaling(run, run.widths(), f"tbl-widths-{key}", "the width of the hidden layer"),
        tables.scaling(run, run.sizes(), f"tbl-sizes-{key}", tables.images_at(HIDDEN)),
        tables.operations(run, "perceptron", f"tbl-operations-{key}"),
        memory_tables.memory_table(run, f"tbl-memory-{key}"),
    )
    return tuple(table for table in found if table is not None)


# ------------------------------------------------------------------------------------- places


def _small(run: Run | None) -> Setting | None:
    return run.training() if run else None


def _widest(run: Run | None) -> Setting | None:
    """The largest width, where there is more than one."""
    settings = run.widths() if run else ()
    return settings[-1] if len(settings) > 1 else None


def _most_images(run: Run | None) -> Setting | None:
    """The largest number of images, where there is more than one."""
    settings = run.sizes() if run else ()
    return settings[-1] if len(settings) > 1 else None


_PLACES: Final = {"small": _small, "wide": _widest, "many": _most_images}


# ------------------------------------------------------------------------------------- values


def gpu_values(run: Run | None) -> tuple[Value, ...]:
    """The numbers of a GPU's run that the prose tells; missing without one."""
    speedups = {
        f"gpu_{key}_{v.key}": _speedup(run, place(run), v)
        for key, place in _PLACES.items()
        for v in _ON_GPU
    }
    times = {
        f"gpu_{key}_{v.key}": _measured(run, quantity, v)
        for key, quantity in (
            ("time", "time"),
            ("first", "first_call_time"),
            ("relu", "relu_time"),
        )
        for v in (NUMPY, *_ON_GPU)
    }
    documented = exact("documented by the libraries", "B", BLOCK)
    found = {"gpu_block": documented, **_counts(run), **speedups, **times}
    return declared({**found, "gpu_relu_ratio": _relu_ratio(run)}, None)


def _counts(run: Run | None) -> dict[str, Quantity]:
    timed = run.processes("time", small, NUMPY) if run and (small := _small(run)) else _NO_RUN
    processes = timed if isinstance(timed, Missing) else len(timed)
    threads = run.stored.record.environment.threads if run else _NO_RUN
    found = {
        "gpu_threads": of_run(run, "threads", threads),
        "gpu_processes": of_run(run, "processes of a case", processes),
    }
    for key, place in _PLACES.items():
        setting = place(run)
        width, images = (setting.hidden, setting.samples) if setting else (_NO_RUN, _NO_RUN)
        found[f"gpu_{key}_width"] = of_run(run, f"width({key})", width)
        found[f"gpu_{key}_images"] = of_run(run, f"samples({key})", images)
    return found


def _nothing(unit: str) -> Quantity:
    return absent("a GPU's run", unit, _NO_RUN.reason)


def _speedup(run: Run | None, setting: Setting | None, variant: Variant) -> Quantity:
    if run is None or setting is None:
        return _nothing("1")
    return run.speedup("time", setting, variant)


def _measured(run: Run | None, quantity: str, variant: Variant) -> Quantity:
    setting = _small(run)
    if run is None or setting is None:
        return _nothing("s")
    return run.measured(quantity, setting, variant)


def _relu_ratio(run: Run | None) -> Quantity:
    """CuPy's time of ReLU over PyTorch's in the training."""
    return _measured(run, "relu_time", _CUPY) / _measured(run, "relu_time", _TORCH)


# -------------------------------------------------------------------------------------- facts


def gpu_facts(run: Run | None, primary: Run | None, all_runs: Sequence[Run]) -> dict[str, Any]:
    """Texts and switches for the template on a GPU's run."""
    apart = run is not None and run is not primary
    shown = {key: _shown(run, place(run)) for key, place in _PLACES.items()}
    best = _best(run)
    return {
        "any_gpu": any(one.on_gpu for one in all_runs),
        "gpu": markdown(run.label) if run else "",
        "gpu_host": markdown(run.stored.record.environment.cpu.model) if run else "",
        # The end of the ids of its tables, which have none where it is the run of the prose.
        "gpu_end": f"-{run.key}" if run and apart else "",
        "gpu_apart": apart,
        "gpu_best": _described(best, shown) if best else {},
        "gpu_at": shown,
        "gpu_relu_dear": slower(1 / _relu_ratio(run)),
    }


def _described(variant: Variant, shown: dict[str, list[dict[str, str]]]) -> dict[str, Any]:
    """A library, and at which of the places its speed-up is known."""
    at = {key: any(one["key"] == variant.key for one in there) for key, there in shown.items()}
    return {"key": variant.key, "name": variant.name, **at}


def _shown(run: Run | None, setting: Setting | None) -> list[dict[str, str]]:
    """Key and name of the libraries on the GPU whose speed-up at a setting is known."""
    return [
        {"key": variant.key, "name": variant.name}
        for variant in _ON_GPU
        if not _speedup(run, setting, variant).missing
    ]


def _best(run: Run | None) -> Variant | None:
    """The library on the GPU that is fastest at the largest width, else with the most images."""
    for place in (_widest, _most_images, _small):
        found = {v: _speedup(run, place(run), v) for v in _ON_GPU}
        points = {v: known(point(ratio)) for v, ratio in found.items() if not ratio.missing}
        if points:
            return max(points, key=lambda v: points[v])
    return None
