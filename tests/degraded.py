"""The committed records with something wrong with them: every study must make a paper of them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from report.core.missing import Missing
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, Record, Sample, SeriesByQuantity
from report.core.records.store import Stored, StoredImport
from report.engine.gather import choose
from report.engine.steps import ROOT
from report.paper.findings import Inputs

_changed = msgspec.structs.replace
Change: TypeAlias = Callable[[Inputs], Inputs]

#: Markup of every output, scripts without a glyph in a PDF, and text from right to left.
HOSTILE = r"a|b *c* `d` <b>e</b> [f](g) {{ v }} \input{h} $i$ @fig-x #j % & ~ 龙芯 عربي 🚀"


@cache
def committed(study: str) -> Inputs:
    """All that the paper of ``study`` is made from; tests must not change it."""
    return choose(study, ROOT / "data").inputs


def one_of_each_kind(inputs: Inputs) -> Inputs:
    """The records in the roles of a CPU and of a GPU, each with about thirty of their cases.

    Of long tables of others, a third of the networks stays, the same ones in each.
    """
    kinds = [
        inputs.record_by_role[role] for role in ("gpu", "cpu") if role in inputs.record_by_role
    ]
    theirs = tuple(map(_thinned_table, inputs.imported))
    return replace(inputs, records=tuple(map(thinned, kinds)), imported=theirs)


def _thinned_table(stored: StoredImport) -> StoredImport:
    cases = stored.record.cases
    if len(cases) > 500:
        cases = tuple(c for c in cases if crc32(str(c.factors["network"]).encode()) % 3 == 0)
    return replace(stored, record=_changed(stored.record, cases=cases))


def thinned(stored: Stored, number: int = 30) -> Stored:
    """About so many cases of a record; at least one case of each subject stays."""
    cases = stored.record.cases
    first = {case.factors["subject"]: i for i, case in reversed(list(enumerate(cases)))}
    step = max(1, len(cases) // number)
    few = tuple(c for i, c in enumerate(cases) if i % step == 0 or i in first.values())
    return replace(stored, record=_changed(stored.record, cases=few))


@cache
def small(study: str) -> Record:
    """A record of the study on a CPU: a few cases of each subject, and eight samples of each."""
    inputs = committed(study)
    on_cpu = next(item for item in inputs.records if item.record.environment.gpu is None)
    few = replace(inputs, records=(thinned(on_cpu, 12),))
    (stored,) = of_series(lambda _, samples: samples[:8])(few).records
    return _changed(stored.record, attachments=())


def of_records(change: Callable[[Record], Record]) -> Change:
    """The inputs with every record changed, those that are pooled with another one too."""

    def changed(stored: Stored) -> Stored:
        others = tuple(map(changed, stored.others))
        return replace(stored, record=change(stored.record), others=others)

    return lambda inputs: replace(inputs, records=tuple(map(changed, inputs.records)))


def of_cases(change: Callable[[int, Case], Case | None]) -> Change:
    """The inputs with every case changed, or left out where there is none; those of others too."""

    def changed(record: Any) -> Any:
        made = (change(place, case) for place, case in enumerate(record.cases))
        return _changed(record, cases=tuple(case for case in made if case))

    def every(inputs: Inputs) -> Inputs:
        theirs = tuple(replace(each, record=changed(each.record)) for each in inputs.imported)
        return replace(of_records(changed)(inputs), imported=theirs)

    return every


#: What becomes of the samples of a quantity; None of those that are left out.
SeriesChange: TypeAlias = Callable[[str, tuple[Sample, ...]], tuple[Sample, ...] | None]


def of_series(change: SeriesChange) -> Change:
    return of_cases(lambda _, case: each_series(case, change))


def each_series(case: Case, change: SeriesChange) -> Case:
    """The case with its own series changed, and those of its rounds."""

    def changed(series: SeriesByQuantity) -> SeriesByQuantity:
        made = {name: change(name, samples) for name, samples in series.items()}
        return {name: samples for name, samples in made.items() if samples is not None}

    rounds = tuple(_changed(round_, series=changed(round_.series)) for round_ in case.rounds)
    return _changed(case, series=changed(case.series), rounds=rounds)


def without(*units: str, names: Collection[str] = ()) -> Change:
    """The inputs without every series in one of these units, or of one of these names."""
    gone = {name for name, quantity in QUANTITIES.items() if quantity.unit in units} | {*names}
    return of_series(lambda name, samples: None if name in gone else samples)


def unmeasured(case: Case, **outcome: Any) -> Case:
    return _changed(case, series={}, rounds=(), **outcome)


def noise(inputs: Inputs, seed: int = 5) -> Inputs:
    """Half of all durations ten to 100,000 times as long, the others as short, in any order.

    Both factors are drawn for each series: with two fixed ones, half of all ratios of two series
    would be those of the calm data, and a true claim could rightly be supported.
    """
    random = Random(seed)

    def noisy(samples: tuple[float, ...]) -> tuple[float, ...]:
        # One more on one side than on the other, so that medians scatter as much as samples.
        short = (len(samples) + random.choice((-1, 1))) // 2
        shorter, longer = 10 ** random.uniform(-5, -1), 10 ** random.uniform(1, 5)
        factors = [shorter] * short + [longer] * (len(samples) - short)
        random.shuffle(factors)
        return tuple(s * factor for s, factor in zip(samples, factors, strict=True))

    def timed(name: str, samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
        return noisy(samples) if QUANTITIES[name].unit == "s" else samples

    def change(record: Record) -> Record:
        cases = tuple(each_series(case, timed) for case in record.cases)
        peaks = tuple(_changed(c, samples=noisy(c.samples)) for c in record.ceilings)
        return _changed(record, cases=cases, ceilings=peaks)

    return of_records(change)(inputs)


#: What a record says in words that nobody here has written.
_WORDS: Final = frozenset({
    "author", "instrument", "model", "framework", "cuda", "driver", "governor", "version", "build",
    "operating_system", "python",
})  # fmt: skip


def hostile(inputs: Inputs) -> Inputs:
    """``HOSTILE`` in every text that nobody here has written: of machines, errors and sources."""
    made = of_cases(_failed)(of_records(_hostile)(inputs))
    reported = _changed(made.reported, device=HOSTILE, software=HOSTILE)
    theirs = tuple(replace(each, record=_hostile(each.record)) for each in made.imported)
    return replace(made, reported=reported, imported=theirs)


def _hostile(part: Any) -> Any:
    """A part of a record, at any depth, but for its cases."""
    if not isinstance(part, msgspec.Struct) or isinstance(part, Case):
        return part
    found = {name: getattr(part, name) for name in part.__struct_fields__}
    changed = {name: _hostile(value) for name, value in found.items()}
    changed |= {name: HOSTILE for name in _WORDS & found.keys() if isinstance(found[name], str)}
    if "missing" in found:
        changed["missing"] = dict.fromkeys(found["missing"], HOSTILE)
    if "vector_extensions" in found:
        changed["vector_extensions"] = (HOSTILE,)
    return _changed(part, **changed)


def _failed(place: int, case: Case) -> Case:
    """Every case that did not end well, and one in ten, fails for a reason with markup."""
    if case.status == "ok" and place % 10 != 9:
        return case
    status = "failed" if case.status == "ok" else case.status
    return unmeasured(case, status=status, reason=HOSTILE)


def both(first: Change, second: Change) -> Change:
    """Two changes of different things in the inputs."""
    return lambda inputs: second(first(inputs))


def no_files(inputs: Inputs) -> Inputs:
    """The inputs with every attachment missing."""
    missing = Missing("a file is not beside the record")
    names = {
        file: dict.fromkeys(contents, missing) for file, contents in inputs.attachments.items()
    }
    return replace(inputs, attachments=names)


#: What can be wrong with the records of a study that still makes a whole paper.
DEGRADED: Mapping[str, Change] = {
    "no record": lambda inputs: replace(inputs, records=(), imported=(), attachments={}),
    "no cases": of_cases(lambda place, case: None),
    "every third case left out, no ceilings": both(
        of_cases(lambda place, case: case if place % 3 else None),
        of_records(lambda record: _changed(record, ceilings=())),
    ),
    "no time": without("s"),
    "no memory, no files": both(without("B", names=("memory_owners",)), no_files),
    "no counts, and the clock stood still": both(
        without("1", "MAC"),
        of_series(lambda name, samples: (0, 0.0) if name == "time" else samples),
    ),
    # A series that is not there, and one that is empty.
    "no samples": of_cases(
        lambda place, case: unmeasured(case) if place % 2 else each_series(case, lambda *_: ())
    ),
    "all out of memory": of_cases(
        lambda place, case: unmeasured(case, status="out_of_memory", reason="It ended.")
    ),
    "hostile text": hostile,
}
