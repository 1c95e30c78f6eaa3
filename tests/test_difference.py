"""What the papers would say differently: comparisons, other data, the text and the page."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
from report.commands.difference import Difference, difference
from report.commands.difference.alignment import SentenceChange, marked, sentence_changes
from report.commands.difference.cells import table_changes
from report.commands.difference.compare import Change, claim_changes, compare, value_changes
from report.commands.difference.counts import file_words
from report.commands.difference.prints import step
from report.commands.difference.revision import find_data
from report.commands.difference.side import Drawn, Side, inputs_of
from report.commands.difference.text import LIMITS, difference_text
from report.commands.difference.words import Document, Sentence, read_document
from report.engine.pipeline import ROOT, Request
from report.errors import RecordError
from report.missing import Missing
from report.paper.findings import Claim
from report.paper.tables import Citation, Column, Table
from report.paper.values import Value
from report.records.store import write_record
from report.statistics.estimates import Estimate
from report.studies import STUDIES
from tests import factory

STUDY = "conv_scaling"


def estimate(value: float, half: float, n: int = 20) -> Estimate:
    return Estimate(value, value - half, value + half, n, 0.95)


def value(number: Any, id: str = "time", unit: str = "s") -> Value:
    return Value(id, f"The {id}", number, unit, "median")


def by_id(*values: Value) -> dict[str, Value]:
    return {item.id: item for item in values}


# ---------------------------------------------------------------------------------------- numbers


def test_a_number_is_told_with_interval_samples_and_relative_change() -> None:
    old, new = by_id(value(estimate(0.010, 0.001))), by_id(value(estimate(0.013, 0.001, n=30)))
    (change,), unseen = value_changes(old, new)
    assert (change.id, change.name, unseen) == ("time", "The time", 0)
    assert change.old is not None
    assert change.new is not None
    assert (change.old.text, change.old.n) == ("10.0 [9.0, 11.0]\N{NO-BREAK SPACE}ms", 20)
    assert (change.new.text, change.new.n) == ("13.0 [12.0, 14.0]\N{NO-BREAK SPACE}ms", 30)
    assert change.step.relative == "+30\N{NO-BREAK SPACE}%"
    assert change.step.apart is True


@pytest.mark.parametrize(
    ("old", "new", "relative", "apart"),
    [
        (estimate(2.0, 0.5), estimate(2.2, 0.5), "+10", False),
        (estimate(2.0, 0.1), estimate(2.2, 0.1), "+10", False),  # the ends touch
        (estimate(2.0, 0.1), estimate(1.0, 0.1), "−50", True),
        (200, 201, "+0.50", None),
        (1, 1000, "+100,000", None),
        (3, 3, "", None),
        (0, 5, "", None),
        (estimate(-1.0, 0.2), estimate(4.0, 0.2), "", True),
        (Missing("no run"), 5, "", None),
        (None, estimate(1.0, 0.1), "", None),
        (estimate(2.0, 0.5), 2, "", None),
    ],
)
def test_the_step_between_two_numbers(old: Any, new: Any, relative: str, apart: bool) -> None:
    found = step(old, new)
    assert found.relative.removesuffix("\N{NO-BREAK SPACE}%") == relative
    assert found.apart is apart


def test_numbers_in_other_units_have_no_relative_change() -> None:
    (change,), _ = value_changes(by_id(value(2.0)), by_id(value(3.0, unit="B")))
    assert change.step.relative == ""


def test_a_number_that_comes_to_be_measured_says_why_it_was_not() -> None:
    (change,), _ = value_changes(by_id(value(Missing("no run"))), by_id(value(2.5)))
    assert change.old is not None
    assert change.old.text == "not measured (no run)"


def test_numbers_that_print_the_same_are_counted_and_not_listed() -> None:
    assert value_changes(by_id(value(1.00001)), by_id(value(1.00002))) == ((), 1)


def test_the_same_number_from_another_record_is_no_change() -> None:
    old = value(2.0)
    new = dataclasses.replace(old, sources=("other.json",))
    assert value_changes(by_id(old), by_id(new)) == ((), 0)


def test_what_matters_most_comes_first() -> None:
    old = by_id(
        value(estimate(1.0, 0.5), "overlapping"),
        value(estimate(1.0, 0.1), "apart"),
        value(estimate(1.0, 0.1), "further"),
        value(Missing("no run"), "appears"),
    )
    new = by_id(
        value(estimate(1.1, 0.5), "overlapping"),
        value(estimate(2.0, 0.1), "apart"),
        value(estimate(3.0, 0.1), "further"),
        value(1.0, "appears"),
    )
    changes, _ = value_changes(old, new)
    assert [change.id for change in changes] == ["appears", "further", "apart", "overlapping"]


numbers = st.one_of(
    st.integers(-(10**12), 10**12),
    st.floats(-1e12, 1e12).map(lambda number: number if abs(number) > 1e-9 else 0.0),
    st.builds(estimate, st.floats(0.1, 1e6), st.floats(0.001, 1e3), st.integers(1, 200)),
    st.builds(Missing, st.sampled_from(["no run", "out of memory"])),
)
some_values = st.dictionaries(st.sampled_from("abcdef"), numbers).map(
    lambda found: by_id(*(value(number, id) for id, number in found.items()))
)


@given(some_values, some_values)
def test_exchanged_sides_exchange_old_and_new_numbers(
    one: dict[str, Value], other: dict[str, Value]
) -> None:
    (there, unseen), (back, unseen_back) = value_changes(one, other), value_changes(other, one)
    assert unseen == unseen_back
    assert {(c.id, c.old, c.new) for c in there} == {(c.id, c.new, c.old) for c in back}


# ----------------------------------------------------------------------------------------- tables


def table(*rows: tuple[Any, ...], columns: tuple[Column, ...] | None = None, **more: Any) -> Table:
    plain = (Column("Network"), Column("Batch", "1"), Column("Time", "s", "ms"))
    return Table("tbl-time", "Times.", columns or plain, rows, **more)


def cells_of(old: Table, new: Table) -> list[tuple[str, str, str, str]]:
    (change,) = table_changes({old.id: old}, {new.id: new})
    return [(cell.row, cell.column, cell.old, cell.new) for cell in change.cells]


def test_a_cell_is_found_by_the_names_of_its_row_and_column() -> None:
    old = table(("LeNet", 1, estimate(0.01, 0.001)), ("LeNet", 8, 0.05), ("VGG", 8, 0.5))
    new = table(("LeNet", 1, estimate(0.02, 0.001)), ("LeNet", 4, 0.02), ("LeNet", 8, 0.05))
    (change,) = table_changes({old.id: old}, {new.id: new})
    (cell,) = change.cells
    assert (cell.row, cell.column) == ("LeNet, Batch 1", "Time (ms)")
    assert (cell.old, cell.new) == ("10.0 [9.0, 11.0]", "20.0 [19.0, 21.0]")
    assert cell.step.apart is True
    assert change.rows_added == ("LeNet, Batch 4",)
    assert change.rows_removed == ("VGG, Batch 8",)


def test_a_row_is_named_by_as_few_cells_as_tell_all_rows_apart() -> None:
    columns = (Column("Network"), Column("Knee", "1"))
    old, new = table(("VGG", 8), columns=columns), table(("VGG", 16), columns=columns)
    assert cells_of(old, new) == [("VGG", "Knee", "8", "16")], "the knee is a result, no name"


def test_rows_that_nothing_tells_apart_are_counted() -> None:
    columns = (Column("Kernel"), Column("Time", "s"))
    old = table(("copy", 1.0), ("copy", 2.0), columns=columns)
    new = table(("copy", 1.0), ("copy", 3.0), columns=columns)
    assert cells_of(old, new) == [("copy (no. 2)", "Time (s)", "2.000", "3.000")]


def test_a_table_without_names_counts_its_rows() -> None:
    columns = (Column("Time", "s"),)
    old, new = table((1.0,), (2.0,), columns=columns), table((1.0,), (4.0,), columns=columns)
    assert [cell[0] for cell in cells_of(old, new)] == ["row (no. 2)"]


def test_missing_cells_say_why_and_works_are_named_by_their_keys() -> None:
    columns = (Column("What"), Column("Time", "s"), Column("Source"))
    old = table(("a", Missing("no run"), Citation("one")), columns=columns)
    new = table(("a", 2, Citation("other")), columns=columns)
    assert cells_of(old, new) == [
        ("a", "Time (s)", "— (no run)", "2"),
        ("a", "Source", "[one]", "[other]"),
    ]


def test_columns_notes_and_captions_are_compared() -> None:
    old = table(("a", 1.5), columns=(Column("What"), Column("AMD", "s")), notes=("old note",))
    new = table(("a", 1.5), columns=(Column("What"), Column("Intel", "s")), notes=("new note",))
    (change,) = table_changes({old.id: old}, {new.id: new})
    assert (change.columns_added, change.columns_removed) == (("Intel",), ("AMD",))
    assert (change.notes_added, change.notes_removed) == (("new note",), ("old note",))
    (renamed,) = table_changes({old.id: old}, {old.id: dataclasses.replace(old, caption="Other.")})
    assert (renamed.old, renamed.new) == ("Times.", "Other.")


def test_cells_that_print_the_same_are_counted_and_not_listed() -> None:
    old, new = table(("a", 1, 1.00001)), table(("a", 1, 1.00002))
    (change,) = table_changes({old.id: old}, {new.id: new})
    assert (change.cells, change.unseen, change.visible) == ((), 1, False)


def test_a_table_on_one_side_only_is_added_or_removed() -> None:
    only = table(("a", 1, 2.0))
    (added,) = table_changes({}, {only.id: only})
    (removed,) = table_changes({only.id: only}, {})
    assert (added.old, added.new) == (None, "Times.")
    assert (removed.old, removed.new) == ("Times.", None)


rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), numbers), max_size=6)


@given(rows, rows)
def test_exchanged_sides_exchange_old_and_new_cells(one: list[Any], other: list[Any]) -> None:
    old, new = table(*one), table(*other)
    there = table_changes({old.id: old}, {new.id: new})
    back = table_changes({new.id: new}, {old.id: old})
    assert len(there) == len(back)
    for forward, backward in zip(there, back, strict=True):
        assert forward.unseen == backward.unseen
        assert set(forward.rows_added) == set(backward.rows_removed)
        assert {(c.row, c.column, c.old, c.new) for c in forward.cells} == {
            (c.row, c.column, c.new, c.old) for c in backward.cells
        }


# ----------------------------------------------------------------------------------------- claims


def claim(verdict: Any, id: str = "c", because: str = "the ratio is 2") -> Claim:
    return Claim(id, "Larger is faster.", verdict, because)


def test_claims_with_another_verdict_come_first() -> None:
    old = {"a": claim("supported", "a"), "b": claim("supported", "b")}
    new = {"a": claim("supported", "a", "the ratio is 3"), "b": claim("refuted", "b")}
    assert [change.id for change in claim_changes(old, new)] == ["b", "a"]
    assert claim_changes(old, old) == ()


def test_claims_are_added_and_removed() -> None:
    only = {"a": claim("supported", "a")}
    assert [change.kind for change in claim_changes({}, only)] == ["added"]
    assert [change.kind for change in claim_changes(only, {})] == ["removed"]


def test_a_change_has_a_side() -> None:
    with pytest.raises(ValueError, match="at least one side"):
        _ = Change[str]("a", None, None).present


# -------------------------------------------------------------------------------------- sentences


MANUSCRIPT = r"""---
title: "On `Conv2d`"
abstract: |
  A call takes [2.5 \[2.4, 2.6\] ms](#v-time){.value}. It is slow.
---

# Method {#sec-method}

The layer of [@one; @two] has *32* maps (@tbl-work). See Smith et al. 2020
for $K_h = 10{,}616\,\text{MAC}$.

$$
F = 2\,M
$$ {#eq-work}

::: {#tbl-work}
| Batch | Time |
| ---: | ---: |
| 1 | 2 |

A caption.
:::

![A figure.](figures/time){#fig-time fig-alt="Words."}

- One point. Another one.

## Details

Term
: What it means.
"""


def test_a_manuscript_is_read_as_plain_sentences() -> None:
    document = read_document(MANUSCRIPT)
    assert document.title == "On Conv2d"
    assert [(sentence.section, sentence.text) for sentence in document.sentences] == [
        ("Abstract", "A call takes 2.5 [2.4, 2.6] ms."),
        ("Abstract", "It is slow."),
        ("Method", "The layer of [one, two] has 32 maps (Table work)."),
        ("Method", "See Smith et al. 2020 for K_h = 10,616 MAC."),
        ("Method", "F = 2 M"),
        ("Method", "One point."),
        ("Method", "Another one."),
        ("Details", "Term"),
        ("Details", "What it means."),
    ]


def sentences(*texts: str) -> tuple[Sentence, ...]:
    return tuple(Sentence("Results", text) for text in texts)


def test_a_sentence_with_other_numbers_is_one_that_changed() -> None:
    old = sentences("It takes 2.5 ms.", "All is well.", "It has 3 parts.")
    new = sentences("It takes 3 ms.", "All is well.", "Memory is short here.", "It has 3 parts.")
    assert sentence_changes(old, new) == (
        SentenceChange(old[0], new[0]),
        SentenceChange(None, new[2]),
    )


def test_a_sentence_with_some_other_words_is_one_that_changed() -> None:
    old = sentences("No run is here.", "The time of the call was not measured.")
    new = sentences("The time of the call was 2 ms.")
    assert sentence_changes(old, new) == (
        SentenceChange(old[0], None),
        SentenceChange(old[1], new[0]),
    )


some_sentences = st.lists(
    st.sampled_from(
        ["It takes 1 ms.", "It takes 2 ms.", "It takes 20 ms here.", "Nothing.", "All of it is so."]
    ),
    max_size=7,
).map(lambda texts: sentences(*texts))


@given(some_sentences, some_sentences)
def test_exchanged_sides_exchange_old_and_new_sentences(
    one: tuple[Sentence, ...], other: tuple[Sentence, ...]
) -> None:
    there, back = sentence_changes(one, other), sentence_changes(other, one)
    assert there == tuple(change.swapped() for change in back)


@given(some_sentences, some_sentences)
def test_no_sentence_is_lost(one: tuple[Sentence, ...], other: tuple[Sentence, ...]) -> None:
    changes = sentence_changes(one, other)
    gone = [change.old for change in changes if change.old is not None]
    come = [change.new for change in changes if change.new is not None]
    rest = sorted(one)
    for sentence in gone:
        rest.remove(sentence)
    assert sorted([*rest, *come]) == sorted(other)


@given(st.text("ab 1.", max_size=30), st.text("ab 1.", max_size=30))
def test_marked_words_leave_both_texts_whole(old: str, new: str) -> None:
    one, other = marked(old, new)
    assert "".join(piece.text for piece in one) == old
    assert "".join(piece.text for piece in other) == new
    assert [p.text for p in one if not p.differs] == [p.text for p in other if not p.differs]


# ---------------------------------------------------------------------------------------- a study


def side(**parts: Any) -> Side:
    nothing: dict[str, Any] = {"values": {}, "tables": {}, "claims": {}, "figures": {}}
    return Side(**{"records": (), "document": Document("A title", ()), **nothing, **parts})


def test_a_side_does_not_differ_from_itself() -> None:
    one = side(
        values=by_id(value(2.0)),
        claims={"c": claim("supported")},
        figures={"time": Drawn("Times.", "words", b"<svg/>")},
    )
    assert compare(one, one).nothing
    assert compare(one, one).unseen == 0


def test_a_figure_differs_by_its_drawing_or_its_words() -> None:
    drawn = Drawn("Times.", "words", b"<svg/>")
    old = side(figures={"time": drawn, "same": drawn, "gone": drawn})
    new = side(
        figures={
            "time": dataclasses.replace(drawn, svg=b"<svg></svg>"),
            "same": drawn,
            "come": drawn,
        }
    )
    kinds = {change.id: change.kind for change in compare(old, new).figures}
    assert kinds == {"time": "changed", "come": "added", "gone": "removed"}


# ------------------------------------------------------------------------------ where data are from


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the published values and no record."""
    return factory.data_folder(tmp_path / "project")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(data: Path) -> Path:
    """A git repository whose first commit has the data without a record."""
    top = data.parent
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "Begin")
    return top


def test_a_revision_is_unpacked_as_it_was(repository: Path, data: Path, tmp_path: Path) -> None:
    write_record(factory.record(), data)
    (data / "devices.yaml").write_text("changed", encoding="utf-8")
    origin = find_data("HEAD", data, tmp_path)
    committed = (ROOT / "data" / "devices.yaml").read_bytes()
    assert (origin.data / "devices.yaml").read_bytes() == committed
    assert not (origin.data / STUDY).exists()
    assert re.fullmatch(r"revision HEAD, commit [0-9a-f]{12}", origin.words)


def test_a_git_hook_leads_nowhere_else(
    repository: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", "nowhere")
    assert find_data("main", data, tmp_path).data.is_dir()


def test_a_revision_goes_before_a_directory_of_its_name(
    repository: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(data, tmp_path / "main")
    assert find_data("main", data, tmp_path).words.startswith("revision")
    assert find_data("./main", data, tmp_path).words == "directory ./main"


def test_a_directory_needs_no_git(data: Path, tmp_path: Path) -> None:
    origin = find_data(str(data), data, tmp_path)
    assert (origin.data, origin.words) == (data, f"directory {data}")


def refusal(against: str, data: Path, scratch: Path) -> str:
    with pytest.raises(RecordError) as caught:
        find_data(against, data, scratch)
    return str(caught.value)


def test_an_unknown_revision_is_told(repository: Path, data: Path, tmp_path: Path) -> None:
    for name in ("nowhere", "HEAD~9", "-x", "--all", ""):
        message = refusal(name, data, tmp_path / "empty")
        assert message.startswith(f"--diff {name}: found neither a git revision nor a directory")


def test_without_git_only_directories_are_known(data: Path, tmp_path: Path) -> None:
    message = refusal("HEAD~1", data, tmp_path)
    assert "in no git repository" in message
    assert "name a directory of data" in message


def test_git_that_is_not_installed_is_told(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git cannot be started: No such file" in refusal("HEAD", data, tmp_path)


def test_a_revision_without_data_is_told(repository: Path, data: Path, tmp_path: Path) -> None:
    other = repository / "more" / "data"
    shutil.copytree(data, other)
    assert "has no more/data; name a later one" in refusal("HEAD", other, tmp_path)


def test_a_directory_without_data_is_told(data: Path, tmp_path: Path) -> None:
    assert "holds no devices.yaml" in refusal(str(tmp_path), data, tmp_path)


def test_present_data_that_are_not_there_are_told(tmp_path: Path) -> None:
    assert "no such directory" in refusal("HEAD", tmp_path / "data", tmp_path)


def test_links_out_of_the_data_are_not_unpacked(
    repository: Path, data: Path, tmp_path: Path
) -> None:
    (data / "out").symlink_to("/etc")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Link")
    assert "cannot be unpacked" in refusal("HEAD", data, tmp_path)


def test_inputs_are_the_files_of_a_study_and_those_of_all(data: Path) -> None:
    write_record(factory.record(), data)
    (data / STUDY / ".hidden").write_text("x", encoding="utf-8")
    files = set(inputs_of(STUDY, data))
    assert {"devices.yaml", "references.bib", f"reported/{STUDY}.json"} < files
    assert len([file for file in files if file.startswith(f"{STUDY}/")]) == 1
    assert "pins.yaml" not in files


def test_files_beside_a_record_are_counted() -> None:
    files = [
        Change("s/1.json", None, "digest"),
        Change("s/1/trace.json.gz", None, "digest"),
        Change("s/1/images.json", None, "digest"),
        Change("s/2/trace.json.gz", "digest", "other"),
        Change("devices.yaml", "digest", "other"),
    ]
    assert list(file_words(files)) == [
        ("added", "s/1.json, with 2 files beside it"),
        ("changed", "s/2/trace.json.gz"),
        ("changed", "devices.yaml"),
    ]


# ------------------------------------------------------------------------------------- end to end


def asked(data: Path, *studies: str, jobs: int = 1, out: Path | None = None) -> Request:
    return Request(
        studies=studies or (STUDY,),
        outputs=("html",),
        out=out or data.parent / "out",
        jobs=jobs,
        data=data,
    )


def slower(batch: int) -> float:
    return 2e-4 + 9e-4 * batch


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Difference, Path]:
    """The difference that a slower run makes, and the output folder."""
    folder = tmp_path_factory.mktemp("measured")
    old = factory.data_folder(folder / "old", factory.record())
    cases = factory.layer_cases(time=slower)
    record = factory.record(cases, started="2026-12-01T10:00:00Z")
    request = asked(factory.data_folder(folder / "new", record), STUDY, "conv_profiling")
    return difference(request, str(old)), request.out


def test_another_record_changes_numbers_cells_sentences_and_figures(
    measured: tuple[Difference, Path],
) -> None:
    studied = measured[0].studies[0]
    assert studied.compared is not None
    changes = studied.compared.changes
    assert {change.kind for change in studied.files} == {"added", "removed"}
    assert "time_largest" in {change.id for change in changes.values}
    assert all(
        change.step.apart is not None for change in changes.values if change.id == "time_largest"
    )
    assert any(change.cells for change in changes.tables)
    assert any(change.old and change.new for change in changes.sentences)
    assert "rate" in {change.id for change in changes.figures}
    theory = {"flops", "output_bytes", "parameter_bytes"}
    assert not theory & {change.id for change in changes.values}


def test_a_study_with_the_same_data_is_not_computed(measured: tuple[Difference, Path]) -> None:
    other = measured[0].studies[1]
    assert (other.study, other.files, other.compared) == ("conv_profiling", (), None)
    assert "conv_profiling: its data are the same; nothing was computed." in measured[0].text


def test_the_text_tells_the_most_important_first(measured: tuple[Difference, Path]) -> None:
    text = measured[0].text
    assert text.startswith("old: directory ")
    assert "The code and the prose are today's on both sides" in text
    places = [text.index(f"\n  {title}\n") for title in ("data", "sentences", "numbers", "figures")]
    assert places == sorted(places)
    assert "intervals apart" in text
    assert "records used: " in text
    assert "\N{NO-BREAK SPACE}" not in text
    assert text.endswith(f"side by side: {measured[0].page}")


def test_what_the_text_leaves_out_is_counted(
    measured: tuple[Difference, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "numbers", 2)
    (studied, _) = measured[0].studies
    assert studied.compared is not None
    numbers = studied.compared.changes.values
    text = difference_text("a", "b", [studied], "page")
    assert f"... and {len(numbers) - 2} more numbers, which the page lists" in text
    assert [number.name in text for number in numbers[:3]] == [True, True, False]


def test_the_page_shows_everything_and_asks_for_nothing(measured: tuple[Difference, Path]) -> None:
    found, out = measured
    page = found.page.read_text("utf-8")
    assert found.page == out / "diff" / "index.html"
    assert list(out.glob(".scratch-*")) == []
    compared = found.studies[0].compared
    assert compared is not None
    assert page.count("<figure") == len(compared.changes.figures)
    assert page.count('<p class="place">') >= len(compared.changes.sentences)
    assert all(change.name in page.replace("&#39;", "'") for change in compared.changes.values)
    assert "are today's on both sides" in page
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page)
    assert "<ins>" in page
    assert "<del>" in page


def test_figures_stand_beside_the_page_with_words_for_them(
    measured: tuple[Difference, Path],
) -> None:
    found, _ = measured
    page = found.page.read_text("utf-8")
    images = re.findall(r'<img src="([^"]+)" alt="([^"]+)"', page)
    assert images
    for file, alt in images:
        assert (found.page.parent / file).read_bytes().startswith(b"<?xml")
        assert alt.strip()
    assert {file.split("/")[2] for file, _ in images} == {"old", "new"}


def test_ids_of_the_page_are_unique_and_its_links_lead_somewhere(
    measured: tuple[Difference, Path],
) -> None:
    page = measured[0].page.read_text("utf-8")
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_a_difference_is_the_same_twice(measured: tuple[Difference, Path], tmp_path: Path) -> None:
    out = measured[1]
    request = asked(out.parent / "data", STUDY, "conv_profiling", jobs=2, out=tmp_path)
    again = difference(request, str(out.parent.parent / "old" / "data"))
    first = measured[0].page.parent
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert files == sorted(
        path.relative_to(again.page.parent)
        for path in again.page.parent.rglob("*")
        if path.is_file()
    )
    assert all(
        (first / name).read_bytes() == (again.page.parent / name).read_bytes() for name in files
    )


def test_a_revision_is_compared_with_today(repository: Path, data: Path) -> None:
    record = write_record(factory.record(), data)
    steps: list[str] = []
    found = difference(asked(data), "HEAD", lambda words, _: steps.append(words))
    (studied,) = found.studies
    assert studied.compared is not None
    assert studied.compared.old.records == ()
    assert studied.compared.new.records == (record.relative_to(data).as_posix(),)
    assert [change.id for change in studied.files] == [record.relative_to(data).as_posix()]
    assert "not measured (" in found.text
    assert f"records used: none -> {STUDY}/" in found.text
    assert (found.exit_code, len(steps)) == (0, 2)


def test_where_nothing_differs_it_is_said(repository: Path, data: Path) -> None:
    found = difference(asked(data, *STUDIES), "HEAD")
    assert all(not studied.files for studied in found.studies)
    page = found.page.read_text("utf-8")
    assert "<strong>Nothing differs:</strong>" in page
    assert found.exit_code == 0


def test_data_that_change_nothing_are_told(repository: Path, data: Path) -> None:
    with (data / "references.bib").open("a", encoding="utf-8") as stream:
        stream.write("% a remark\n")
    found = difference(asked(data), "HEAD")
    assert "its data differ, but its paper reads the same" in found.text
    assert "The paper reads the same on both sides" in found.page.read_text("utf-8")


def test_old_data_that_are_refused_stop_nothing(repository: Path, data: Path) -> None:
    (data / "reported" / f"{STUDY}.json").write_text("{", encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Break")
    shutil.copyfile(
        ROOT / "data" / "reported" / f"{STUDY}.json", data / "reported" / f"{STUDY}.json"
    )
    found = difference(asked(data, STUDY, "conv_profiling"), "HEAD")
    assert f"{STUDY}: cannot be computed from the old data:" in found.text
    assert "not valid JSON" in found.text
    assert "conv_profiling: its data are the same" in found.text
    assert found.exit_code == 0
    assert "Not computed from the old data" in found.page.read_text("utf-8")


def test_present_data_that_are_refused_are_an_error(repository: Path, data: Path) -> None:
    (data / "reported" / f"{STUDY}.json").write_text("{", encoding="utf-8")
    found = difference(asked(data), "HEAD")
    assert found.exit_code == 1
    assert "not valid JSON" in found.refused[0]
    assert "Traceback" in found.traces[0]


def test_the_command_prints_the_difference_or_why_there_is_none(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--data", str(data), "--out", str(tmp_path / "out")]
    assert build.main([STUDY, "--diff", str(data), *where]) == 0
    assert f"{STUDY}: its data are the same" in capsys.readouterr().out
    assert (tmp_path / "out" / "diff" / "index.html").is_file()
    assert build.main([STUDY, "--diff", "nowhere", *where]) == 1
    assert capsys.readouterr().err.startswith("error: --diff nowhere: ")
