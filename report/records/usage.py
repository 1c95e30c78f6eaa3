"""What becomes of each record, in a few words: used, pooled, or not used and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from report.records.choice import (
    Choice,
    choose_records,
    is_full,
    kind,
    short,
    without_contradictions,
)
from report.records.editions import EDITIONS, Edition, read_editions
from report.records.shards import missing_shards
from report.records.store import Item, Listed, Named, read_record, survey_records

Choices: TypeAlias = tuple[Choice[Listed], ...]

_MOST_NAMED: Final = 12


def choices_of(
    listed: Iterable[Listed], data: Path, edition: Edition | None = None, asked: Sequence[str] = ()
) -> Choices:
    """The records that a paper uses; whole ones are read only where some are pooled.

    Raises ``RecordError`` as ``choose_records`` and ``read_record`` do.
    """
    return tuple(
        without_contradictions(choice, lambda item: read_record(data / item.file, data).record)
        for choice in choose_records(listed, edition, asked)
    )


def _shard(part: Named, item: Named) -> str:
    """What a further shard is to the run of ``item``."""
    shard = part.record.shard
    of = f"shard {shard.number} of {shard.of}" if shard else "a shard"
    return f"merged with {short(item)}, {of}"


def _merged(item: Named) -> str:
    """Of how many shards a run was merged, and which are missing; nothing of a whole run."""
    if not item.parts:
        return ""
    shard, missing = item.record.shard, missing_shards(item)
    of = shard.of if shard else len(item.parts)
    if not missing:
        return f", merged from {of} shards"
    named = ", ".join(map(str, missing[:_MOST_NAMED]))
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return f", merged from {of - len(missing)} of {of} shards, missing {named}{more}"


def fate(choices: Iterable[Choice[Item]], file: str) -> tuple[bool, str]:
    """Whether a build uses the record ``file``, and as what or why not, in a few words."""
    for choice in choices:
        if choice.primary.file == file:
            return True, _primary(choice)
        for item in choice.others:
            if item.file == file:
                return True, f"pooled with {short(choice.primary)}{_merged(item)}"
        for item, why in choice.left:
            if file in item.files:
                return False, f"not used, {why}{_merged(item)}"
        for item in choice.used:
            for part in item.parts:
                if part.file == file:
                    return True, f"{_shard(part, item)}{_merged(item)}"
    return False, f"not used, data/{EDITIONS} names other machines"


def fate_of(study: str, file: str, data: Path) -> tuple[bool, str]:
    """``fate`` in the next build from ``data``, which is read for it; raises ``RecordError``."""
    edition = read_editions(data).get(study)
    return fate(choices_of(survey_records(study, data)[0], data, edition), file)


def _primary(choice: Choice[Item]) -> str:
    """What the record is that speaks for its machine, and in which role."""
    roles = f"used as {' and '.join(choice.roles)}" if choice.roles else "used for comparison"
    if choice.by:
        words = f"as {choice.by} names it"
    elif is_full(choice.primary):
        started = choice.primary.record.started
        newest = all(item.record.started <= started for item in choice.others)
        words = (
            "the newest full run of its machine"
            if newest
            else "a full run of its machine that kept more files than newer ones"
        )
    else:
        words = f"{kind(choice.primary)} that stands in for this machine, which has no full "
        words += "run" if missing_shards(choice.primary) else "one"
    words = f"{roles}, {words}{_merged(choice.primary)}"
    count = len(choice.others)
    runs = f"{count} other run{'s' if count > 1 else ''}"
    return f"{words}, pooled with {runs}" if count else words
