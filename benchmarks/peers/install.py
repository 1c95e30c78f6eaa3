"""Installs the peers, each into a folder of its own under a cache, with pinned versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.timing import first_on_path, plain_environment

PINS: Final = Path(__file__).with_name("versions.toml")
CACHE: Final = Path.home() / ".cache" / "ridgepoint-benchmarks"


class InstallError(Exception):
    """A peer cannot be installed here; the text says why and what would help."""


@dataclass(frozen=True)
class Kit:
    """An installation: the environment its commands run in, and the versions in it."""

    environment: dict[str, str]
    versions: dict[str, str]


def pins() -> dict[str, dict[str, Any]]:
    """What every kit consists of."""
    return tomllib.loads(PINS.read_text("utf-8"))


def install(name: str, cache: Path) -> Kit:
    """The kit ``name``, installed under ``cache`` unless these very versions are there already.

    Raises ``InstallError`` where a program is missing or a registry does not answer.
    """
    pinned = pins()[name]
    _require_programs(name, pinned)
    folder, wanted = cache / name, json.dumps(pinned, sort_keys=True)
    stamp = folder / "installed.json"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _install_packages(pinned, folder)
        stamp.write_text(wanted, "utf-8")
    return Kit(_environment(folder, cache), _versions(pinned, folder))


def _require_programs(name: str, pinned: dict[str, Any]) -> None:
    missing = [p for p in pinned.get("programs", ()) if shutil.which(p) is None]
    if missing:
        raise InstallError(f"{name}: {', '.join(missing)} not found; {pinned['remedy']}")


def _install_packages(pinned: dict[str, Any], folder: Path) -> None:
    _called([sys.executable, "-m", "venv", str(folder / "venv")])
    pip = [str(_python(folder)), "-m", "pip", "install", "--quiet"]
    _called([*pip, "--disable-pip-version-check", *pinned["pip"]])
    if "npm" in pinned:
        prefix = str(folder / "node")
        _called(["npm", "install", "--silent", "--prefix", prefix, *pinned["npm"]])


def _python(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _called(command: Sequence[str]) -> str:
    """What ``command`` printed; raises ``InstallError`` if it fails."""
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        last = (finished.stderr or finished.stdout).strip().split("\n")[-1]
        raise InstallError(f"{' '.join(command)}: {last}")
    return finished.stdout


def _environment(folder: Path, cache: Path) -> dict[str, str]:
    """A home of its own, so that no setting of the user changes what a peer does."""
    home = cache / "home"
    settings = home / ".jupyter" / "jupyter_server_config.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    # Containers have no other user, and mystmd's server of notebooks refuses this one else.
    settings.write_text('{"ServerApp": {"allow_root": true}}\n', "utf-8")
    pandoc = sorted((folder / "venv").glob("lib/python*/site-packages/pypandoc/files"))
    programs = [folder / "venv" / "bin", folder / "node" / "node_modules" / ".bin", *pandoc]
    return plain_environment(PATH=first_on_path(programs)) | {"HOME": str(home)}


def _versions(pinned: dict[str, Any], folder: Path) -> dict[str, str]:
    """The versions of what was asked for by name, as they are installed."""
    listing = _called([str(_python(folder)), "-m", "pip", "list", "--format=json"])
    installed = {item["name"].lower(): item["version"] for item in json.loads(listing)}
    names = [pin.partition("==")[0].lower() for pin in pinned["pip"]]
    # pip writes names with hyphens or underscores, as the package likes.
    known = {name.replace("_", "-"): version for name, version in installed.items()}
    found = {name: known.get(name.replace("_", "-"), "unknown") for name in names}
    return found | dict(pin.rsplit("@", 1) for pin in pinned.get("npm", ()))


def cores() -> int:
    """The processors that a build may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
