"""Which records a paper uses of each machine, and in which role: named, filled, pooled, asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from report.engine.gather import choose, load
from report.errors import RecordError
from report.records.choice import Choice, choose_records, without_contradictions
from report.records.editions import Edition, read_editions, write_edition
from report.records.pooling import contradiction, unlike
from report.records.record import Attachment, Record
from report.records.store import Stored, list_records, read_study, write_record
from report.records.usage import fate
from tests import factory


def run(day: int, key: str = "a", plan: str = "full") -> Stored:
    """A run of the time before rounds."""
    machine = factory.environment(key)
    return factory.stored(
        factory.record(started=f"2026-11-{day:02}T10:00:00Z", machine=machine, plan=plan)
    )


def measured(day: int, **change: Any) -> Stored:
    """A run in rounds of processes, on the device ``example-2t``."""
    return factory.stored(factory.measurement(f"2026-11-{day:02}T10:00:00Z", **change))


def replaced(stored: Stored, part: str, **change: Any) -> Stored:
    """The run with other fields in a part of its record."""
    new = msgspec.structs.replace(getattr(stored.record, part), **change)
    return factory.stored(msgspec.structs.replace(stored.record, **{part: new}))


def named(*items: Stored, **roles: Any) -> Edition:
    """The edition with these records as ``cpu``, and others in roles of their own."""
    return Edition({"cpu": tuple(item.file for item in items), **roles} if items else roles)


def chosen(*items: Stored, edition: Edition | None = None) -> list[tuple[str, str, str]]:
    found = choose_records(items, edition)
    records = [choice.primary.record for choice in found]
    return [(r.environment.key, r.started[8:10], r.protocol.plan) for r in records]


def the_choice(*items: Stored, edition: Edition | None = None) -> Choice[Stored]:
    (choice,) = choose_records(items, edition)
    return without_contradictions(choice, lambda item: item.record)


def days(items: Any) -> list[str]:
    return [item.record.started[8:10] for item in items]


def saved(items: list[Stored], data: Path) -> None:
    for item in items:
        write_record(item.record, data)
    (data / "devices.yaml").write_text("devices: []")


# ------------------------------------------------------------------------------ the one that speaks


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((run(2), run(3), run(1)), [("a", "03", "full")]),
        ((run(1), run(2, plan="quick")), [("a", "01", "full")]),
        ((run(1, plan="custom"), run(2, plan="quick")), [("a", "02", "quick")]),
        ((run(1, "a"), run(3, "b")), [("b", "03", "full"), ("a", "01", "full")]),
    ],
)
def test_the_newest_full_run_speaks_for_a_machine(
    runs: tuple[Stored, ...], expected: list[tuple[str, str, str]]
) -> None:
    assert chosen(*runs) == expected
    assert choose_records(runs) == choose_records(runs[::-1]), "in any order of files"


def test_an_edition_names_machines_and_records_and_nobody_else_is_used() -> None:
    old, quick, other = run(1), run(2, plan="quick"), run(2, "b")
    everything = (old, quick, run(3), other, run(9, "c"))
    for edition, expected in (
        (named(old), [("a", "01", "full")]),
        (named(quick), [("a", "02", "quick")]),
        (named(cpu="a"), [("a", "03", "full")]),
        (named(old, second="b"), [("b", "02", "full"), ("a", "01", "full")]),
        (Edition({"cpu": "b"}, compared=("a", "gone")), [("a", "03", "full"), ("b", "02", "full")]),
    ):
        assert chosen(*everything, edition=edition) == expected
    newer = measured(8)
    assert chosen(*everything, newer, edition=named(cpu="a")) == [("a", "03", "full")]


def test_what_an_edition_cannot_mean_is_refused() -> None:
    items = (run(1), run(2, "b"), run(3, "a"))
    for edition, words in (
        (named(cpu="x"), "cpu: no record of the machine x; the machines are a, b"),
        (Edition({"gpu": ("x.json",)}), "no record x.json; correct the name"),
        (named(items[0], items[1]), "records of 2 machines"),
        (named(items[0], items[2]), "both records of a and cannot be pooled"),
        (Edition({"cpu": ()}), "records of 0 machines"),
    ):
        with pytest.raises(RecordError, match=words) as caught:
            choose_records(items, edition)
        assert str(caught.value).startswith("data/editions.yaml: ")
    with pytest.raises(RecordError, match=r"--use: no record x\.json; correct the name"):
        choose_records(items, asked=["x.json"])


def cast(*items: Stored, edition: Edition | None = None, use: Any = ()) -> dict[str, str]:
    found = choose_records(items, edition, [item.file for item in use])
    return {role: c.primary.record.environment.key for c in found for role in c.roles}


def on_gpu(day: int, key: str, plan: str = "full") -> Stored:
    machine = factory.environment(key, factory.GPU)
    started = f"2026-11-{day:02}T10:00:00Z"
    return factory.stored(factory.record(started=started, machine=machine, plan=plan))


def test_roles_are_filled_from_what_is_there() -> None:
    cpus = [run(day, key) for day, key in enumerate("edcba", start=1)]
    assert cast(*cpus) == {"cpu": "a", "second": "b", "third": "c", "fourth": "d"}
    assert cast(run(1, "a"), run(9, "b", "quick")) == {"cpu": "a", "second": "b"}
    assert cast(run(1, "a"), on_gpu(2, "g"), on_gpu(3, "h", "quick")) == {
        "cpu": "a", "gpu": "g", "third": "h",
    }  # fmt: skip
    assert cast(on_gpu(1, "g")) == {"cpu": "g", "gpu": "g"}
    assert cast() == {}


def test_what_is_asked_for_takes_the_role_that_fits_its_machine() -> None:
    a, b, c, gpu, other = run(1, "a"), run(2, "b"), run(3, "c"), on_gpu(1, "g"), on_gpu(2, "h")
    everything = (a, b, c, gpu, other)
    edition = Edition({"cpu": "a", "second": "b", "gpu": "g"})
    for use, expected in (
        ((c,), {"cpu": "c", "second": "b", "gpu": "g"}),
        ((b,), {"cpu": "a", "second": "b", "gpu": "g"}),
        ((other,), {"cpu": "a", "second": "b", "gpu": "h"}),
        ((c, a), {"cpu": "a", "second": "c", "gpu": "g"}),
    ):
        assert cast(*everything, edition=edition, use=use) == expected
    found = choose_records(everything, edition, [c.file])
    (displaced,) = (choice for choice in found if choice.primary is a)
    assert displaced.roles == (), "it is compared"
    newer, quick = run(8, "a"), run(9, "a", "quick")
    (choice,) = choose_records((a, newer, quick), named(a), [quick.file])
    assert (choice.primary, choice.by, choice.roles) == (quick, "--use", ("cpu",))


def test_an_edition_is_rewritten_and_other_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / "editions.yaml"
    text = "# head\nconv_profiling:\n  # why\n  roles: {cpu: a}\n\ngpu_survey:\n  roles: {cpu: a}\n"
    path.write_text(text)
    edition = Edition({"cpu": "b", "gpu": ("conv_scaling/x.json",)}, ("c",), "2026-11-02")
    write_edition("conv_scaling", edition, tmp_path)
    assert path.read_text().startswith(text)
    for study in ("conv_scaling", "conv_profiling", "gpu_survey"):
        write_edition(study, edition, tmp_path)
        assert read_editions(tmp_path)[study] == edition
    assert path.read_text().startswith("# head\nconv_profiling:\n  roles:\n    cpu: b\n")


def test_heads_choose_as_whole_records_do(tmp_path: Path) -> None:
    items = [run(1), run(2, plan="quick"), run(3, "b"), run(2, "b"), run(1, "c", "custom")]
    items += [measured(1), measured(2), replaced(measured(3), "code", measuring_code="1" * 64)]
    saved(items, tmp_path)
    for edition in (None, named(items[1]), named(items[0], second="b"), named(items[5])):
        whole = choose_records(read_study("conv_scaling", tmp_path), edition)
        heads = choose_records(list_records("conv_scaling", tmp_path), edition)
        assert [
            ([i.file for i in c.used], [(i.file, why) for i, why in c.left]) for c in heads
        ] == [([i.file for i in c.used], [(i.file, why) for i, why in c.left]) for c in whole]


# ------------------------------------------------------------------------------------- pooling


def test_full_runs_of_one_measurement_are_pooled_newest_first() -> None:
    choice = the_choice(measured(1), measured(3), measured(2))
    assert (days([choice.primary]), days(choice.others), choice.left) == (["03"], ["02", "01"], ())


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (run(1, "example-2t"), "of a format that is not pooled"),
        (replaced(measured(1), "code", measuring_code="1" * 64), "measured by other code"),
        (replaced(measured(1), "protocol", warmup_calls=9), "another protocol (warmup_calls)"),
        (
            replaced(measured(1), "protocol", processes={"default": 2}),
            "another protocol (processes)",
        ),
        (replaced(measured(1), "environment", threads=1), "with another threads"),
        (replaced(measured(1), "environment", variables={"A": "1"}), "with another variables"),
    ],
)
def test_a_run_of_another_measurement_is_left_with_the_reason(other: Stored, why: str) -> None:
    choice = the_choice(measured(2), other)
    assert choice.others == ()
    ((left, reason),) = choice.left
    assert left == other
    assert reason.startswith("older and ")
    assert why in reason


def test_unlike_processors_of_one_name_are_not_pooled() -> None:
    hosts = [
        factory.host(flags=flags, machine=machine)
        for flags, machine in ((("avx2",), "m1"), (("avx2",), "m2"), (("avx2", "avx512f"), "m1"))
    ]
    same, twin, other = (replaced(measured(2), "environment", host=h).record for h in hosts)
    assert unlike(same, twin) is None
    assert unlike(same, other) == "measured with another host"


def test_of_pooled_runs_the_one_with_most_files_speaks_for_all() -> None:
    counts = Attachment(name="lackey.json.gz", sha256="0" * 64, meaning="counts")
    counted = factory.stored(msgspec.structs.replace(measured(2).record, attachments=(counts,)))
    choice = the_choice(measured(1), counted, measured(3))
    assert choice.primary == counted
    assert days(choice.others) == ["03", "01"]
    assert "kept more files than newer ones" in fate([choice], counted.file)[1]


def test_a_run_that_allocates_otherwise_is_not_pooled() -> None:
    odd = measured(1, held=12288)
    choice = the_choice(odd, measured(2), measured(3))
    assert days(choice.others) == ["02"]
    ((left, why),) = choice.left
    assert left == odd
    assert "allocated_after is 16,384, not 12,288, for batch 4" in why


def test_what_varies_within_a_run_contradicts_nothing() -> None:
    def held(*samples: int) -> Record:
        case = factory.case(4, memory={"allocated_after": samples})
        return factory.record([case])

    assert contradiction(held(1, 1), held(2, 2)) is not None
    assert contradiction(held(1, 1), held(1, 2)) is None
    failed = factory.case(4, status="failed", reason="It broke.")
    assert contradiction(held(1, 1), factory.record([failed])) is None


def test_pooled_runs_reach_the_study_with_the_record_that_speaks(tmp_path: Path) -> None:
    items = [measured(1), measured(2)]
    saved(items, tmp_path)
    (tmp_path / "reported").mkdir()
    (tmp_path / "reported" / "conv_scaling.json").write_bytes(
        (factory.ROOT / "data" / "reported" / "conv_scaling.json").read_bytes()
    )
    found = choose("conv_scaling", tmp_path)
    assert found.runs == ((items[1].file, items[0].file),)
    assert list(found.origin.records) == [items[1].file, items[0].file]
    assert set(found.digests) == {items[0].file, items[1].file}
    inputs = load("conv_scaling", tmp_path, found)
    assert [stored.file for stored in inputs.records] == [items[1].file]
    assert inputs.files == (items[1].file, items[0].file)
