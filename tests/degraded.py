"""Inputs of papers (committed records, changed): samples, or faults that no study may fail on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from report.core.missing import Missing
from report.core.records.network_operators import NetworkOperators
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, Policy, Record, Sample, SeriesByQuantity
from report.core.records.store import Stored, StoredImport
from report.engine.steps import ROOT
from report.evaluation.gather import choose_records
from report.paper.findings import Inputs

_with_fields = msgspec.structs.replace
Change: TypeAlias = Callable[[Inputs], Inputs]

#: Markup of every output format, characters without a glyph in a PDF, and right-to-left text.
HOSTILE = r"a|b *c* `d` <b>e</b> [f](g) {{ v }} \input{h} $i$ @fig-x #j % & ~ 龙芯 عربي 🚀"


@cache
def committed_inputs(study: str) -> Inputs:
    """Return the inputs of the paper of ``study``; tests must not change the inputs."""
    return choose_records(study, ROOT / "data").inputs


def thinned_inputs(inputs: Inputs) -> Inputs:
    """Keep the records that the paper shows as ``gpu`` and ``cpu``, with about thirty cases each.

    Imported tables of more than 500 cases keep only the CNNs that ``_in_sample`` selects.  If there
    is such a table, the captured networks keep only these CNNs too.
    """
    by_role = inputs.record_by_role
    records = tuple(thinned(by_role[role]) for role in ("gpu", "cpu") if role in by_role)
    imported = tuple(map(_thinned_table, inputs.imported))
    read_networks = inputs.networks
    if imported != inputs.imported:
        read_networks = partial(_thinned_networks, read_networks)
    return replace(inputs, records=records, imported=imported, networks=read_networks)


def _in_sample(network: object) -> bool:
    """Select a sixth of all networks by a checksum of their names."""
    return crc32(str(network).encode()) % 6 == 0


@cache
def _thinned_networks(read: Callable[[], tuple[NetworkOperators, ...]]) -> Any:
    return tuple(captured for captured in read() if _in_sample(captured.network))


def _thinned_table(stored: StoredImport) -> StoredImport:
    cases = stored.record.cases
    if len(cases) > 500:
        cases = tuple(case for case in cases if _in_sample(case.factors["network"]))
    return replace(stored, record=_with_fields(stored.record, cases=cases))


def thinned(stored: Stored, number: int = 30) -> Stored:
    """Keep about ``number`` equally spaced cases of a record, and one case of each subject."""
    cases = stored.record.cases
    indices = {*range(0, len(cases), max(1, len(cases) // number)), *first_of_each_subject(cases)}
    selected = tuple(cases[index] for index in sorted(indices))
    return replace(stored, record=_with_fields(stored.record, cases=selected))


def first_of_each_subject(cases: Sequence[Case]) -> list[int]:
    """Return the indices of the first case of each subject."""
    first_by_subject: dict[object, int] = {}
    for index, case in enumerate(cases):
        first_by_subject.setdefault(case.factors.get("subject"), index)
    return list(first_by_subject.values())


@cache
def small_record(study: str) -> Record:
    """Return the main CPU's record with about a dozen cases and eight samples per series."""
    inputs = committed_inputs(study)
    shorten = on_every_series(lambda name, samples: samples[:8])
    on_cpu = thinned(inputs.record_by_role["cpu"], 12)
    (stored,) = shorten(replace(inputs, records=(on_cpu,))).records
    return _with_fields(stored.record, attachments=())


def on_every_record(change: Callable[[Record], Record]) -> Change:
    """Return a function that applies ``change`` to every measured record, also to pooled ones."""

    def change_stored(stored: Stored) -> Stored:
        others = tuple(map(change_stored, stored.others))
        return replace(stored, record=change(stored.record), others=others)

    return lambda inputs: replace(inputs, records=tuple(map(change_stored, inputs.records)))


def on_every_case(change: Callable[[int, Case], Case | None]) -> Change:
    """Return a function that applies ``change`` to every case, also of imported records.

    ``change`` maps a case's index and the case to a new case, or to None to remove the case.
    """

    def change_record(record: Any) -> Any:
        cases = (change(index, case) for index, case in enumerate(record.cases))
        return _with_fields(record, cases=tuple(case for case in cases if case))

    def change_inputs(inputs: Inputs) -> Inputs:
        imported = []
        for stored in inputs.imported:
            imported.append(replace(stored, record=change_record(stored.record)))
        return replace(on_every_record(change_record)(inputs), imported=tuple(imported))

    return change_inputs


#: Function of a quantity's name and samples that returns new samples; None removes the series.
SeriesChange: TypeAlias = Callable[[str, tuple[Sample, ...]], tuple[Sample, ...] | None]


def on_every_series(change: SeriesChange) -> Change:
    """Return a function that applies ``change`` to every series of every case."""
    return on_every_case(lambda _, case: change_series(case, change))


def change_series(case: Case, change: SeriesChange, policy: Policy | None = None) -> Case:
    """Change the series of a case, or only those of rounds under a policy of the allocator."""

    def changed(series: SeriesByQuantity) -> SeriesByQuantity:
        new = {name: change(name, samples) for name, samples in series.items()}
        return {name: samples for name, samples in new.items() if samples is not None}

    rounds = list(case.rounds)
    for index, round_ in enumerate(rounds):
        if policy in (None, round_.policy):
            rounds[index] = _with_fields(round_, series=changed(round_.series))
    series = case.series if policy else changed(case.series)
    return _with_fields(case, series=series, rounds=tuple(rounds))


def slower_record(study: str, factor: float) -> Record:
    """Return ``small_record(study)`` with longer times where freed memory is kept."""

    def slower(name: str, samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
        return tuple(factor * sample for sample in samples) if name == "time" else samples

    record = small_record(study)
    cases = (change_series(case, slower, "retained") for case in record.cases)
    return _with_fields(record, cases=tuple(cases))


def altered_inputs(
    study: str,
    name: str,
    change: Callable[[Sample], Sample] | None = None,
    /,
    *,
    whole: Callable[[tuple[Sample, ...]], tuple[Sample, ...]] = tuple,
    roles: Collection[Any] = (),
    policy: Policy | None = None,
    **factors: Any,
) -> Inputs:
    """Return committed inputs with a changed series ``name`` in cases that have ``factors``.

    ``change`` is applied to each sample, then ``whole`` to the series.  ``roles`` restricts the
    change to the records that the paper shows under these names; by default, all records change,
    also imported ones.  ``policy`` restricts the change to rounds under it.
    """
    inputs = committed_inputs(study)
    files = {inputs.record_by_role[role].file for role in roles}

    def change_samples(series: str, samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
        if series != name:
            return samples
        return whole(tuple(map(change, samples)) if change else samples)

    def change_case(index: int, case: Case) -> Case:
        if factors.items() <= case.factors.items():
            return change_series(case, change_samples, policy)
        return case

    changed_inputs = on_every_case(change_case)(inputs)
    if not roles:
        return changed_inputs
    pairs = zip(inputs.records, changed_inputs.records, strict=True)
    records = (after if before.file in files else before for before, after in pairs)
    return replace(inputs, records=tuple(records))


def without(*units: str, names: Collection[str] = ()) -> Change:
    """Return a function that removes the series with these units or names from all cases."""
    removed = {name for name, quantity in QUANTITIES.items() if quantity.unit in units} | {*names}
    return on_every_series(lambda name, samples: None if name in removed else samples)


def unmeasured(case: Case, **outcome: Any) -> Case:
    """Return a case without samples; ``outcome`` may replace its status and reason."""
    return _with_fields(case, series={}, rounds=(), **outcome)


def with_noise(inputs: Inputs, seed: int = 5) -> Inputs:
    """Multiply half of the durations of a series by 10 to 100,000, and divide the others.

    The factor and the divisor (10 to 100,000) are drawn per series.  If all series had the same,
    they would cancel in half of all ratios, and a true claim could still be supported.
    """
    random = Random(seed)

    def noisy(samples: tuple[float, ...]) -> tuple[float, ...]:
        # With equal halves the median would lie between a short and a long sample.
        short = (len(samples) + random.choice((-1, 1))) // 2
        shorter, longer = 10 ** random.uniform(-5, -1), 10 ** random.uniform(1, 5)
        factors = [shorter] * short + [longer] * (len(samples) - short)
        random.shuffle(factors)
        return tuple(s * factor for s, factor in zip(samples, factors, strict=True))

    def noisy_if_time(name: str, samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
        return noisy(samples) if QUANTITIES[name].unit == "s" else samples

    def change(record: Record) -> Record:
        cases = tuple(change_series(case, noisy_if_time) for case in record.cases)
        peaks = tuple(_with_fields(peak, samples=noisy(peak.samples)) for peak in record.ceilings)
        return _with_fields(record, cases=cases, ceilings=peaks)

    return on_every_record(change)(inputs)


#: Fields of a record that contain texts of other programs or people.
_TEXT_FIELDS: Final = frozenset({
    "author", "instrument", "model", "framework", "cuda", "driver", "governor", "version", "build",
    "operating_system", "python",
})  # fmt: skip


def hostile_inputs(inputs: Inputs) -> Inputs:
    """Replace texts about machines, failures and sources by ``HOSTILE``."""
    inputs = on_every_case(_fail_with_hostile_reason)(on_every_record(_with_hostile_texts)(inputs))
    reported = _with_fields(inputs.reported, device=HOSTILE, software=HOSTILE)
    imported = []
    for stored in inputs.imported:
        imported.append(replace(stored, record=_with_hostile_texts(stored.record)))
    return replace(inputs, reported=reported, imported=tuple(imported))


def _with_hostile_texts(part: Any) -> Any:
    """Replace the texts of a part of a record, at any depth, except in its cases."""
    if not isinstance(part, msgspec.Struct) or isinstance(part, Case):
        return part
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    new_fields = {name: _with_hostile_texts(value) for name, value in fields.items()}
    for name in _TEXT_FIELDS & fields.keys():
        if isinstance(fields[name], str):
            new_fields[name] = HOSTILE
    if "missing" in fields:  # field → reason why its value is missing
        new_fields["missing"] = dict.fromkeys(fields["missing"], HOSTILE)
    if "vector_extensions" in fields:
        new_fields["vector_extensions"] = (HOSTILE,)
    return _with_fields(part, **new_fields)


def _fail_with_hostile_reason(index: int, case: Case) -> Case:
    """Let every tenth case fail; the reason of every failure is ``HOSTILE``."""
    if case.status == "ok" and index % 10 != 9:
        return case
    status = "failed" if case.status == "ok" else case.status
    return unmeasured(case, status=status, reason=HOSTILE)


def in_turn(first: Change, second: Change) -> Change:
    """Return a function that applies ``first`` and then ``second``."""
    return lambda inputs: second(first(inputs))


def without_attachments(inputs: Inputs) -> Inputs:
    """Replace the content of every attachment by a reason why the file is missing."""
    missing = Missing("a file is not beside the record")
    attachments = {}
    for file, content_by_name in inputs.attachments.items():
        attachments[file] = dict.fromkeys(content_by_name, missing)
    return replace(inputs, attachments=attachments)


#: Faults with which every study must still build a complete paper.
DEGRADED: Mapping[str, Change] = {
    "no record": lambda inputs: replace(inputs, records=(), imported=(), attachments={}),
    "no cases": on_every_case(lambda index, case: None),
    "every third case left out, no ceilings": in_turn(
        on_every_case(lambda index, case: case if index % 3 else None),
        on_every_record(lambda record: _with_fields(record, ceilings=())),
    ),
    "no time": without("s"),
    "no memory, no files": in_turn(without("B", names=("memory_owners",)), without_attachments),
    "no counts, and the clock stood still": in_turn(
        without("1", "MAC"),
        on_every_series(lambda name, samples: (0, 0.0) if name == "time" else samples),
    ),
    # Half of the cases have no series, half have empty series.
    "no samples": on_every_case(
        lambda index, case: unmeasured(case) if index % 2 else change_series(case, lambda *_: ())
    ),
    "all out of memory": on_every_case(
        lambda index, case: unmeasured(case, status="out_of_memory", reason="It ended.")
    ),
    "hostile text": hostile_inputs,
}
