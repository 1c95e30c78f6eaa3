"""Environment variables in a record: those that matter, without whom and where."""

from __future__ import annotations

import pytest

from experiments.harness.variables import anonymous, kept, variables


def test_what_changes_times_or_results_is_kept() -> None:
    environment = {
        "OMP_NUM_THREADS": "2",
        "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.top_pad=268435456",
        "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_TF32_OVERRIDE": "0",
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "USER": "me",
        "MY_OMP_NUM_THREADS": "2",
        "OMP": "2",
    }
    found = kept(environment, "/home/me", "me")
    assert list(found) == [
        *("GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_CONF"),
        *("NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS"),
    ]
    assert found["LD_PRELOAD"] == "libjemalloc.so.2"
    assert found["GLIBC_TUNABLES"] == environment["GLIBC_TUNABLES"]
    assert found["MALLOC_CONF"] == environment["MALLOC_CONF"]


def test_only_what_changes_a_measurement_on_the_device_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert variables("cuda").keys() - variables("cpu").keys() == {"CUBLAS_WORKSPACE_CONFIG"}


@pytest.mark.parametrize("name", ["TF_VAR_password", "TF_TOKEN_app", "JAX_API_KEY", "TORCH_SECRET"])
def test_secrets_are_never_kept(name: str) -> None:
    assert kept({name: "x"}, "/home/me", "me") == {}


@pytest.mark.parametrize(
    ("value", "without"),
    [
        ("/home/me/lib/a.so:/opt/b.so", "a.so:b.so"),
        ("/opt/a.so /opt/b.so", "a.so b.so"),
        ("/home/me", "~"),
        ("/home/me/", ""),
        ("/home/other", "~"),
        ("/home/other:/Users/third", "~:~"),
        ("~/cache/torch", "torch"),
        ("--xla_dump_to=/data/Anna Smith/dump --xla_x=1", "--xla_dump_to=dump --xla_x=1"),
        ("/scratch/me-cache", "USER-cache"),
        ("cache_of_me", "cache_of_USER"),
        ("C:\\Users\\me\\lib.dll", "lib.dll"),
        ("some 1/2", "some 1/2"),
        ("home", "home"),
    ],
)
def test_no_folder_home_or_user_name_stays_in_a_value(value: str, without: str) -> None:
    assert anonymous(value, "/home/me", "me") == without
