"""Every message that ``docs/errors.md`` explains is one that the code says."""

from __future__ import annotations

import ast
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import build
from experiments.__main__ import main as measure
from report.engine.gather import choose
from report.engine.pipeline import ROOT
from report.errors import LONGEST, RidgepointError
from report.paper.prose import check_prose
from report.records.store import write_record
from report.render.quarto import find_quarto
from tests import factory

STUDY = "conv_scaling"
PAGE = (ROOT / "docs" / "errors.md").read_text("utf-8")
MESSAGES = [text for _, text in re.findall(r"^- (`+)(.+?)\1$", PAGE, re.MULTILINE)]
ANY = "…"
#: Messages of which any sentence of the code is one would explain all.
LONG = [text for text in MESSAGES if len(text.replace(ANY, "")) > 10]


def pattern(message: str) -> re.Pattern[str]:
    """What a message matches, whatever stands in the place of its «…»."""
    return re.compile(".*".join(map(re.escape, message.split(ANY))), re.DOTALL)


def text_of(node: ast.AST) -> str:
    """A string of the code, with «…» for what it is filled with."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else ANY


def strings() -> Iterator[str]:
    """Every string of the product's code."""
    for path in (
        ROOT / "build.py",
        *ROOT.glob("report/**/*.py"),
        *ROOT.glob("experiments/**/*.py"),
    ):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr | ast.Constant):
                yield text_of(node)


def test_the_page_has_messages_of_every_kind() -> None:
    assert len(MESSAGES) == len(re.findall(r"^- ", PAGE, re.MULTILINE)) > 50
    assert len(re.findall(r"^## ", PAGE, re.MULTILINE)) == 6


def test_the_code_has_every_message() -> None:
    assert all(max(map(len, message.split(ANY))) >= len("left out: ") for message in MESSAGES)
    code = tuple(strings())
    said = [message.removeprefix("build.py: error: ") for message in MESSAGES]
    assert [m for m in said if not any(map(pattern(m).search, code))] == []


def explained(said: str) -> bool:
    """Whether the page explains what was said, which may have lost its middle."""
    text = re.sub(r"^(error|note): ", "", said.strip()).rstrip(".")
    whole = any(pattern(m.rstrip(".")).fullmatch(text) for m in LONG)
    return whole or (len(said) >= LONGEST and any(text.startswith(m[:30]) for m in LONG))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return factory.data_folder(tmp_path, factory.record(factory.layer_cases((1, 4))))


@pytest.mark.parametrize("words", [["--use", "nothing"], ["--serve", "{port}"]])
def test_a_build_says_what_the_page_explains(
    words: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (out / "html").mkdir(parents=True)
    (out / "html" / "index.html").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [word.format(port=port) for word in words]
        assert build.main([STUDY, "--data", str(data), "--out", str(out), *words]) == 1
    assert explained(capsys.readouterr().err)


def test_a_mistyped_study_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build.main(["conv_scalling"])
    assert explained(capsys.readouterr().err.splitlines()[-1])


def test_a_typed_result_and_a_lacking_program_are_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RidgepointError) as typed:
        check_prose(Path("x.qmd.j2"), "It reaches 120 GFLOP/s.\n")
    monkeypatch.setenv("QUARTO_PATH", "/none")
    with pytest.raises(RidgepointError) as lacking:
        find_quarto()
    assert explained(str(typed.value)) and explained(str(lacking.value))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('"seed": 0', '"seed": 1', ""),
        ('"study"', '"stu', ""),
        (f'"study": "{STUDY}"', '"study": "conv_profiling"', ""),
        ('"schema": 3', '"schema": 99', ""),
        ("", "", "record (1).json"),
    ],
    ids=["edited", "damaged", "of another study", "newer", "renamed"],
)
def test_why_a_record_is_left_out_is_explained(old: str, new: str, name: str, data: Path) -> None:
    path = write_record(factory.record([], started="2026-11-03T10:00:00Z"), data)
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    path.rename(path.with_name(name or path.name))
    (notice,) = choose(STUDY, data).notices
    assert notice.startswith("left out: ")
    assert explained(notice.removeprefix("left out: "))


def test_a_pin_of_no_record_is_explained(data: Path) -> None:
    (data / "pins.yaml").write_text(f"{STUDY}: [{STUDY}/none.json]\n", "utf-8")
    with pytest.raises(RidgepointError) as refused:
        choose(STUDY, data)
    assert explained(str(refused.value))


IMPORT = ("import", "{file}", "--study", "mine", "--origin", "Jane Doe", "--licence", "MIT")


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("run", "conv"), ""),
        (("run", STUDY, "--set", "size=1"), ""),
        (("run", STUDY, "--shard", "9/99"), ""),
        (("submit", STUDY, "--profile", "uni", "--nodes", "2", "--export-sbatch", "x.sh"), ""),
        (IMPORT, "README.md"),
        (IMPORT, "tests/experiments/imported/google_benchmark.json"),
        ((*IMPORT, "--device", "Quadro GV100"), "tests/experiments/imported/nvbench.json"),
    ],
    ids=["study", "factor", "shards", "profile", "format", "device", "twice"],
)
def test_what_measuring_refuses_is_explained(
    words: tuple[str, ...], file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [word.format(file=ROOT / file) for word in words]
    command += ["--records", str(tmp_path / "data")]
    measure(command)
    assert measure(command) in (1, 2)
    assert explained(capsys.readouterr().err.splitlines()[-1])
