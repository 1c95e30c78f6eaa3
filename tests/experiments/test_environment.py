"""The environment: what is read, how the device is called, and what never gets into a record."""

from __future__ import annotations

import getpass
import platform
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from experiments.harness import code, environment, limits, machine, runtime
from experiments.harness.environment import anonymous, device_key, variables
from experiments.harness.text import flat, without_paths
from report.records.record import Cache, Gpu
from report.records.store import read_record
from tests.experiments.conftest import HOST, ROOT


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


# ------------------------------------------------------------------------------------ the machine

AMD = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC 7763 64-Core Processor
stepping\t: 1
microcode\t: 0xa0011d5
physical id\t: 0
flags\t\t: fpu vme sse2 ht hypervisor avx f16c avx2 fma

processor\t: 1
vendor_id\t: Another
physical id\t: 1
"""
#: AWS, c6g: a 64-bit ARM kernel gives neither a name nor a socket.
GRAVITON = """\
processor\t: 0
Features\t: fp asimd evtstrm aes
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
#: Level, kind, size and sharing processors as sysfs shows them, of which some say nothing.
CACHES = (
    ("3", "Unified", "32768K", "0-7,64-71"),
    ("1", "Data", "32K", "0,64"),
    ("1", "Instruction", "32K", "0"),
    ("2", "Unified", "", "0"),
    ("2", "Trace", "1M", "0"),
    ("", "", "", ""),
    ("2", "Unified", "1M", ""),
)


@pytest.mark.parametrize(
    ("text", "extensions", "expected"),
    [
        (
            AMD,
            ("avx", "avx2", "f16c", "fma"),
            ("AuthenticAMD", 25, 1, 1, "0xa0011d5", 2, "QEMU"),
        ),
        (
            AMD.partition("flags")[0] + "flags: x",
            (),
            ("AuthenticAMD", 25, 1, 1, "0xa0011d5", 1, "none"),
        ),
        (GRAVITON, ("neon",), ("0x41", 8, 0xD0C, 1, None, None, None)),
        ("", (), (None,) * 7),
    ],
)
def test_what_linux_says_of_a_machine(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    extensions: tuple[str, ...],
    expected: tuple[object, ...],
) -> None:
    write(tmp_path, cpuinfo=text, vendor="QEMU")
    for name, place in (("_CPUINFO", "cpuinfo"), ("_VENDOR", "vendor"), ("_CPUS", "")):
        monkeypatch.setattr(machine, name, tmp_path / place)
    for index, row in enumerate(CACHES):
        files = dict(zip(("level", "type", "size", "shared_cpu_list"), row, strict=True))
        write(tmp_path / f"cpu0/cache/index{index}", **files)
    host, processor = machine.host(machine.cpuinfo()), machine.cpu()
    names = "vendor family model stepping microcode sockets virtualisation"
    assert tuple(getattr(host, name) for name in names.split()) == expected
    assert host.caches == (
        Cache(level=1, kind="data", size_bytes=2**15, cores=2),
        Cache(level=1, kind="instruction", size_bytes=2**15, cores=1),
        Cache(level=3, kind="unified", size_bytes=2**25, cores=16),
    )
    assert processor.governor is None and processor.vector_extensions == extensions
    assert (processor.model == "AMD EPYC 7763") == ("EPYC" in text) and processor.model
    intel = {"model name": "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz"}
    assert machine.model_name(intel) == "Intel Core i7-9750H"


def test_what_a_container_may_use_stands_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota of 0.4 processors and 900 MiB in the group above that of the process."""
    mib = 2**20
    used = {"memory__current": f"{500 * mib}", "memory__stat": "anon 1\ninactive_file 7"}
    write(tmp_path / "a", cpu__max="40000 100000", memory__max=f"{900 * mib}", **used)
    write(tmp_path / "a/b", cpu__max="max 100000", memory__max="max", **used)
    monkeypatch.setattr(limits, "_GROUPS", tmp_path)
    monkeypatch.setattr(limits, "_OWN", tmp_path / "own")
    write(tmp_path, own="0::/a/b")
    assert limits.available() == 400 * mib + 7
    told = {"cgroup.processors": "0.4", "cgroup.memory_bytes": str(900 * mib)}
    assert limits.told() == told
    write(tmp_path, own="0::/")
    assert limits.told() == {} and limits.available() > 400 * mib + 7


# ---------------------------------------------------------------------------------------- the key

H200 = Gpu(model="NVIDIA H200", memory_bytes=2**37, compute_capability="9.0", driver=None,
           cuda="12.6", cudnn=None)  # fmt: skip


def key(changed: dict[str, Any] | None = None, **arguments: Any) -> str:
    given = {"model": "AMD EPYC", "threads": 2, "memory_bytes": 16 * 2**30, **arguments}
    return device_key(host=msgspec.structs.replace(HOST, **(changed or {})), **given)


def test_what_makes_another_device_and_what_an_update_changes() -> None:
    for another in (
        {"vendor": "GenuineIntel"},
        {"family": 26},
        {"model": 17},
        {"stepping": 2},
        {"flags": ("avx2", "avx512f", "fma")},
        {"caches": ()},
        {"sockets": 2},
        {"virtualisation": "none"},
    ):
        assert key(another) != key(), another
    for same in (
        {"microcode": "0x2"},
        {"c_library": "glibc 2.41"},
        {"flags": (*HOST.flags, "md_clear", "ibpb_exit_to_user")},
        {"virtualisation": "a hypervisor"},
    ):
        assert key(same) == key(), same


def test_the_key_names_the_device_and_that_of_a_gpu_has_no_threads() -> None:
    assert key(gpu=H200) == key(gpu=H200, threads=1)
    assert key(gpu=H200, name="Room 5").startswith("room-5-")
    assert re.fullmatch(r"cafe-2t-[0-9a-f]{6}", key(name="Café"))
    assert key(name="研") != key(name="室") and key(memory_bytes=2**35) != key()
    # That of a machine of an old record stays.
    file = "conv_scaling/20261122T173825Z-intel-xeon-1t-10bc99-0e33f338.zip"
    found = read_record(ROOT / "data" / file, ROOT / "data").record.environment
    assert found.host is not None
    same = (found.cpu.model, found.threads, found.host, found.memory_bytes, found.gpu, found.name)
    assert device_key(*same) == found.key


# ------------------------------------------------------------------------------- what is gathered


def test_this_machine_is_named_without_its_people_and_every_null_has_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(machine, "governor", lambda: None)
    monkeypatch.setenv("LD_PRELOAD", "/home/anna/lib/liba.so")
    found = environment.gather(torch, "cpu", 1, name="lab 3")
    assert re.fullmatch("lab-3-1t-[0-9a-f]{6}", found.key)
    null = {name for name, value in flat(found) if value is None and "load" not in name}
    assert found.missing.keys() - {"disturbance"} == null - {"host.machine"}
    assert {"gpu", "cpu.governor"} <= null and "name" not in null
    assert found.cpu.cores_available == runtime.cores_available() >= 1
    assert found.variables["LD_PRELOAD"] == "liba.so"
    everything = repr(found)
    assert not [word for word in everything.split() if word.strip("'\"=,").startswith("/")]
    node, user = platform.node(), getpass.getuser()
    assert not [name for name in (node, user) if len(name) > 4 and name in everything]


def test_a_run_on_a_gpu_names_it_and_the_driver_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    h200 = SimpleNamespace(name="NVIDIA H200", total_memory=2**37, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: h200)
    for printed, driver in (("550.54\n550.54", "550.54"), (None, None)):
        monkeypatch.setattr(environment, "printed", lambda *words, said=printed: said)
        found = environment.gather(torch, "cuda", 2)
        assert re.fullmatch("nvidia-h200-[0-9a-f]{6}", found.key)
        assert found.gpu is not None and found.gpu.compute_capability == "9.0"
        assert found.gpu.driver == driver and ("gpu.driver" in found.missing) == (driver is None)


# ---------------------------------------------------------------- what never gets into a record


def test_what_changes_a_measurement_on_the_device_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for names, on_cpu, on_gpu in (
        ("OMP_NUM_THREADS GLIBC_TUNABLES MALLOC_CONF", True, True),
        ("CUBLAS_WORKSPACE_CONFIG NVIDIA_TF32_OVERRIDE", False, True),
        # Schedulers set it, and the record names the GPU itself.
        ("CUDA_VISIBLE_DEVICES", False, False),
        ("PATH MY_OMP_NUM_THREADS OMP TF_VAR_password JAX_API_KEY TORCH_SECRET", False, False),
    ):
        for name in names.split():
            monkeypatch.setenv(name, "a:b=1")
            assert variables("cpu").get(name) == ("a:b=1" if on_cpu else None)
            assert variables("cuda").get(name) == ("a:b=1" if on_gpu else None)


@pytest.mark.parametrize(
    ("value", "without"),
    [
        ("/home/me/lib/a.so:/opt/b.so", "a.so:b.so"),
        ("/opt/a.so /opt/b.so", "a.so b.so"),
        ("/home/me", "USER"),
        ("~/cache/torch", "torch"),
        ("--xla_dump_to=/data/Anna Smith/dump --xla_x=1", "--xla_dump_to=dump --xla_x=1"),
        ("/scratch/me-cache", "USER-cache"),
        ("cache_of_me", "cache_of_USER"),
        ("somewhere", "somewhere"),
    ],
)
def test_no_folder_or_user_name_stays_in_a_value(value: str, without: str) -> None:
    assert anonymous(value, "me") == without
    text = "CXX_COMPILER=/opt/rh/gcc/bin/c++, at /home/me/x.py: a/b 1/2 //"
    assert without_paths(text) == "CXX_COMPILER=c++, at x.py: a/b 1/2 //"


# -------------------------------------------------------------------------------------- the code


def test_only_what_measures_a_study_decides_whether_runs_pool() -> None:
    scaling, roofline = (
        {path.relative_to(ROOT).as_posix() for path in code.measuring_sources(study, ROOT)}
        for study in ("conv_scaling", "training_roofline")
    )
    harness = ("worker", "timing", "memory", "quiet")
    assert scaling & roofline >= {f"experiments/harness/{name}.py" for name in harness}
    for name in ("harness/doctor", "harness/run", "harness/rounds", "harness/environment",
                 "options", "importers/command", "backends/libraries"):  # fmt: skip
        assert f"experiments/{name}.py" not in scaling | roofline
    assert "experiments/conv_scaling.py" in scaling - roofline
    assert "experiments/networks/residual.py" in roofline - scaling


def test_the_commit_whether_the_tree_is_clean_and_what_the_hash_is_of(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    folder = tmp_path / "experiments"
    write(folder, study__py="1")
    alone, missing = code.identify("study", tmp_path)
    assert (alone.commit, alone.tree_clean) == (None, None)
    assert set(missing) == {"code.commit", "code.tree_clean"}
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    write(tmp_path / "data", record__json="{}")
    clean, _ = code.identify("study", tmp_path)
    assert clean.commit is not None and clean.tree_clean is True
    assert code.identify("study", folder)[0].commit is None, "a folder in another's checkout"
    (folder / "study.py").write_bytes(b"1\r\n")  # core.autocrlf
    dos, _ = code.identify("study", tmp_path)
    write(folder, study__py="2")
    other, _ = code.identify("study", tmp_path)
    assert dos.tree_clean is other.tree_clean is False
    assert alone.measuring_code == clean.measuring_code == dos.measuring_code
    assert other.measuring_code != dos.measuring_code
