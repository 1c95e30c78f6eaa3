"""What Linux tells of a processor's caches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.harness import caches
from report.records.record import Cache


def described(folder: Path, index: int, **words: str) -> None:
    place = folder / f"index{index}"
    place.mkdir()
    for name, text in words.items():
        (place / name).write_text(f"{text}\n")


def test_caches_are_read_by_level(tmp_path: Path) -> None:
    described(tmp_path, 0, level="3", type="Unified", size="107520K", shared_cpu_list="0-7,16-23")
    described(tmp_path, 1, level="1", type="Data", size="48K", shared_cpu_list="0")
    assert caches.read(tmp_path) == (
        Cache(level=1, kind="data", size_bytes=48 * 1024, cores=1),
        Cache(level=3, kind="unified", size_bytes=105 * 2**20, cores=16),
    )


def test_a_cache_of_which_too_little_is_told_is_left_out(tmp_path: Path) -> None:
    described(tmp_path, 0, level="1", type="Data", size="48K")
    described(tmp_path, 1, level="2", type="Odd", size="48K", shared_cpu_list="0")
    described(tmp_path, 2, level="2", type="Unified", size="0K", shared_cpu_list="0")
    assert caches.read(tmp_path) == ()
    assert caches.read(tmp_path / "nowhere") == ()


@given(st.integers(1, 10**6), st.sampled_from([("", 1), ("K", 2**10), ("M", 2**20), ("G", 2**30)]))
def test_a_size_is_a_number_with_a_unit(number: int, unit: tuple[str, int]) -> None:
    assert caches.size(f"{number}{unit[0]}") == number * unit[1]


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_list_of_cores_names_each_once(cores: set[int]) -> None:
    assert caches.count(",".join(map(str, sorted(cores)))) == len(cores)


@pytest.mark.parametrize("text", ["", "K", "-3K", "many"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        caches.size(text)
