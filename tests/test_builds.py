"""After any change of a project and its output, a build writes the same files as a cold build."""

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from report import open_paper
from report.core.errors import RecordError, StudyError
from report.engine.cache import DIGESTS, INDEX, MANIFEST
from tests import factory, tiny
from tests.render.site_checks import dead_links
from tests.tiny import STUDY, TEMPLATE, exchange_text

Change = Callable[[Path], None]


def toggle_double_times(project: Path) -> None:
    """Double all times of the record, or restore the original record."""
    path, original = tiny.record_of(project), project / "original.json"
    if original.exists():
        original.replace(path)
        return
    shutil.copyfile(path, original)
    record = json.loads(path.read_bytes())
    for case in record["cases"]:
        for round_ in case["rounds"]:
            for name, samples in round_["series"].items():
                round_["series"][name] = [2 * sample for sample in samples]
    path.write_text(json.dumps(record), "utf-8")


def toggle_other_typst(project: Path) -> None:
    """Create or remove the metadata of another installed version of Typst."""
    folder = project / "typst-99.0.dist-info"
    if folder.exists():
        folder.rmdir()
    else:
        folder.mkdir()


#: Steps that follow the steps ``study`` and ``figures``.
AFTER_STUDY: Final = ("document", "page", "pdf", "site/quarto")
#: Edited part → function that applies or reverts the edit, and the steps that must run afterwards.
EDITS: Final[dict[str, tuple[Change, tuple[str, ...]]]] = {
    "value in a record": (toggle_double_times, ("study", "figures", *AFTER_STUDY)),
    "device that no record names": (
        exchange_text("data/devices.yaml", "value: 8.1, unit", "value: 9.1, unit"), ("study",)),
    "bibliography": (
        exchange_text("data/references.bib", "title = {", "title = {New: "), AFTER_STUDY),
    "caption": (exchange_text(TEMPLATE, "over the width on", "against the width on"), AFTER_STUDY),
    "drawing function": (
        exchange_text("figures/scaling.py", "axes.set_xlabel(",
                      "axes.set_title('x'); axes.set_xlabel("),
        ("figures", "page", "pdf", "site/quarto")),
    "comment in a helper": (
        exchange_text("report/core/text/format.py", "\nfrom ", "\n# a comment\nfrom "),
        ("study", *AFTER_STUDY)),
    "page": (
        exchange_text("templates/html/page.html", "<main", '<main data-new="1"'),
        ("document", "page")),
    "LaTeX style": (
        exchange_text("templates/latex/ridgepoint.sty", "\n", "\n% a comment\n"),
        ("document", "pdf")),
    "filter": (exchange_text("templates/filter/html.lua", "\n", "\n-- a comment\n"), ("document",)),
    "package": (toggle_other_typst, ("study", "figures", *AFTER_STUDY)),
}  # fmt: skip


def cut(path: Path) -> None:
    """Remove the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)


#: Functions that create something in place of a removed file of ``out/``.
REPLACEMENTS: Final[dict[str, Callable[[Path], object]]] = {
    "nothing": lambda path: None,
    "other content": lambda path: path.write_bytes(b"\0"),
    "folder": lambda path: (path / "full").mkdir(parents=True),
    "link": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
}
#: Outputs that are complete, old or new, whenever a build is killed.
ATOMIC_OUTPUTS: Final = (f"qmd/{STUDY}/", f"tex/{STUDY}/", "quarto/", f"pdf/{STUDY}.pdf", "values/")
#: Three sequences of seven steps run for about a quarter of a minute on one processor.
SETTINGS: Final = settings(
    max_examples=3, stateful_step_count=7, deadline=None, database=None,
    suppress_health_check=list(HealthCheck), phases=(Phase.generate,),
)  # fmt: skip


def digests_below(prefix: str, digests: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in digests.items() if name.startswith(prefix)}


class Builds(RuleBasedStateMachine):
    """Random edits, damages and builds of one project, compared with builds in an empty folder.

    ``applied``: edits of the project.  ``built``: edits of the last build, or None if ``out/`` was
    changed afterwards.  ``original_out``: output of the unedited project.  ``cold_digests``:
    digests of builds in an empty folder, by edits.
    """

    project: Path
    original_out: Path
    cold_digests: dict[frozenset[str], dict[str, str]]

    @initialize(edit=st.sampled_from(sorted(EDITS)))
    def begin(self, edit: str) -> None:
        """Build after one edit, so that every sequence is compared with a cold build."""
        self.applied: set[str] = set()
        self.built: frozenset[str] | None = frozenset()
        shutil.rmtree(self.project / "out", ignore_errors=True)
        shutil.copytree(self.original_out, self.project / "out")
        self.edit(edit)
        self.build()

    def teardown(self) -> None:
        """Revert the edits, for the next sequence."""
        for edit in self.applied:
            EDITS[edit][0](self.project)

    def expected(self) -> dict[str, str]:
        """Return the digests of a build in the empty folder ``cold``."""
        edits = frozenset(self.applied)
        if edits not in self.cold_digests:
            (self.project / "cold").mkdir()
            # The copied index saves reading imports; its file entries do not match this folder.
            shutil.copyfile(self.original_out / INDEX, self.project / "cold" / INDEX)
            result = tiny.build(self.project, "--out", "cold")
            assert result.code == 0, result.output
            self.cold_digests[edits] = tiny.digests(self.project, "cold")
            shutil.rmtree(self.project / "cold")
        return self.cold_digests[edits]

    def scratch_folders(self) -> list[Path]:
        """Return the folders in which a build runs its steps."""
        return list((self.project / "out").glob(".scratch-*"))

    def check(self) -> None:
        """Assert that ``out/`` equals a cold build and that another build has nothing to do."""
        assert tiny.digests(self.project) == self.expected()
        assert not self.scratch_folders()
        self.built = frozenset(self.applied)
        assert "Nothing to do" in tiny.build(self.project).output

    def check_atomic_outputs(self) -> None:
        """Assert that atomic outputs are old or new after an interrupted build.

        If ``out/`` was changed since the last build, the old outputs are unknown.
        """
        if self.built is None:
            return
        digests, new = tiny.digests(self.project), self.expected()
        old = self.cold_digests[self.built]
        for prefix in ATOMIC_OUTPUTS:
            files = digests_below(prefix, digests)
            assert files in (digests_below(prefix, old), digests_below(prefix, new)), prefix
        self.built = None

    @rule(edit=st.sampled_from(sorted(EDITS)))
    def edit(self, edit: str) -> None:
        """Apply an edit, or revert it if it is applied."""
        EDITS[edit][0](self.project)
        self.applied ^= {edit}

    @rule(number=st.integers(0, 10_000), replacement=st.sampled_from(["cut", *REPLACEMENTS]))
    def damage(self, number: int, replacement: str) -> None:
        """Cut or replace a file of ``out/``, which ``number`` selects."""
        out = self.project / "out"
        # The manifest stays, since it lists the files that a build may remove.
        files = sorted(p for p in out.rglob("*") if p.is_file() and p != out / MANIFEST)
        if replacement == "folder":  # a folder in place of the lock might belong to the user
            files = [path for path in files if path.name != ".lock"]
        if not files:
            return
        path = files[number % len(files)]
        if replacement == "cut":
            cut(path)
        else:
            path.unlink()
            REPLACEMENTS[replacement](path)
        self.built = None

    @rule(name=st.sampled_from(["html", "qmd", "pdf", ".steps", f"html/{STUDY}/figures", ""]))
    def remove_folder(self, name: str) -> None:
        shutil.rmtree(self.project / "out" / name, ignore_errors=True)
        self.built = None

    @rule()
    def touch(self) -> None:
        """Set new modification times, which cause no step to run."""
        for folder in ("report", "figures", "templates", "data", "out"):
            for path in (self.project / folder).rglob("*"):
                if path.is_file():
                    path.touch()
        if self.built == self.applied:
            assert "Nothing to do" in tiny.build(self.project).output

    @rule()
    def build(self) -> None:
        result = tiny.build(self.project)
        assert result.code == 0, result.output
        self.check()

    @rule()
    def build_twice_at_once(self) -> None:
        builds = tiny.start_build(self.project), tiny.start_build(self.project)
        for result in [build.wait() for build in builds]:
            assert result.code == 0, result.output
        self.check()

    @rule()
    def build_pages_alone(self) -> None:
        result = tiny.build(self.project, "--html")
        assert result.code == 0, result.output
        self.built = None

    @rule(
        edit=st.sampled_from(sorted(EDITS)),
        milliseconds=st.integers(0, 800),
        number=st.sampled_from([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]),
    )
    def kill(self, edit: str, milliseconds: int, number: int) -> None:
        """Send the signal ``number`` to a build that has begun to run steps, and build again."""
        self.edit(edit)
        running = tiny.start_build(self.project)
        while running.process.is_alive() and not self.scratch_folders():
            time.sleep(0.01)
        time.sleep(milliseconds / 1000)
        running.kill(number)
        running.wait()
        assert number == signal.SIGKILL or not self.scratch_folders()
        self.check_atomic_outputs()
        self.build()

    @rule()
    def build_on_a_full_disk(self) -> None:
        """Limit the size of each file to 10 kB, which larger outputs exceed."""
        result = tiny.build(self.project, file_limit=10_000)
        assert result.code == 0 or "cannot be written" in result.output
        assert "Traceback" not in result.output
        self.check_atomic_outputs()


def test_any_sequence_of_builds_writes_what_a_cold_build_writes(project: Path, built: Path) -> None:
    Builds.project, Builds.original_out = project, built / "out"
    Builds.cold_digests = {frozenset(): tiny.digests(built)}
    run_state_machine_as_test(Builds, settings=SETTINGS)


@pytest.fixture(scope="module")
def edited(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project for a sequence of edits, which add up."""
    return shutil.copytree(built, tmp_path_factory.mktemp("edited") / "project")


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_runs_only_dependent_steps(edited: Path, edit: str) -> None:
    """The index of studies may also run; it contains titles and abstracts."""
    change, steps = EDITS[edit]
    change(edited)
    needed = {step if step.startswith("site/") else f"{STUDY}/{step}" for step in steps}
    assert tiny.steps_run(edited) - {"site/index"} == needed


@pytest.mark.parametrize("content", [None, b"of the previous site"])
def test_digests_of_a_site_are_restored(edited: Path, content: bytes | None) -> None:
    """A build can be killed after it has recorded its last step, and before it writes digests."""
    digests = edited / "out" / "html" / DIGESTS
    expected = digests.read_bytes()
    digests.unlink()
    if content is not None:
        digests.write_bytes(content)
    assert "Nothing to do" in tiny.build(edited).output
    assert digests.read_bytes() == expected


def test_check_of_one_format_accepts_outputs_in_more_formats(built: Path) -> None:
    for option in ("--html", "--pdf"):
        result = tiny.build(built, "--check", option)
        assert result.code == 0 and "stale" not in result.output


def test_use_applies_to_one_build(project: Path) -> None:
    def run(exit_code: int, *arguments: str) -> str:
        result = tiny.build(project, "--html", *arguments)
        assert result.code == exit_code, result.output
        return result.output

    full = f"{STUDY}/{tiny.record_of(project).name}"
    quick = f"{STUDY}/{tiny.write_rerun(project, 2, lambda width: None, plan='quick').name}"
    page, manifest = project / f"out/html/{STUDY}/index.html", project / "out/manifest.json"
    run(0)
    original_page, original_manifest = page.read_bytes(), manifest.read_bytes()
    use = ("--use", "20261102")
    change = f"{STUDY}/study: the records of --use changed from none to {quick}"
    assert change in run(0, *use, "--dry-run")
    output = run(0, *use)
    values = json.loads((project / f"out/values/{STUDY}.json").read_text("utf-8"))
    assert values["records"] == values["asked"] == [quick]
    assert b"chosen by --use" in page.read_bytes() and b"chosen by --use" not in original_page
    assert b"records that are not those of the paper" in page.read_bytes()
    assert f"{STUDY}: 1 of 2 records used" in output and quick not in output
    output = run(0, *use, "--explain")
    assert "Nothing to do" in output and f"data/{quick}: used as cpu machine, named by" in output
    assert f"data/{full}: not used, --use names another" in output
    change = f"{STUDY}/study is stale: the records of --use changed from {quick} to none."
    assert change in run(1, "--check")
    run(0)
    assert (page.read_bytes(), manifest.read_bytes()) == (original_page, original_manifest)


def test_check_reports_faults_and_writes_nothing(project: Path) -> None:
    """Other records may change numbers, but no verdict."""

    def output_of_check(exit_code: int) -> str:
        before = [factory.digests(project / name) for name in ("data", "out")]
        result = tiny.build(project, "--check")
        assert result.code == exit_code, result.output
        assert [factory.digests(project / name) for name in ("data", "out")] == before
        return result.output

    assert f"build.py {STUDY} --accept" in output_of_check(0), "no numbers are pinned"
    assert tiny.build(project, "--accept").code == 0
    assert output_of_check(0) == ""
    pins = project / f"data/expected/{STUDY}.json"
    assert json.loads(pins.read_bytes())["records"] == [tiny.record_of(project).stem]
    claim = "wider-is-faster"
    verdict = f"{STUDY}: the claim {claim} is supported; it was refuted."
    pinned = exchange_text(
        f"data/expected/{STUDY}.json", '"verdict": "supported"', '"verdict": "refuted"'
    )
    pinned(project)
    (project / f"out/html/{STUDY}/index.html").unlink()
    first, second, third, fourth, *_ = output_of_check(1).splitlines()
    assert first == verdict and "1 pinned number differs with the same" in second
    assert claim in third and fourth.endswith("index.html is missing.")
    shutil.rmtree(project / "out")
    for text, message in (
        (
            f'{{% holds "{claim}", "refuted" %}}It is.{{% endholds %}}',
            f"{claim}, which is supported",
        ),
        ("It took 93.1 ms.", "the number 93.1 is typed into the prose"),
    ):
        exchange_text(TEMPLATE, "\n# Machines", f"\n{text}\n\n# Machines")(project)
        output = output_of_check(1)
        assert message in output
    pinned(project)
    factory.replace_text(project / TEMPLATE, "It took 93.1 ms.", "It took long.")
    # Calls last 1.9 instead of 2.0e-7 s per unit of width, so that the rate rises.
    tiny.write_rerun(project, 5, lambda width: 1.9e-7 * width)
    output = tiny.build(project, "--check").output
    assert re.search(r"note: .*numbers differ with other records, [1-9]\d* outside", output), output
    assert re.search(r"value best_rate: number \S+, interval .* \(pinned: number", output), output
    assert "value ceiling" not in output, "the new run has the same ceilings"
    assert "cell tbl-rates, 64, Rate" in tiny.build(project, "--diff").output
    # The work grows with the square of the width, the time with its cube: the rate falls.
    tiny.write_rerun(project, 6, lambda width: 1e-9 * width**3)
    assert f"the claim {claim} is refuted; it was supported" in output_of_check(1)


def test_a_word_document_is_built_on_request_and_after_changes(project: Path) -> None:
    """Once requested, every later build also converts the document for Word."""
    word = project / "out" / "docx" / f"{STUDY}.docx"
    steps = {f"{STUDY}/figures", f"{STUDY}/document", f"{STUDY}/docx", "site/quarto"}
    assert tiny.steps_run(project, "--docx") == steps
    assert tiny.steps_run(project) == tiny.steps_run(project, "--docx") == set()
    content = word.read_bytes()
    change_caption, _ = EDITS["caption"]
    change_caption(project)
    assert {f"{STUDY}/document", f"{STUDY}/docx"} <= tiny.steps_run(project, "--docx")
    assert word.read_bytes() != content


def test_a_copied_site_has_no_dead_link(built: Path, tmp_path: Path) -> None:
    """The index of papers and the page of the paper link to the PDF."""
    site = shutil.copytree(built / "out" / "html", tmp_path / "published")
    assert dead_links(site) == []
    paper = (built / "out" / "pdf" / f"{STUDY}.pdf").read_bytes()
    assert (site / STUDY / f"{STUDY}.pdf").read_bytes() == paper
    page = (site / STUDY / "index.html").read_text("utf-8")
    index = (site / "index.html").read_text("utf-8")
    assert f'href="{STUDY}.pdf"' in page and f'href="{STUDY}/{STUDY}.pdf"' in index
    assert f'src="{STUDY}/figures/card.svg"' in index


#: Open the paper of the small project as in a notebook, and print its content.
OPEN_PAPER: Final = """
import json, sys
from report import open_paper

paper = open_paper("tiny", out=sys.argv[1])
rates = paper.tables["tbl-rates"]
widest = paper.samples.query("quantity == 'time' and width == 256")
print(json.dumps([
    [*rates.columns], [*map(str, rates.dtypes)], rates.to_numpy().tolist(), rates.attrs,
    [len(widest), *widest["unit"].unique(), widest["value"].max()],
    paper.values["best_rate"], paper.claims.to_dict("index"), repr(paper), paper._repr_html_(),
]))
"""


@pytest.mark.parametrize(("out", "origin"), [("out", "as built in"), ("new", "computed from")])
def test_open_paper_reads_a_build_or_computes_the_paper(built: Path, out: str, origin: str) -> None:
    """A call takes 0.2 µs per unit of width and computes 128 FLOP per weight."""
    command = [sys.executable, "-c", OPEN_PAPER, out]
    content = json.loads(factory.output_of(command, built))
    columns, types, rows, notes, widest, best, claims, *descriptions = content
    assert columns == ["Width", "Rate (FLOP/s)", "Rate, low (FLOP/s)", "Rate, high (FLOP/s)"]
    assert types == ["Int64", "float64", "float64", "float64"]
    assert [row[:2] for row in rows] == [[w, pytest.approx(128 * w / 2e-7)] for w in (64, 256)]
    assert notes == {"caption": "Rate of a call by the width of the layer.", "notes": []}
    # Seven processes of 15 samples: the slowest process is 0.3 % above the median process, and its
    # largest sample is 2 % above its median.
    assert widest == [7 * 15, "s", pytest.approx(2e-7 * 256 * 1.003 * 1.02)]
    number, unit, interval, level, formula, files, printed, reason = best
    assert [number, *interval] == rows[1][1:]
    assert (unit, level, printed, reason) == (
        "FLOP/s",
        0.95,
        "163.8\N{NO-BREAK SPACE}GFLOP/s",
        None,
    )
    assert "largest of" in formula and files == [f"tiny/{tiny.record_of(built).name}"]
    assert claims["wider-is-faster"]["verdict"] == "supported"
    for description in descriptions:  # as text and as HTML
        for words in (f"{origin} {built}", "tbl-rates (2 rows)", "1 supported"):
            assert words in description
    assert not (built / "new").exists()


def test_open_paper_refuses_an_unknown_study_and_a_study_without_records(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no_study: no such study; the studies are backend_spe"):
        open_paper("no_study")
    with pytest.raises(RecordError, match=f"{tmp_path}/conv_scaling: no record .*; measure one"):
        open_paper("conv_scaling", data=tmp_path)
    shown_by_notebook = RecordError("a: b.")._render_traceback_()
    assert shown_by_notebook == ["error: a: b."]
