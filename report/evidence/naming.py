"""Names for devices that call themselves alike: what tells them apart, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from report.records.record import Environment

#: One property in words, or None where the record does not say it.
Aspect: TypeAlias = Callable[[Environment], str | None]

#: The widest vector instructions, by the flag of their first kind.
_VECTORS: Final = (
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sve2", "SVE2"),
    ("sve", "SVE"),
    ("neon", "NEON"),
)


def names(environments: Sequence[Environment]) -> tuple[str, ...]:
    """The label of each device; those of one label with what tells them apart in brackets."""
    found = [environment.label for environment in environments]
    return tuple(
        label if found.count(label) == 1 else f"{label} ({_own(environment, environments)})"
        for environment, label in zip(environments, found, strict=True)
    )


def _own(one: Environment, environments: Sequence[Environment]) -> str:
    """What tells ``one`` from the others of its label."""
    alike = [other for other in environments if other.label == one.label]
    return distinctions(alike)[alike.index(one)]


def distinctions(alike: Sequence[Environment]) -> tuple[str, ...]:
    """What tells devices of one name apart, the same properties of each, as few as will do.

    One property if there is one that differs everywhere, else those that tell more of them apart,
    in the order in which a reader understands them; the key where nothing in words does.
    """
    known = [said for aspect in _ASPECTS if None not in (said := [aspect(one) for one in alike])]
    single = next((said for said in known if _differ(said)), None)
    if single is not None:
        return tuple(map(str, single))
    chosen: list[tuple[str, ...]] = [()] * len(alike)
    for said in known:
        more = [(*parts, str(word)) for parts, word in zip(chosen, said, strict=True)]
        if len(set(more)) > len(set(chosen)):
            chosen = more
    if _differ(chosen):
        return tuple(", ".join(parts) for parts in chosen)
    return tuple(", ".join((*parts, one.key)) for parts, one in zip(chosen, alike, strict=True))


def _differ(said: Sequence[object]) -> bool:
    return len(set(said)) == len(said)


# ---------------------------------------------------------------------------------- in words


def _name(one: Environment) -> str | None:
    return one.name and one.cpu.model


def _named_gpu(one: Environment) -> str | None:
    return one.gpu.model if one.gpu and one.name else None


def _vectors(one: Environment) -> str | None:
    flags = {*one.cpu.vector_extensions, *(one.host.flags if one.host else ())}
    return next((name for flag, name in _VECTORS if flag in flags), None)


def _family(one: Environment) -> str | None:
    if one.host is None or None in (one.host.family, one.host.model):
        return None
    return f"family {one.host.family}, model {one.host.model}"


def _stepping(one: Environment) -> str | None:
    known = one.host is not None and one.host.stepping is not None
    return f"stepping {one.host.stepping}" if one.host and known else None


def _last_cache(one: Environment) -> str | None:
    caches = one.host.caches if one.host else ()
    if not caches:
        return None
    last = max(caches, key=lambda cache: cache.level)
    return f"L{last.level} cache of {_binary(last.size_bytes)}"


def _memory(one: Environment) -> str | None:
    return f"{round(one.memory_bytes / 2**30)} GiB of memory"


def _gpu_memory(one: Environment) -> str | None:
    return f"{round(one.gpu.memory_bytes / 2**30)} GiB" if one.gpu else None


def _gpu_host(one: Environment) -> str | None:
    return f"beside {one.cpu.model}" if one.gpu else None


def _cores(one: Environment) -> str | None:
    return f"{one.cpu.cores_available} cores available"


def _sockets(one: Environment) -> str | None:
    count = one.host.sockets if one.host else None
    return None if count is None else f"{count} socket{'s' if count > 1 else ''}"


def _virtual(one: Environment) -> str | None:
    kind = one.host.virtualisation if one.host else None
    if kind is None:
        return None
    return "a real machine" if kind == "none" else f"a virtual machine of {kind}"


def _binary(size: int) -> str:
    return f"{size // 2**20} MiB" if size >= 2**20 else f"{size // 2**10} KiB"


_ASPECTS: Final[tuple[Aspect, ...]] = (
    _named_gpu,
    _name,
    _gpu_memory,
    _gpu_host,
    _vectors,
    _family,
    _stepping,
    _last_cache,
    _memory,
    _cores,
    _sockets,
    _virtual,
)
