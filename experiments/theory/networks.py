"""Networks by name: of torchvision, timm or the studies, or a function in a file of one's own."""

from __future__ import annotations

import importlib.util
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from report.errors import UsageError

if TYPE_CHECKING:
    from experiments.harness.operators import Build

FORMS: Final = "torchvision:resnet50, timm:resnet50, study:ResNet-20, or my_file.py:function"


class Named(NamedTuple):
    """What makes a network, and the image that it was made for: channels, height and width."""

    build: Build
    image: tuple[int, int, int] = (3, 224, 224)


def network(name: str) -> Named:
    """What makes the network ``name``; raises ``UsageError`` for a name of none."""
    source, _, what = name.rpartition(":")
    if source.endswith(".py") and what:
        return _of_file(Path(source), what)
    makers = {"torchvision": _of_torchvision, "timm": _of_timm, "study": _of_studies}
    if source not in makers or not what:
        raise UsageError(f"There is no network {name!r}; possible are {FORMS}.")
    return makers[source](what)


def _of_file(path: Path, function: str) -> Named:
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path}: cannot be imported: {type(error).__name__}: {error}.") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{path}: there is no function {function!r} that returns a module.")
    return Named(found)


def _of_studies(name: str) -> Named:
    from experiments.networks import catalogue

    if name not in catalogue.INPUT_SHAPES:
        known = ", ".join(catalogue.INPUT_SHAPES)
        raise UsageError(f"No study has a network {name!r}; possible are {known}.")
    return Named(partial(catalogue.network, name), catalogue.INPUT_SHAPES[name])


def _of_torchvision(name: str) -> Named:
    _let_torchvision_import()
    from torchvision import models  # type: ignore[import-untyped]

    if name not in models.list_models():
        raise UsageError(f"torchvision has no network {name!r}.")
    return Named(partial(models.get_model, name, weights=None))


def _of_timm(name: str) -> Named:
    timm = import_timm()
    if not timm.is_model(name):
        raise UsageError(f"timm has no network {name!r}.")
    settings = timm.get_pretrained_cfg(name)
    made = partial(timm.create_model, name)
    return Named(made, tuple(settings.input_size)) if settings else Named(made)


def import_timm() -> Any:
    """timm, beside a torch for CPUs too."""
    _let_torchvision_import()
    import timm  # type: ignore[import-untyped]

    return timm


@cache  # since definitions last as long as their library is held
def _let_torchvision_import() -> Any:
    """Where torchvision does not import, declare two operators that its library would define.

    There is no torchvision for a CPU build of torch, and the general one cannot load its library;
    its networks use none of these operators.
    """
    import torch

    try:
        import torchvision  # type: ignore[import-untyped] # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None
