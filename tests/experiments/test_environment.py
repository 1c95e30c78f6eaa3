"""Facts about a machine in a record, the machine's key, and disturbances by other programs."""

import getpass
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import tiny_study
import torch

from experiments.machine import code, environment, limits, quiet, runtime
from experiments.machine import processor as machine
from experiments.machine.environment import anonymous, device_key, variables
from experiments.machine.quiet import Reading, describe_disturbance
from experiments.machine.text import flatten, without_paths
from report.core.records.record import Cache
from report.core.records.store import read_record
from report.instruments import gates
from tests import factory
from tests.experiments.conftest import HOST, ROOT, Notes, make_environment, make_header
from tests.factory import write_files

#: Content of /proc/cpuinfo on a virtual machine.
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
#: The same without a hypervisor, and with a processor name in Intel's format.
INTEL = AMD.replace(" hypervisor", "").replace(
    "AMD EPYC 7763 64-Core Processor", "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz"
)
#: AWS c6g: a 64-bit ARM kernel prints neither the processor's name nor the socket.
GRAVITON = """\
processor\t: 0
Features\t: fp asimd evtstrm aes
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0c
CPU revision\t: 1
"""
#: Level, type, size, and mask of the processors that share the cache, in the format of sysfs.
#: The last three rows are unusable.
CACHES = (
    ("3", "Unified", "32768K", "000000ff,0000000f"),
    ("1", "Data", "32K", "5"),
    ("1", "Instruction", "32K", "1"),
    ("2", "Unified", "", "1"),
    ("2", "Trace", "1K", "1"),
    ("2", "Unified", "1K", ""),
)
VECTORS = ("avx", "avx2", "f16c", "fma")


# ``expected``: vendor, family, model, stepping, microcode, sockets and virtualisation.
@pytest.mark.parametrize(("text", "model", "extensions", "expected"), [
    (AMD, "AMD EPYC 7763", VECTORS, ("AuthenticAMD", 25, 1, 1, "0xa0011d5", 2, "QEMU")),
    (INTEL, "Intel Core i7-9750H", VECTORS, ("AuthenticAMD", 25, 1, 1, "0xa0011d5", 2, "none")),
    (GRAVITON, "", ("neon",), ("0x41", 8, 0xD0C, 1, None, None, None)),
    ("", "", (), (None,) * 7),
])  # fmt: skip
def test_machine_facts_are_read_from_linux_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    model: str,
    extensions: tuple[str, ...],
    expected: tuple[object, ...],
) -> None:
    write_files(tmp_path, {"cpuinfo": text, "vendor": "QEMU"})
    for constant, file in (("_CPUINFO", "cpuinfo"), ("_VENDOR_FILE", "vendor"), ("_CPUS", "")):
        monkeypatch.setattr(machine, constant, tmp_path / file)
    for index, row in enumerate(CACHES):
        files = dict(zip(("level", "type", "size", "shared_cpu_map"), row, strict=True))
        write_files(tmp_path / f"cpu0/cache/index{index}", files)
    host, processor = machine.host(), machine.cpu()
    names = "vendor family model stepping microcode sockets virtualisation"
    assert tuple(getattr(host, name) for name in names.split()) == expected
    assert host.caches == (
        Cache(level=1, kind="data", size_bytes=2**15, cores=2),
        Cache(level=1, kind="instruction", size_bytes=2**15, cores=1),
        Cache(level=3, kind="unified", size_bytes=2**25, cores=12),
    )
    assert processor.governor is None and processor.vector_extensions == extensions
    # A processor whose name Linux does not print gets another name.
    assert processor.model == model or (not model and processor.model)


MIB = 2**20
#: Files of Linux's control groups, versions 2 and 1.  The groups use 500 MiB, and are limited to
#: 900 MiB and half a processor (a quota of 50 ms in each 100 ms), or unlimited.
V2 = {"cpu.max": "50000 100000", "memory.max": f"{900 * MIB}"}
V2 |= {"memory.current": f"{500 * MIB}", "memory.stat": "anon 1\ninactive_file 7"}
UNLIMITED_V2 = V2 | {"cpu.max": "max 100000", "memory.max": "max"}
V1 = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000\n"}
V1 |= {"memory.limit_in_bytes": f"{900 * MIB}\n", "memory.usage_in_bytes": f"{500 * MIB}\n"}
V1 |= {"memory.stat": "cache 3\ninactive_file 1\ntotal_inactive_file 7\n"}
UNLIMITED_V1 = V1 | {"cpu.cfs_quota_us": "-1", "memory.limit_in_bytes": "9223372036854771712\n"}
OWN_GROUPS_V1 = "4:memory:/docker/0a\n3:cpu,cpuacct:/docker/0a\n1:name=systemd:/\n0::/\n"


@pytest.mark.parametrize(("own", "groups"), [
    ("0::/a/b", {"a": V2, "a/b": UNLIMITED_V2}),
    (OWN_GROUPS_V1, {"cpu,cpuacct/docker/0a": V1, "cpu,cpuacct": UNLIMITED_V1,
             "memory/docker/0a": V1, "memory": UNLIMITED_V1}),
    (OWN_GROUPS_V1, {"cpu,cpuacct": V1, "memory": V1}),
], ids=["version 2", "version 1", "version 1 as a container sees it"])  # fmt: skip
def test_limits_of_containers_are_read(
    own: str, groups: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, files in groups.items():
        write_files(tmp_path / folder, files)
    write_files(tmp_path, {"own": own})
    monkeypatch.setattr(limits, "_GROUPS_FOLDER", tmp_path)
    monkeypatch.setattr(limits, "_OWN_GROUPS", tmp_path / "own")
    # The limit minus the usage; the kernel can free the 7 B of inactive files.
    assert limits.available_memory() == 400 * MIB + 7
    cgroup_limits = {"cgroup.processors": "0.5", "cgroup.memory_bytes": str(900 * MIB)}
    assert limits.container_limits() == cgroup_limits
    # Outside a container there is no limit but the machine's memory.
    write_files(tmp_path, {"own": "0::/"})
    assert limits.container_limits() == {} and limits.available_memory() > 400 * MIB + 7


CPUS = "sys/devices/system/cpu"
#: Files of a machine with an Intel hybrid processor: four P cores (fast) with two threads each, and
#: four E cores.
HYBRID = {
    f"{CPUS}/present": "0-11\n",
    "sys/devices/cpu_core/cpus": "0-7\n",
    "sys/devices/cpu_atom/cpus": "8-11\n",
    f"{CPUS}/intel_pstate/no_turbo": "0\n",
    "proc/version": "Linux version 5.15.90.1-microsoft-standard-WSL2\n",
    "sys/devices/system/node/node0/cpulist": "0-5\n",
    "sys/devices/system/node/node1/cpulist": "6-11\n",
}
for number in range(12):
    first_of_pair = number - number % 2
    siblings = f"{first_of_pair}-{first_of_pair + 1}" if number < 8 else str(number)
    HYBRID[f"{CPUS}/cpu{number}/topology/thread_siblings_list"] = siblings
    HYBRID[f"{CPUS}/cpu{number}/cpufreq/scaling_governor"] = "powersave\n"
    HYBRID[f"{CPUS}/cpu{number}/thermal_throttle/core_throttle_count"] = f"{number}\n"
#: Files of a machine with an Arm processor: two slow and two fast cores; turbo is switched off.
ARM = {f"{CPUS}/present": "0-3", f"{CPUS}/cpufreq/boost": "0"}
for number, capacity in enumerate(("446", "446", "1024", "1024")):
    ARM[f"{CPUS}/cpu{number}/cpu_capacity"] = capacity
#: Files, usable processors, conditions, and the sum of their cores' throttling counts.
CONDITIONS: tuple[tuple[dict[str, str], set[int], dict[str, str], int | None], ...] = (
    (HYBRID, {*range(12)}, {
        "siblings": "0-7 share cores", "kinds": "P: 0-7; E: 8-11", "governor": "powersave",
        "turbo": "on", "nodes": "2", "system": "WSL",
    }, 66),  # 0 + 1 + … + 11
    (HYBRID, {1, 2, 5}, {
        "affinity": "1-2,5 of 12", "governor": "powersave", "turbo": "on", "system": "WSL",
    }, 8),
    (ARM, {*range(4)}, {"kinds": "capacity 1024: 2-3; capacity 446: 0-1", "turbo": "off"}, None),
    ({}, {0, 1}, {}, None),  # macOS, and containers without /sys
)  # fmt: skip


@pytest.mark.parametrize(("files", "usable", "conditions", "throttled"), CONDITIONS)
def test_conditions_of_processors_are_read(
    files: dict[str, str],
    usable: set[int],
    conditions: dict[str, str],
    throttled: int | None,
    tmp_path: Path,
) -> None:
    write_files(tmp_path, files)
    assert machine.conditions(usable, tmp_path) == conditions
    assert machine.throttle_count(usable, tmp_path) == throttled


def test_a_run_uses_one_kind_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[set[int]] = []
    monkeypatch.setattr(machine, "kinds_of_core", lambda *_: {"P": {0, 1}, "E": {2}})
    monkeypatch.setattr(machine.platform, "system", lambda: "Linux")
    monkeypatch.setattr(
        machine.os, "sched_setaffinity", lambda _, cpus: pinned.append(cpus), raising=False
    )
    message = "The processor has cores of 2 kinds; measuring on P: 0-1."
    assert machine.pin_to_one_kind_of_core() == message and pinned == [{0, 1}]


def test_slow_conditions_are_recorded_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "throttle_count", lambda: 7)
    header = make_header(tiny_study.STUDY)
    # Nothing is recorded if the count did not change, or was unknown before the run.
    assert machine.with_throttling(header, count_before=7) is header
    assert machine.with_throttling(header, count_before=None) is header
    state = machine.with_throttling(header, count_before=4).environment.conditions
    assert state == {"throttled": "3 times"}
    state |= {"siblings": "0-7 share cores", "governor": "powersave"}
    assert [*gates.state_notes(make_environment(conditions=state, threads=2))] == [
        "heat slowed the processors 3 times during the run",
        "threads may have shared cores (0-7 share cores)",
        "the governor powersave lowers the clock between calls",
    ]
    assert [*gates.state_notes(make_environment())] == []


def key(host: dict[str, Any] | None = None, **changes: Any) -> str:
    """Return the key of a device; ``host`` overrides fields of its host, ``changes`` all others."""
    new_host = msgspec.structs.replace(HOST, **(host or {}))
    return device_key(make_environment(host=new_host, **changes))


def test_updates_do_not_change_the_key_of_a_device() -> None:
    """Updates change the microcode, the C library and the flags that are no vector extension."""
    other_hosts: tuple[dict[str, Any], ...] = (
        {"vendor": "GenuineIntel"}, {"family": 26}, {"model": 17}, {"stepping": 2}, {"sockets": 2},
        {"flags": ("avx2", "avx512f", "fma")}, {"caches": ()}, {"virtualisation": "none"},
    )  # fmt: skip
    updated_hosts: tuple[dict[str, Any], ...] = (
        {"microcode": "0x2"}, {"c_library": "glibc 2.41"}, {"virtualisation": "a hypervisor"},
        {"flags": (*HOST.flags, "md_clear", "ibpb_exit_to_user")},
    )  # fmt: skip
    assert key() not in {*map(key, other_hosts), key(memory_bytes=2**35)}
    assert {key(), *map(key, updated_hosts)} == {key()}
    # The key of a machine in an old record does not change.
    file = "conv_scaling/20261122T173825Z-intel-xeon-1t-10bc99-0e33f338.json"
    recorded = read_record(ROOT / "data" / file, ROOT / "data").record.environment
    assert device_key(recorded) == recorded.key


def test_the_key_begins_with_the_gpu_or_the_users_name_of_the_machine() -> None:
    assert key(gpu=factory.GPU) == key(gpu=factory.GPU, threads=1) != key()
    assert key(gpu=factory.GPU, name="Room 5").startswith("room-5-")
    assert re.fullmatch(r"cafe-2t-[0-9a-f]{6}", key(name="Café"))
    assert key(name="研") != key(name="室")


def test_this_machine_is_anonymous_and_nulls_have_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CPUS", Path("nowhere"))
    monkeypatch.setenv("LD_PRELOAD", "/home/anna/lib/liba.so")
    facts = environment.gather(torch, "cpu", threads=1, name="lab 3")
    assert re.fullmatch("lab-3-1t-[0-9a-f]{6}", facts.key)
    nulls = {name for name, value in flatten(facts) if value is None and "load" not in name}
    with_reason = facts.missing.keys() - {"disturbance", "energy"}
    assert with_reason == nulls - {"host.machine", "conditions"}
    assert {"gpu", "cpu.governor"} <= nulls and "name" not in nulls
    assert facts.cpu.cores_available == runtime.cores_available() >= 1
    assert facts.variables["LD_PRELOAD"] == "liba.so"
    text = repr(facts)
    assert not [word for word in text.split() if word.strip("'\"=,").startswith("/")]
    # Short names of machines and users could be parts of other words.
    personal = (platform.node(), getpass.getuser())
    assert not [name for name in personal if len(name) > 4 and name in text]


def test_the_driver_of_a_gpu_is_read_from_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program prints the driver once per GPU."""
    h200 = SimpleNamespace(name="NVIDIA H200", total_memory=2**37, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: h200)
    for printed, driver in (("550.54\n550.54", "550.54"), (None, None)):
        monkeypatch.setattr(environment, "program_output", lambda *words, output=printed: output)
        facts = environment.gather(torch, "cuda", threads=2)
        assert facts.gpu is not None and re.fullmatch("nvidia-h200-[0-9a-f]{6}", facts.key)
        assert (facts.gpu.compute_capability, facts.gpu.driver) == ("9.0", driver)
        assert ("gpu.driver" in facts.missing) == (driver is None)


def test_relevant_environment_variables_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for names, on_cpu, on_gpu in (
        ("OMP_NUM_THREADS GLIBC_TUNABLES MALLOC_CONF", True, True),
        ("CUBLAS_WORKSPACE_CONFIG NVIDIA_TF32_OVERRIDE", False, True),
        # Schedulers set CUDA_VISIBLE_DEVICES; the record contains the GPU's name anyway.
        ("CUDA_VISIBLE_DEVICES", False, False),
        ("PATH MY_OMP_NUM_THREADS OMP TF_VAR_password JAX_API_KEY TORCH_SECRET", False, False),
    ):
        for name in names.split():
            monkeypatch.setenv(name, "a:b=1")
            assert (name in variables("cpu"), name in variables("cuda")) == (on_cpu, on_gpu)


def test_values_of_variables_are_recorded_without_folders_and_the_user() -> None:
    for value, recorded in (
        ("/home/me/lib/a.so:/opt/b.so", "a.so:b.so"),
        ("/opt/a.so /opt/b.so", "a.so b.so"),
        ("/home/me", "USER"),
        ("~/cache/torch", "torch"),
        ("--xla_dump_to=/data/Anna Smith/dump --xla_x=1", "--xla_dump_to=dump --xla_x=1"),
        ("/scratch/me-cache", "USER-cache"),
        ("cache_of_me", "cache_of_USER"),
        ("somewhere", "somewhere"),
    ):
        assert anonymous(value, user="me") == recorded
    text = "CXX_COMPILER=/opt/rh/gcc/bin/c++, at /home/me/x.py: a/b 1/2 //"
    assert without_paths(text) == "CXX_COMPILER=c++, at x.py: a/b 1/2 //"


def test_measuring_code_of_a_study_excludes_other_modules() -> None:
    def sources(study: str) -> set[str]:
        """Return the files whose hash a record of the study contains."""
        return {path.relative_to(ROOT).as_posix() for path in code.measuring_sources(study, ROOT)}

    scaling, roofline = sources("conv_scaling"), sources("training_roofline")
    for name in ("harness/worker", "harness/memory", "machine/quiet"):
        assert f"experiments/{name}.py" in scaling & roofline
    for name in ("commands/checks", "harness/run", "machine/environment", "importers/command"):
        assert f"experiments/{name}.py" not in scaling | roofline
    assert "experiments/conv_scaling.py" in scaling - roofline
    assert "experiments/training_roofline.py" in roofline - scaling


def test_code_is_identified_by_commit_and_hash(tmp_path: Path) -> None:
    folder = tmp_path / "experiments"
    write_files(folder, {"study.py": "1\n"})
    without_git, missing = code.identify("study", tmp_path)
    assert (without_git.commit, without_git.tree_clean) == (None, None)
    assert set(missing) == {"code.commit", "code.tree_clean"}
    factory.commit_all(tmp_path)
    write_files(tmp_path / "data", {"record.json": "{}"})
    clean, _ = code.identify("study", tmp_path)
    assert clean.commit is not None and clean.tree_clean is True
    assert code.identify("study", folder)[0].commit is None, "not the root of a checkout"
    (folder / "study.py").write_bytes(b"1\r\n")  # as git's option core.autocrlf writes it
    with_crlf, _ = code.identify("study", tmp_path)
    write_files(folder, {"study.py": "2\n"})
    changed, _ = code.identify("study", tmp_path)
    assert with_crlf.tree_clean is changed.tree_clean is False
    assert without_git.measuring_code == clean.measuring_code == with_crlf.measuring_code
    assert changed.measuring_code != with_crlf.measuring_code


def reading_after(
    wall: float = 10.0, used: float = 0.0, own: float = 0.0, stolen: float = 0.0, wait: float = 0.0
) -> Reading:
    """Return counters of a system of two processors, ``wall`` seconds after ``START``.

    Since then, other programs used processors for ``used`` seconds, and the run for ``own``
    seconds.  The hypervisor took ``stolen`` seconds.  One of the run's two threads waited for
    ``wait`` seconds.
    """
    return Reading(
        at_s=100.0 + wall,
        processors=2,
        busy_s=1000.0 + used + own,
        steal_s=10.0 + stolen,
        own_s=50.0 + own,
        waits_s={1: 1.0 + wait, 2: 2.0},
    )


START = reading_after(wall=0.0)


# ``cause``: words of the message; "" for any message, None for no disturbance.
@pytest.mark.parametrize(("end", "threads", "cause"), [
    (reading_after(own=20.0), 1, None),
    (reading_after(own=20.0), 2, None),
    (reading_after(own=20.0), 4, None),
    (START, 2, None),
    # Without idle processors, other programs may use up to 10 % of a processor.
    (reading_after(used=0.99, own=20.0), 2, None),
    (reading_after(used=8.0, own=12.0), 2, "used 0.8 of 2"),
    # A thread may wait 2 % of the time for other programs, and any time for the run's threads.
    (reading_after(used=0.9, wait=0.39), 2, None),
    (reading_after(used=0.9, wait=0.41), 2, ""),
    (reading_after(used=0.9, wait=0.21), 1, ""),
    (reading_after(own=10.0, wait=8.0), 1, None),
    (reading_after(own=10.0, used=0.1, wait=8.0), 1, None),
    (reading_after(own=10.0, stolen=0.3, wait=8.0), 1, ""),
    # The hypervisor's time counts even if processors are idle, and adds to other programs' time.
    (reading_after(stolen=2.8), 1, "the hypervisor took 0.3 of 2"),
    (reading_after(stolen=2.8), 2, ""),
    (reading_after(stolen=0.9), 1, None),
    (reading_after(used=0.6, stolen=0.6), 1, None),
    (reading_after(used=0.7, stolen=0.6), 2, ""),
    (reading_after(used=5.0, stolen=4.0), 2, "used 0.5 and the hypervisor took 0.4 of 2"),
    # Other programs cannot use more processors than the machine has.
    (reading_after(wall=0.006, used=0.03), 2, None),
    (reading_after(wall=0.1, used=0.5), 2, "used 2.0 of 2"),
    # Clocks are rounded to ticks; four standard deviations of the sum of errors are 0.04 s.
    (reading_after(wall=0.1, used=0.039), 2, None),
    (reading_after(wall=0.1, used=0.041), 2, "used 0.4 of 2"),
])  # fmt: skip
def test_disturbances_above_the_limits(end: Reading, threads: int, cause: str | None) -> None:
    message = describe_disturbance(START, end, threads)
    assert (message is None) == (cause is None) and (cause or "") in str(message)


def test_counters_of_linux_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, notes: Notes
) -> None:
    """The files are missing at first; later, processor 1 is offline and has no line in ``stat``."""
    monkeypatch.setattr(quiet, "_PROC", tmp_path)
    quiet.wait_quiet(5.0, notes.note, threads=1)
    assert len(notes.notes) == 1
    before, after = quiet.read_counters(), quiet.read_counters()
    assert describe_disturbance(before, after, threads=1) is None and before.processors >= 1
    # Ticks of 10 ms: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
    stat = "cpu  9 9 9 9\ncpu0 100 10 20 2500 5 2 3 4 1 0\ncpu2 200 20 40 2500 5 4 6 8 2 0\nintr 2"
    files = {"self/task/7/schedstat": "35203162 1500000000 7", "stat": stat}
    write_files(tmp_path, files)
    # Processor 0 was busy for 1.35 s (user to system, irq and softirq), processor 2 for 2.7 s.
    for processors, busy, stolen in (({0, 2}, 4.05, 0.12), ({2}, 2.70, 0.08), ({1}, 0, 0)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, usable=processors: usable)
        reading = quiet.read_counters()
        assert (reading.busy_s, reading.steal_s) == pytest.approx((busy, stolen))
        assert reading.processors == len(processors) and reading.waits_s == {7: pytest.approx(1.5)}
    assert os.sysconf("SC_CLK_TCK") == pytest.approx(1 / quiet.TICK_S)


@pytest.mark.parametrize(
    ("loads", "seconds", "used"),
    # The load in second 5 is the last disturbance; the five seconds after it are quiet.
    [((1.5, 0, 0, 0, 0, 0.5, 0), 11, "1.5 of 2"), ((2.0,), 120, "2.0 of 2")],
)
def test_waiting_ends_after_five_quiet_seconds_or_two_minutes(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, loads: tuple[float, ...], seconds: int, used: str
) -> None:
    """Other programs use ``loads[n]`` processors in second n, and the last load from then on."""
    used_s: list[float] = []  # by second

    def sleep(seconds: float) -> None:
        second = min(len(used_s), len(loads) - 1)
        used_s.append(loads[second])

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: float(len(used_s)))
    monkeypatch.setattr(quiet, "unavailable", lambda: None)
    monkeypatch.setattr(
        quiet, "read_counters", lambda: reading_after(wall=float(len(used_s)), used=sum(used_s))
    )
    monkeypatch.setattr(quiet, "busiest_programs", lambda: ("cc1",))
    quiet.wait_quiet(2.0, notes.note, threads=2)
    assert len(used_s) == seconds
    if seconds == 120:
        last = notes.notes.pop()
        assert used in last and last.endswith("Measuring all the same.")
    assert len(notes.notes) == seconds // 10, "a message every ten seconds"
    assert f"at most 2.0 min: other processes used {used} processors (cc1)." in notes.notes[0]


@pytest.mark.skipif(quiet.unavailable() is not None, reason="this system counts no other programs")
def test_busy_loops_are_detected() -> None:
    program = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(program) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        assert "python" in str(quiet.observe_disturbance(seconds=0.3))
        assert quiet.free_processors(0.3) == 1, "a run computes on at least one processor"
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
