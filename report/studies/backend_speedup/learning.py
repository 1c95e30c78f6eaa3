"""Whether every library learns the same: loss and accuracy over the iterations, and the data."""

from __future__ import annotations

from typing import Final

import msgspec

from figures.canvas import Drawing
from figures.scaling import Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.images import DataSet
from report.paper.tables import Cell, Column, Table
from report.records import strict
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant
from report.studies.backend_speedup.source import count, data_set_number
from report.studies.backend_speedup.subject import PIXELS, Setting

_REMEDY: Final = "restore the file with git, or run the experiment again"
#: Iterations between two marks of one library; libraries start at different ones.
_APART: Final = 25
#: Below this the losses of two libraries differ by rounding alone (share of the loss).
ALIKE: Final = 1e-3


_DEVICES: Final = {"cpu": "CPU"}
_DATA_SETS: Final = {"digits": "Digits, this study", "mnist": "MNIST, this study"}


class _Backend(msgspec.Struct, frozen=True):
    name: str
    version: str
    matrix_products: str
    device: str
    threads: int


def backends(inputs: Inputs, run: Run) -> dict[str, _Backend]:
    """The libraries of a run with their versions; raises ``RecordError`` for a broken file."""
    files = inputs.attachments.get(run.file, {})
    decoder = msgspec.json.Decoder(_Backend)
    found = {}
    for name in sorted(files):
        if name.startswith("backend."):
            place = f"data/{run.file.removesuffix('.json')}/{name}"
            one = strict.parse_json(files[name], decoder.decode, place, _REMEDY)
            found[one.name] = one
    return found


def backend_table(inputs: Inputs, run: Run | None, id: str) -> Table | None:
    """The libraries that ran."""
    found = backends(inputs, run) if run else {}
    if run is None or not found:
        return None
    return Table(
        id,
        f"The array libraries on {run.label}.",
        (
            Column("Library"),
            Column("Version"),
            Column("Matrix products by"),
            Column("Device"),
            Column("Threads", "1"),
        ),
        tuple(
            (
                Variant(b.name).name,
                b.version,
                b.matrix_products,
                _DEVICES.get(b.device, b.device),
                b.threads,
            )
            for b in found.values()
        ),
        sources=(run.file,),
        wide=True,
    )


def data_sets(inputs: Inputs, images: DataSet | None) -> Table:
    """The source's data set and the one that was learned from here."""
    reported = inputs.reported
    rows: list[tuple[Cell, ...]] = [
        (
            "MNIST, source",
            count(reported, "training"),
            count(reported, "validation"),
            data_set_number(reported, "features"),
            data_set_number(reported, "classes"),
            count(reported, "training") * PIXELS,
            4 * count(reported, "training") * PIXELS,
        )
    ]
    if images is not None:
        rows.append(
            (
                _DATA_SETS.get(images.name, images.name),
                images.train,
                images.test,
                PIXELS,
                images.classes,
                images.train * PIXELS,
                4 * images.train * PIXELS,
            )
        )
    return Table(
        "tbl-data",
        "The data sets. The size of the training images depends on how a pixel is kept.",
        (
            Column("Data set"),
            Column("Training", "1"),
            Column("Held out", "1"),
            Column("Pixels", "1"),
            Column("Classes", "1"),
            Column("As bytes", "B", "MB"),
            Column("As float32", "B", "MB"),
        ),
        tuple(rows),
        notes=(
            f"Own images: {images.source}; {images.split}."
            if images
            else "No images of our own were learned from in this edition.",
        ),
        sources=(inputs.reported_file,),
        wide=True,
    )


# ---------------------------------------------------------------------------------- convergence


def learned(run: Run, setting: Setting | None) -> tuple[Variant, ...]:
    """The libraries whose course of losses was recorded."""
    return run.variants(setting, "train_loss")


def largest_difference(run: Run, setting: Setting, variant: Variant) -> float | Missing:
    """The largest difference of the loss from NumPy's at any iteration, as a share of NumPy's."""
    base, other = (run.curve("train_loss", setting, v) for v in (NUMPY, variant))
    if not base or not other:
        return Missing("no course of losses was recorded")
    return float(max(abs(b - a) / a for a, b in zip(base, other, strict=False)))


def largest_accuracy_difference(run: Run, setting: Setting) -> float | Missing:
    """The largest difference of the accuracy on held-out images of any two libraries."""
    curves = [run.curve("test_accuracy", setting, v) for v in learned(run, setting)]
    if len(curves) < 2:
        return Missing("fewer than two libraries recorded their accuracy")
    return float(max(max(at) - min(at) for at in zip(*curves, strict=False)))


def convergence_table(run: Run) -> Table | None:
    """Where training ended with every library, and how far it ever was from NumPy."""
    rows: list[tuple[Cell, ...]] = []
    for network, dtype in (("perceptron", "float32"), ("perceptron", "float64"),
                           ("convnet", "float32")):  # fmt: skip
        setting = run.training("perceptron" if network == "perceptron" else "convnet", dtype)
        if setting is not None:
            rows += [_ended(run, setting, variant) for variant in learned(run, setting)]
    if not rows:
        return None
    return Table(
        "tbl-convergence",
        f"Where training ended on {run.label}, from the same initial parameters, and the largest "
        "difference of the training loss from NumPy's at any iteration.",
        (
            Column("Network"),
            Column("Type"),
            Column("Library"),
            Column("Iterations", "1"),
            Column("Training loss", "1"),
            Column("Held-out loss", "1"),
            Column("Accuracy", "1", "%"),
            Column("Off NumPy", "1"),
        ),
        tuple(rows),
        notes=("Accuracy: on the images held out. Off NumPy: as a share of the loss.",),
        sources=(run.file,),
        wide=True,
    )


def _ended(run: Run, setting: Setting, variant: Variant) -> tuple[Cell, ...]:
    def last(quantity: str) -> Cell:
        found = run.curve(quantity, setting, variant)
        return found[-1] if found else Missing(f"{quantity.replace('_', ' ')} was not recorded")

    course = run.curve("train_loss", setting, variant)
    return (
        setting.network,
        setting.dtype,
        variant.name,
        len(course) - 1,
        *(last(quantity) for quantity in ("train_loss", "test_loss", "test_accuracy")),
        "base" if variant == NUMPY else _in_words(largest_difference(run, setting, variant)),
    )


def _in_words(share: float | Missing) -> Cell:
    """A very small share as a power of ten, which a column of numbers would print as zeros."""
    if isinstance(share, Missing):
        return share
    return "none" if share == 0 else f"{share:.0e}"


def convergence_figure(run: Run) -> Figure | None:
    """Loss, accuracy and difference from NumPy over the iterations, all libraries in one."""
    setting = run.training()
    shown = learned(run, setting)
    if setting is None or not shown:
        return None
    panels = (
        Scaling(
            "Iteration",
            "Training loss",
            tuple(_course(run, setting, v, "train_loss", 1.0) for v in shown),
            x_scale="linear",
            y_scale="linear",
            y_from_zero=True,
        ),
        Scaling(
            "Iteration",
            "Accuracy, held out (%)",
            tuple(_course(run, setting, v, "test_accuracy", 100.0) for v in shown),
            x_scale="linear",
            y_scale="linear",
        ),
    )
    return Figure(
        "fig-convergence",
        f"Training the perceptron on {run.label} with every library, over each other: loss of the "
        "training images (left) and share of the held-out images that are classified rightly "
        "(right). Each library is marked at other iterations, so that its marks do not cover those "
        "of the others.",
        " ".join(_told(run, setting, variant) for variant in shown),
        Drawing(panels, wide=True, height=2.6),
        (run.file,),
    )


def _course(run: Run, setting: Setting, variant: Variant, quantity: str, scale: float) -> Points:
    found = run.curve(quantity, setting, variant)
    index = VARIANTS.index(variant)
    first = index * _APART // len(VARIANTS)
    at = range(first, len(found), _APART) if len(found) > _APART else range(len(found))
    return Points(
        variant.name,
        tuple(map(float, at)),
        tuple(scale * found[i] for i in at),
        series=index,
        hollow=bool(index % 2),
    )


def _told(run: Run, setting: Setting, variant: Variant) -> str:
    losses = run.curve("train_loss", setting, variant)
    shares = run.curve("test_accuracy", setting, variant)
    end = f", accuracy {shares[-1]:.1%}" if shares else ""
    return (
        f"{variant.name}: training loss from {losses[0]:.3g} to {losses[-1]:.3g} over "
        f"{len(losses) - 1} iterations{end}."
    )
