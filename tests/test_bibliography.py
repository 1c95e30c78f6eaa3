"""The bibliography: every kind of damaged entry is refused by name, and nothing is included."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.engine.manuscript import copy_bibliography
from report.errors import RecordError
from report.paper.bibliography import check_bibliography

PLACE = "data/references.bib"
GOOD = rb"""% a comment

@article{first,
  author = {Ren{\'e} M{\"u}ller and \O{}. {\AA}s},
  title  = "A {"quoted"} title with \emph{type} & 5 \% $\times$ \texttt{x}",
  year   = 2001
}

@misc{second, title = {Other},}
"""


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_whole_entries_are_accepted(line_end: bytes) -> None:
    check_bibliography(GOOD.replace(b"\n", line_end), PLACE)
    check_bibliography(b"\xef\xbb\xbf" + GOOD, PLACE)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"year   = 2001", b"note = {x", "line 3, entry first: its braces do not close"),
        (b"2001\n}", b"2001\n}}", "line 3, entry first: found text after its closing brace"),
        (b"{first,", b"{,", "line 3, entry @article{,: expected @type{key,"),
        (b"{second, ", b"{", "line 9, entry @misc{title = {Other},}: expected @type{key,"),
        (b"second", b"First", "line 9, entry First: found this key twice"),
        (b"Other", b"Oth\xe9r", "line 9: found the byte 0xe9, which is not UTF-8"),
        (b"Other", rb"\input{/etc/passwd}", r"entry second: title: found \input, where only"),
        (b"Other", rb"\immediate\write18{id}", r"entry second: title: found \immediate"),
        (b"Other", rb"\csname input\endcsname x", r"entry second: title: found \csname"),
        (b"Other", b"^^5cinput{x}", "entry second: title: found ^^"),
        (b"{Other}", rb'"\include{x}"', r"entry second: title: found \include"),
        (b"Other}", b"Other}, Title = {x}", "entry second: found the field title twice"),
        (b"{Other}", b"name", "entry second: expected name = {text}, found 'title = name,"),
        (b"{Other}", b'"open', "entry second: expected name = {text}, found"),
        (b"Other", b"{" * 99 + b"}" * 99, "lie too deep in each other"),
        (b"% a comment", b"no comment", "line 1, between entries: found text"),
        (b"@misc{second", b"@string{s", "entry s: expected @type{key,"),
    ],
)
def test_a_damaged_entry_is_refused_by_name(
    old: bytes, new: bytes, found: str, tmp_path: Path
) -> None:
    assert old in GOOD
    (tmp_path / "references.bib").write_bytes(GOOD.replace(old, new, 1))
    with pytest.raises(RecordError) as caught:
        copy_bibliography(tmp_path, tmp_path / "paper")
    message = str(caught.value)
    assert message.startswith(f"{PLACE}: line ")
    assert found in message
    assert message.endswith("; mend the entry, or restore the file with git.")
    assert not (tmp_path / "paper").exists()
