"""Prose with values: what the template may ask for, and what it is told if it asks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.errors import RidgepointError, TemplateError
from report.missing import Missing
from report.paper.findings import Claim, Findings
from report.paper.manuscript import render_manuscript
from report.paper.tables import Column, Table
from report.paper.values import Value
from tests.papers import written_paper

FINDINGS = Findings(
    values={
        "flops": Value("flops", "Work", 21_233_664, "FLOP", "2 · MAC", style="exact"),
        "copy": Value("copy", "Copy", Missing("no ceiling was measured"), "B/s", "bytes / time"),
    },
    tables={"tbl-a": Table("tbl-a", (Column("B"),), (("c",),))},
    figures={},
    claims={"linear": Claim("linear", "supported", "it *does*")},
    facts={"measured": True, "devices": ["x", "y"]},
)


def written(folder: Path, text: str) -> str:
    return written_paper(folder, text, FINDINGS).text


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(TemplateError) as caught:
        written(folder, text)
    message = str(caught.value)
    assert message.startswith("templates/papers/study.qmd.j2")
    assert message.endswith(".")
    assert "\n" not in message
    assert "; " in message
    return message


@pytest.mark.parametrize(("content", "word"), [(None, "cannot be read"), (b"caf\xe9", "0xe9")])
def test_a_template_that_cannot_be_read_is_named(
    content: bytes | None, word: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.qmd.j2"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RidgepointError, match=rf"^templates/papers/study\.qmd\.j2: .*{word}.*; "):
        render_manuscript(path, FINDINGS)


def test_values_tables_facts_and_claims_are_printed(tmp_path: Path) -> None:
    text = written(
        tmp_path,
        "# Head {#sec-head}\n{## a comment ##}\n{{ v.flops }} and {{ v.copy }}.\n"
        "{% if not facts.measured %}\nNever.\n{% endif %}\n"
        "{{ claims['linear'].because | md }} {{ facts.devices | join('; ') }}\n"
        "{{ tables | join }}\n{{ provenance }}\n",
    )
    assert text.startswith("# Head {#sec-head}\n[21,233,664\N{NO-BREAK SPACE}FLOP](#v-flops)")
    assert "[not measured](#v-copy){.value}." in text
    assert "Never" not in text
    assert r"it \*does\* x; y" in text
    assert "x; y\ntbl-a" in text
    assert "[Work]{#v-flops}" in text


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("Text.\n\n{{ v.nope }}\n", 3, "nope"),
        ("{{ facts.nope }}\n", 1, "nope"),
        ("a\n{% for x in facts.nope %}\n{{ x }}\n{% endfor %}\n", 2, "nope"),
        ("a\n{% if facts.measured %}\nb\n", 3, "endif"),
        ("a\n{{ v.flops | nope }}\n", 2, "nope"),
        ("a\n{{ v. }}\n", 2, "expected"),
        ("a\n{% include 'nope.j2' %}\n", 2, "nope.j2"),
        ("a\n{{ v.flops + v.copy }}\n", 2, "computes with +"),
        ("a\n\nIt takes 12 ms.\n", 3, "12"),
        # A misspelt name is answered by those that are near.
        ("a\n{{ v.flop }}\n", 2, "flops"),
        ("a\n{{ v.flops.mth }}\n", 2, "math"),
        # A template is no program.
        ("a\n{{ cycler.__init__.__globals__.os.popen('id').read() }}\n", 2, "unsafe"),
        ("a\n{{ self.__init__.__globals__ }}\n", 2, "unsafe"),
        ("a\n{{ v.flops | attr('__class__') }}\n", 2, "unsafe"),
        ("a\n{{ '{x.__class__}'.format(x=v) }}\n", 2, "format"),
        ("a\n{{ v.flops.as_json() }}\n", 2, "as_json"),
        ("a\n{{ facts.devices.append(v) }}\n", 2, "append"),
        ("a\n{{ v.flops.number * v.flops.number }}\n", 2, "computes with *"),
        ("a\n{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}\n", 2, "itself"),
        ("a\n{% include 'study.qmd.j2' %}{% include 'study.qmd.j2' %}\n", 2, "itself"),
    ],
)
def test_a_template_is_told_its_line(text: str, line: int, word: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, text)
    assert message.startswith(f"templates/papers/study.qmd.j2:{line}: ")
    assert word in message
