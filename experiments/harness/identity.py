"""How a machine is told from others: its key, and the number kept beside its records."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness.host import NO_VIRTUALISATION
from experiments.harness.study import UsageError
from report.records.record import Gpu, Host

#: The hidden file in the folder of records that holds the machine's number.
NUMBER_FILE: Final = ".machine"
_DIGITS: Final = 12
_LONGEST_LABEL: Final = 60
_KEY_DIGITS: Final = 6

#: Flags that Linux adds by itself or takes from microcode: they come and go with updates of a
#: machine that stays the same, so that its key must not rest on them.
_OF_SOFTWARE: Final = (
    "aperfmperf arat arch_capabilities arch_perfmon brs bus_lock_detect constant_tsc cpuid "
    "cpuid_fault eagerfpu epb extd_apicid flush_l1d hypervisor ibpb ibpb_exit_to_user ibrs "
    "ibrs_enhanced ibt intel_stibp invpcid_single kaiser l1tf md_clear nonstop_tsc "
    "nonstop_tsc_s3 nopl overflow_recov pti rapl rep_good retpoline rrsba_ctrl rsb_ctxsw sev "
    "sev_es sme spec_ctrl split_lock_detect srbds_ctrl ssbd stibp succor tsc_known_freq "
    "tsc_reliable up user_shstk virt_ssbd vmmcall xtopology"
)


def device_key(
    model: str,
    threads: int,
    host: Host,
    memory_bytes: int,
    gpu: Gpu | None = None,
    name: str | None = None,
) -> str:
    """The key under which a paper tells devices apart; for a GPU without the threads.

    ``model`` is the processor's, ``name`` what its people call the machine.  Neither the kernel nor
    the C library, microcode, the machine's number or how many GPUs a job is shown take part: the
    same machine stays the same device after an update and under a scheduler.
    """
    parts = (
        *(host.vendor, host.family, host.model, host.stepping),
        [flag for flag in host.flags if flag not in _OF_SOFTWARE.split()],
        *(host.caches, host.sockets),
        # Who runs a virtual machine is told by some containers on it and not by others.
        host.virtualisation not in (None, NO_VIRTUALISATION),
        round(memory_bytes / 2**30),
        *((gpu.model,) if gpu else ()),
        # A name in another script leaves nothing in the key's letters.
        *((name,) if name and not name.isascii() else ()),
    )
    digits = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:_KEY_DIGITS]
    if gpu:
        return slug(name or gpu.model, digits)
    return slug(name or model, f"{threads}t", digits)


def slug(*words: str) -> str:
    """A device key: small letters and digits, joined by single hyphens; letters lose accents."""
    plain = (
        unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode() for word in words
    )
    return "-".join(part for word in plain for part in re.findall(r"[a-z0-9]+", word.lower()))


def checked_label(text: str | None) -> str | None:
    """What ``--label`` says, without blanks around it; raises ``UsageError``."""
    if text is None:
        return None
    label = text.strip()
    if not (1 <= len(label) <= _LONGEST_LABEL and label.isprintable()):
        raise UsageError(
            f"--label {text!r} is not possible; give 1 to {_LONGEST_LABEL} printable characters."
        )
    return label


def machine_number(records: Path, *, make: bool = True) -> tuple[str | None, str]:
    """The random number of this machine in its folder of records, or None and the reason.

    Made on first use if ``make``; of two runs that make it at once, both get the same.  A folder
    that cannot be written, or a file that holds something else, is a reason and no error.
    """
    path = records / NUMBER_FILE
    try:
        if make and not path.exists():
            _make(path)
        found = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        return None, f"{NUMBER_FILE} in the folder of records: {error.strerror or 'no access'}"
    if not re.fullmatch(rf"[0-9a-f]{{{_DIGITS}}}", found):
        return None, f"{NUMBER_FILE} in the folder of records holds something else than its number"
    return found, ""


def _make(path: Path) -> None:
    """Write a new number, whole or not at all, and never over another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        scratch.write_text(f"{secrets.token_hex(_DIGITS // 2)}\n", encoding="ascii")
        with suppress(FileExistsError):
            try:
                os.link(scratch, path)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                scratch.replace(path)
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
