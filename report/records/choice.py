"""Which records a paper uses of each device, and why not the others.

One run speaks for a device: the newest full one, or the one that the user named.  Further runs of
the same measurement are pooled with it, so that scatter between runs shows; the one among them that
kept most files beside it speaks for all, since it has the counts that others may lack.  The shards
of a run are merged before; as long as some are missing, it is no full one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeAlias

from report.errors import RecordError
from report.records.pooling import contradiction, unlike
from report.records.record import Record
from report.records.shards import conflict, joined, merged, missing_shards, runs_of
from report.records.store import Item, Named

#: What decided: the rule, the user's file of pins, or the option of one build.
Decision: TypeAlias = Literal["rule", "pins", "use"]

#: Where the user named records, and what mends it.
_PLACES: Final[dict[Decision, tuple[str, str]]] = {
    "pins": ("data/pins.yaml", "pin one of them"),
    "use": ("--use", "name one of them"),
}


@dataclass(frozen=True)
class Choice(Generic[Item]):
    """The records of one device.

    ``primary`` speaks for the device, ``others`` are further runs that are pooled with it, and
    ``left`` are not used, each with the reason in a few words; all newest first.
    """

    primary: Item
    others: tuple[Item, ...] = ()
    left: tuple[tuple[Item, str], ...] = ()
    by: Decision = "rule"

    @property
    def used(self) -> tuple[Item, ...]:
        """All records that the paper is computed from."""
        return (self.primary, *self.others)


def choose_records(
    stored: Iterable[Item], pinned: Sequence[str] = (), asked: Sequence[str] = ()
) -> tuple[Choice[Item], ...]:
    """The records that a paper uses for each device, newest device first.

    The newest run of the full plan wins, and older full runs of the same measurement are pooled
    with it; a quick or custom run stands in only where a device has no full one.  Files named in
    ``pinned`` win over both and are used alone; those ``asked`` for win over the pins of their
    device.  Raises ``RecordError`` for a name of no record, or for two records of one device that
    cannot be pooled.
    """
    candidates = sorted(runs_of(stored), key=_preference)
    known = {file for item in candidates for file in item.files}
    for names, by in ((pinned, "pins"), (asked, "use")):
        _check_known(names, known, by)  # type: ignore[arg-type]
    devices = dict.fromkeys(item.record.environment.key for item in candidates)
    choices = (
        _of_device([c for c in candidates if c.record.environment.key == key], pinned, asked)
        for key in devices
    )
    return tuple(sorted(choices, key=lambda c: c.primary.record.started, reverse=True))


def _preference(item: Named) -> tuple[bool, str, str]:
    return (is_full(item), item.record.started, item.file)


def is_full(item: Named) -> bool:
    """Whether a run is one of the full plan that lacks nothing."""
    return item.record.protocol.plan == "full" and not missing_shards(item)


def kind(item: Named) -> str:
    """What a run is that is no full one, in words."""
    if missing_shards(item):
        return "an incomplete sweep"
    return f"a {item.record.protocol.plan} run"


def _check_known(names: Iterable[str], known: set[str], by: Decision) -> None:
    for name in names:
        if name not in known:
            remedy = "mend the name or remove the pin" if by == "pins" else "mend the name"
            raise RecordError(f"{_PLACES[by][0]}: no record {name}; {remedy}.")


def _of_device(items: Sequence[Item], pinned: Sequence[str], asked: Sequence[str]) -> Choice[Item]:
    """The choice among the records of one device, in the order of preference, best last."""
    for names, by in ((asked, "use"), (pinned, "pins")):
        if named := [item for item in items if not set(names).isdisjoint(item.files)]:
            return _as_named(items, named, by)  # type: ignore[arg-type]
    primary, *rest = reversed(items)
    reasons = {item.file: _why_left(primary, item) for item in rest}
    used = [primary, *(item for item in rest if not reasons[item.file])]
    fullest = max(used, key=lambda item: (len(item.record.attachments), *_preference(item)))
    return Choice(
        fullest,
        tuple(item for item in used if item is not fullest),
        tuple((item, reasons[item.file]) for item in _newest_first(rest) if reasons[item.file]),
    )


def _as_named(items: Sequence[Item], named: Sequence[Item], by: Decision) -> Choice[Item]:
    """Exactly the records that the user named."""
    place, remedy = _PLACES[by]
    primary, *others = _newest_first(named)
    for other in others:
        if why := unlike(primary.record, other.record):
            raise RecordError(
                f"{place}: {primary.file} and {other.file} are both records of "
                f"{primary.record.environment.key} and cannot be pooled, since the latter is "
                f"{why}; {remedy}."
            )
    taken = {item.file for item in named}
    left = (item for item in _newest_first(items) if item.file not in taken)
    return Choice(primary, tuple(others), tuple((i, f"{place} names another") for i in left), by)


def _newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.record.started, item.file), reverse=True)


def _why_left(primary: Named, item: Named) -> str:
    """Why a record is not used beside the one that speaks for its device; nothing if it is."""
    if is_full(primary) and not is_full(item):
        return f"{kind(item)} beside a full {'run' if missing_shards(item) else 'one'}"
    if not is_full(primary):
        return "older"
    why = unlike(primary.record, item.record)
    return f"older and {why}" if why else ""


def without_contradictions(choice: Choice[Item], read: Callable[[Item], Record]) -> Choice[Item]:
    """The choice less the runs and shards that found another value of what is always the same.

    ``read`` gives the record of a file; it is not called where nothing is pooled or merged.
    """
    if not (choice.others or any(len(item.parts) > 1 for item in choice.used)):
        return choice
    (primary, first, lost), *agreed = (_agreed(item, read) for item in choice.used)
    choice = replace(
        choice,
        primary=primary,
        others=tuple(item for item, _, _ in agreed),
        left=(*lost, *(each for *_, more in agreed for each in more), *choice.left),
    )
    found = {item.file: contradiction(first, record) for item, record, _ in agreed}
    refused = tuple(
        (item, f"not the same measurement: {found[item.file]} as in {short(choice.primary)}")
        for item in choice.others
        if found[item.file]
    )
    kept = tuple(item for item in choice.others if not found[item.file])
    return replace(choice, others=kept, left=(*refused, *choice.left))


def _agreed(
    item: Item, read: Callable[[Item], Record]
) -> tuple[Item, Record, tuple[tuple[Item, str], ...]]:
    """A run of the shards that agree, its record, and the other shards with the reason."""
    if not item.parts:
        return item, read(item), ()
    kept: list[Item] = []
    records: list[Record] = []
    refused = []
    for part in item.parts:
        record = read(part)
        if why := conflict(records, record):
            refused.append((part, f"not merged with {short(item)}: {why} as there"))
        else:
            kept.append(part)
            records.append(record)
    return joined(kept), merged(records), tuple(refused)


def short(item: Named) -> str:
    """The name of a record's file without its folder."""
    return item.file.rpartition("/")[2]
