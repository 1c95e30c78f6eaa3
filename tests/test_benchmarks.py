"""The pure parts of the benchmarks: no time is asserted, and nothing is installed or built."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import builds, engines, page, project, scale, synthetic
from benchmarks.filtering import page_alone, without_filter
from benchmarks.goals import PAIRS, Goal, goals
from benchmarks.pages import Page, read_page
from benchmarks.peers import PEERS, commands
from benchmarks.peers.install import pins
from benchmarks.peers.peer import Peer, project_files, write_project
from benchmarks.peers.shared import results_of
from benchmarks.peers.subject import (
    change_data,
    change_drawing,
    change_word,
    expected,
    read_data,
    word_in,
)
from benchmarks.peers.work import DOCUMENTS, FIGURES, NUMBERS, WORDS, data, shown_figures
from benchmarks.progress import line
from benchmarks.results import (
    Builds,
    Checks,
    Computing,
    EngineTask,
    Environment,
    Filtered,
    Filtering,
    Point,
    Results,
    Sample,
    Scale,
    Timed,
    Tool,
)
from benchmarks.scenarios import Expected, Scenario, cold_faults, faults
from benchmarks.summary import last_slope, median_peak, median_wall, net_peak, slope
from report.records.store import read_record

ENVIRONMENT = Environment(
    started="2026-11-21T14:00:00Z",
    finished="2026-11-21T14:09:00Z",
    commit="0123456789abcdef",
    tree_clean=True,
    processor="Example Processor",
    cores=2,
    memory_bytes=16 * 2**30,
    operating_system="Linux 6",
    python="3.11.7",
    load_before=0.1,
    load_after=1.5,
    versions={"sphinx": "9.0.4"},
)


def samples(*walls: float, peak: int = 10**8) -> tuple[Sample, ...]:
    return tuple(Sample(wall_s=wall, cpu_s=wall, peak_bytes=peak) for wall in walls)


def tool(name: str, missing: str | None = None) -> Tool:
    return Tool(name=name, title=name.title(), makes="HTML", caching="none", missing=missing)


def timed(name: str, scenario: str, *walls: float, wrong: tuple[str, ...] = ()) -> Timed:
    return Timed(tool=name, scenario=scenario, samples=samples(*walls), faults=wrong)


def built() -> Builds:
    return Builds(
        environment=ENVIRONMENT,
        tools=(tool("python"), tool("ridgepoint_typst"), tool("sphinx_myst_nb"),
               tool("mystmd", "no Node.js"), tool("engines_typst")),
        timed=(
            timed("python", "noop", 0.03, 0.02, 0.01),
            timed("ridgepoint_typst", "noop", 0.05, 0.04, 0.06),
            timed("ridgepoint_typst", "cold", 9.0, 8.0, 10.0),
            timed("sphinx_myst_nb", "noop", 1.0),
            timed("sphinx_myst_nb", "record", 1.5, wrong=("paper-1 still shows the old figure",)),
            timed("engines_typst", "cold", 5.0, 6.0, 4.0),
        ),
        engine_tasks=(
            EngineTask(engine="typst", scenario="cold", kind="figure", name="a/x",
                       seconds=(0.2, 0.4, 0.3)),
        ),
        computing=(Computing(study="conv_scaling", seconds=(1.25,)),),
    )  # fmt: skip


FILTERING = Filtering(
    environment=ENVIRONMENT,
    papers=(Filtered(study="x", with_filter=(0.9, 0.8, 0.7), without=(0.5, 0.4, 0.6)),),
)
CHECKS = Checks(
    environment=ENVIRONMENT, install=samples(90.0)[0], check=samples(1200.0)[0], passed=5430
)


def point(axis: str, size: int, wall: float, peak: int = 10**8) -> Point:
    return Point(
        axis=axis, size=size, samples=samples(wall, peak=peak), input_bytes=size * 1000,
        idle_peak_bytes=5 * 10**7,
    )  # fmt: skip


def grown() -> Scale:
    read = [point("cases_read", size, size / 1e6) for size in (10_000, 100_000)]
    return Scale(environment=ENVIRONMENT, points=(*read, point("cases_pandas", 100_000, 0.4)))


# Medians, slopes, ratios


@pytest.mark.parametrize(("middle", "expected"), [(median_wall, 2.0), (median_peak, 7)])
def test_a_median_is_the_middle_sample_and_that_of_nothing_is_refused(
    middle: Any, expected: float
) -> None:
    assert middle(samples(3.0, 1.0, 2.0, peak=7)) == expected
    with pytest.raises(ValueError, match="no samples"):
        middle(())


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_a_slope_is_the_exponent_of_the_growth(exponent: float) -> None:
    sizes = [10.0, 100.0, 1000.0]
    assert slope(sizes, [3 * size**exponent for size in sizes]) == pytest.approx(exponent)


def test_the_last_slope_looks_at_the_two_largest_only() -> None:
    assert last_slope([1000.0, 10.0, 100.0], [100.0, 9.0, 10.0]) == pytest.approx(1.0)


@pytest.mark.parametrize(("sizes", "values"), [([1.0], [1.0]), ([2.0, 2.0], [1.0, 2.0]),
                                               ([1.0, 2.0], [0.0, 1.0])])  # fmt: skip
def test_no_slope_without_two_sizes_and_positive_values(
    sizes: list[float], values: list[float]
) -> None:
    assert slope(sizes, values) is None


def test_memory_above_idle_needs_an_idle_process() -> None:
    assert net_peak(point("cases_read", 10, 1.0)) == 5 * 10**7
    unknown = msgspec.structs.replace(point("cases_read", 10, 1.0), idle_peak_bytes=None)
    assert net_peak(unknown) is None


# Goals


def by_sentence(results: Results, start: str) -> Goal:
    return next(goal for goal in goals(results) if goal.sentence.startswith(start))


@pytest.mark.parametrize(
    ("start", "ratio", "met"),
    [
        ("Nothing to do, against", 0.05 / 0.02, True),
        ("Cold, against", 9 / 5, False),
        ("Reading", 4.0, False),  # at least 5 is asked for
        ("Memory", 0.5, True),
        ("Time over cases", 1.0, True),
        ("Nothing to do: how much longer mystmd", None, None),
        ("Cold: how much longer Quarto", None, None),
        ("Peak memory of a cold build", 1e8 / 300e6, True),
        ("One figure", 0.3 / 0.1, False),
        ("What the Lua filter adds", 0.3 / 0.15, False),
        ("`.ci/run`", 2.0, False),
    ],
)
def test_a_ratio_of_medians_is_met_missed_or_not_measured(
    start: str, ratio: float | None, met: bool | None
) -> None:
    results = Results(builds=built(), scale=grown(), filtering=FILTERING, checks=CHECKS)
    goal = by_sentence(results, start)
    assert goal.ratio == (ratio and pytest.approx(ratio))
    assert goal.met is met


def test_a_missed_goal_says_why_with_numbers_of_the_run() -> None:
    reason = by_sentence(Results(builds=built()), "Cold, against").reason
    assert "4.00 s go beyond the engines" in reason
    assert "1.25 s on one core" in reason


def test_every_call_of_pandoc_is_counted_by_paper() -> None:
    tasks = [
        EngineTask(engine="typst", scenario="cold", kind=kind, name=name, seconds=(1.0,))
        for kind in ("pandoc", "typst")
        for name in ("a/a", "b/b")
    ]
    results = Results(builds=msgspec.structs.replace(built(), engine_tasks=tuple(tasks)))
    assert by_sentence(results, "Processes of pandoc").ratio == 1


def test_the_filter_is_measured_on_the_page_alone() -> None:
    job = {"editions": [{"to": "html"}, {"to": "latex"}], "plain": ["a title"]}
    call = engines.Call(("pandoc", "lua", "ours.lua"), "/", None, json.dumps(job).encode())
    page = page_alone(call)
    assert json.loads(page.stdin or b"") == {"editions": [{"to": "html"}], "plain": []}
    bare = without_filter(page)
    assert (bare.arguments[:2], bare.stdin) == (("pandoc", "lua"), page.stdin)
    assert Path(bare.arguments[2]).is_file()


# The page


def test_the_page_is_written_from_the_results() -> None:
    text = page.render(Results(builds=built(), scale=grown(), filtering=FILTERING, checks=CHECKS))
    assert "| `x` | 0.800 | 0.500 | 3 |" in text
    assert "`.ci/run` 1200 s (1200 s of processor time); 5,430 tests passed" in text
    assert "| 2.50 | at most 2.5 | met |" in text
    assert "| 1.80 | at most 1.15 | **missed**:" in text
    assert "9.000 s (3) ✓" in text
    assert "1.500 s (1) ✗" in text
    assert "- Sphinx_Myst_Nb (HTML), one value of data changed: paper-1 still shows" in text
    assert "not here: no Node.js" in text
    assert "| 100,000 | 0.100 | 100 | 50.0 | 100.0 | 1 |" in text
    assert "Exponent of time over size: 1.00" in text
    assert "commit 0123456789;" in text
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        counts = {row.count(" | ") for row in block.rstrip("\n").split("\n")}
        assert len(counts) == 1, block


def test_the_page_can_be_written_without_any_results() -> None:
    text = page.render(Results())
    assert "## How to repeat" in text
    assert "## Scale" not in text


def test_no_number_of_a_result_is_typed_into_the_template() -> None:
    template = Path(page.__file__).with_name("README.md.j2").read_text("utf-8")
    assert not re.search(r"\d+(?:\.\d+)? ?(?:s|ms|MB|×|%)\b", template)


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    folder = Path(page.__file__).parent
    results = msgspec.json.decode((folder / "results.json").read_bytes(), type=Results)
    assert (folder / "README.md").read_text("utf-8") == page.render(results)


def test_time_left_is_told_once_it_is_known() -> None:
    assert line("builds", "x", 0.05, 10) == "builds [  5%] x"
    assert line("builds", "x", 0.5, 30) == "builds [ 50%] x, about 30 s left"
    assert line("builds", "x", 0.2, 60) == "builds [ 20%] x, about 4 min left"


# The plan


class Idle:
    """A participant that notes what it is asked for."""

    def __init__(self, name: str, scenarios: set[Scenario]) -> None:
        self.tool = tool(name)
        self.scenarios = frozenset(scenarios)
        self.asked: list[tuple[str, Scenario]] = []

    def prepare(self) -> dict[str, str]:
        return {}

    def change(self, scenario: Scenario, turn: int) -> None:
        self.asked.append((f"change {turn}", scenario))

    def measure(self, scenario: Scenario) -> Sample:
        return samples(1.0)[0]

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        return ("stale",)


def test_all_tools_take_turns_within_a_scenario() -> None:
    one, other = Idle("one", {Scenario.COLD, Scenario.NOOP}), Idle("other", {Scenario.NOOP})
    steps = builds.plan([one, other], dict.fromkeys(Scenario, 2))
    assert [(s.subject.tool.name, s.scenario.value, s.turn, s.last) for s in steps] == [
        ("one", "cold", 0, False), ("one", "cold", 1, True),
        ("one", "noop", 0, False), ("other", "noop", 0, False),
        ("one", "noop", 1, True), ("other", "noop", 1, True),
    ]  # fmt: skip


def test_samples_are_kept_and_faults_are_said_once() -> None:
    steps = builds.plan([Idle("one", {Scenario.NOOP})], dict.fromkeys(Scenario, 3))
    found = builds.perform(steps, lambda words, share: None)
    series = found["one", Scenario.NOOP]
    assert len(series.samples) == 3
    assert series.faults == ["stale"]


def test_a_goal_names_only_tools_that_take_part() -> None:
    names = {subject.tool.name for subject in builds.subjects(Path("scratch"), Path("cache"))}
    for pair in PAIRS:
        assert pair.above[0] in names
        assert pair.below[0] in names


# What must follow from a change


def test_a_stale_figure_and_a_stale_number_are_found() -> None:
    before = {"a": Page("seven", ("f", "g")), "b": Page("other", ("h",))}
    wanted = Expected(frozenset({"a"}), frozenset({("a", 1)}), {"a": ("eight",)})
    right = {"a": Page("eight", ("f", "new")), "b": before["b"]}
    assert faults(before, right, wanted) == ()
    assert faults(before, before, wanted) == (
        "a still shows the old text or number",
        "a still shows the old figure",
    )


def test_what_changed_without_need_is_found() -> None:
    before = {"a": Page("seven", ("f",)), "b": Page("other", ("h",))}
    after = {"a": Page("eight", ("g",)), "b": Page("others", ("h",))}
    assert faults(before, after, Expected()) == (
        "a, b changed its words without need",
        "a changed a figure without need",
    )


def test_a_cold_build_has_all_pages_figures_and_numbers() -> None:
    pages = {"a": Page("seven", ("f", "missing")), "b": None}
    assert cold_faults(pages, {"a": ("eight",)}, 2) == (
        "b has no page",
        "a still shows the old text or number",
        "a does not show its 2 figures",
    )


@pytest.mark.parametrize("scenario", [Scenario.RECORD, Scenario.DRAWING])
def test_the_bars_must_change_where_their_input_did(scenario: Scenario) -> None:
    places = expected(scenario, dict.fromkeys(DOCUMENTS, ())).figures
    assert {shown_figures()[index] for _, index in places} == {"bars"}
    assert len(places) == (1 if scenario is Scenario.RECORD else len(DOCUMENTS))


def test_a_page_is_its_words_and_the_bytes_of_its_figures(tmp_path: Path) -> None:
    (tmp_path / "x.svg").write_text("<svg/>")
    html = tmp_path / "page.html"
    html.write_text('<script>9</script><p>a &amp;\n b</p><img src="x.svg"><img src="y.svg">')
    found = read_page(html)
    assert found is not None
    assert found.words == "a & b"
    assert len(found.figures[0]) == 64
    assert found.figures[1] == "missing"
    assert read_page(tmp_path / "none.html") is None


def test_a_page_of_mystmd_is_compared_without_its_random_keys(tmp_path: Path) -> None:
    folder = tmp_path / "content"
    folder.mkdir()
    pages = []
    for key in ("one", "two"):
        content = {"mdast": {"key": key, "children": [{"type": "text", "value": "words"}]}}
        (folder / f"{key}.json").write_text(json.dumps(content))
        pages.append(read_page(folder / f"{key}.json"))
    assert pages[0] == pages[1] == Page("words", ())


def test_a_small_figure_of_mystmd_stands_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "x.svg").write_text("<svg>large</svg>")
    (tmp_path / "content").mkdir()
    path = tmp_path / "content" / "page.json"
    shown = [{"path": "/x.svg"}, {"content": "<svg>small</svg>"}]
    path.write_text(json.dumps({"mdast": {"children": shown}}))
    found = read_page(path)
    assert found is not None
    assert len(set(found.figures)) == 2
    assert found.words == ""


# The projects of the peers


@pytest.fixture(params=PEERS, ids=lambda peer: peer.name)
def peer(request: pytest.FixtureRequest) -> Peer:
    return request.param


def test_every_peer_gets_the_same_work(peer: Peer) -> None:
    files = project_files(peer)
    for document in DOCUMENTS:
        text = files[peer.source.format(document=document)]
        assert json.loads(files[f"data/{document}.json"]) == data(document)
        assert sum(text.count(number) > 0 for number in NUMBERS) == len(NUMBERS)
        assert [text.count(f" {word} ") for word in WORDS] == [1] + [0] * (len(WORDS) - 1)
        assert "{word}" not in text
        endings = '["),]'
        found = [re.search(rf"\b{name}(?={endings})", text) for name in shown_figures()]
        starts = [match.start() for match in found if match]
        assert starts == sorted(starts)
        assert len(starts) == len(FIGURES)


def test_every_peer_is_a_project_of_its_own_with_exact_versions(peer: Peer) -> None:
    for name, text in project_files(peer).items():
        if name.endswith(".py"):
            ast.parse(text, name)
    pinned = pins()[peer.kit]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", pin) for pin in pinned["pip"])
    assert all(re.fullmatch(r"[\w-]+@[\d.]+", pin) for pin in pinned.get("npm", ()))
    assert [other.name for other in PEERS].count(peer.name) == 1


def test_the_dodo_file_has_a_task_for_each_step_of_each_document() -> None:
    names: dict[str, Any] = {}
    exec(commands.dodo(), names)
    tasks = list(names["task_paper"]())
    assert len(tasks) == 3 * len(DOCUMENTS)
    targets = [target for task in tasks for target in task["targets"]]
    assert len(set(targets)) == len(targets)
    made = next(t for t in tasks if t["name"] == "figures:paper-1")
    assert made["actions"] == ["python make.py figures paper-1"]
    shown = next(t for t in tasks if t["name"] == "html:paper-1")
    assert set(made["targets"]) < set(shown["file_dep"]), "made once, needed once"
    assert len(made["targets"]) == len(FIGURES)


def test_an_edit_of_data_changes_one_number_of_one_document(peer: Peer, tmp_path: Path) -> None:
    write_project(peer, tmp_path)
    before = {d: results_of.numbers(read_data(tmp_path, d)) for d in DOCUMENTS}
    change_data(tmp_path)
    after = {d: results_of.numbers(read_data(tmp_path, d)) for d in DOCUMENTS}
    assert {d for d in DOCUMENTS if before[d] != after[d]} == {"paper-1"}
    changed = {name for name in NUMBERS if before["paper-1"][name] != after["paper-1"][name]}
    assert changed == {"peak", "growth"}


def test_edits_differ_in_every_turn(peer: Peer, tmp_path: Path) -> None:
    write_project(peer, tmp_path)
    source = tmp_path / peer.source.format(document="paper-2")
    words, drawings = [], []
    for turn in range(6):
        change_word(tmp_path, peer, turn)
        change_drawing(tmp_path, turn)
        words.append(word_in(source.read_text("utf-8")))
        drawings.append((tmp_path / "drawing.py").read_text("utf-8"))
    assert words == list(WORDS[1:7])
    assert len(set(drawings)) == 6


def test_numbers_are_recomputed_from_the_samples() -> None:
    content = {
        "batch": [1, 3],
        "forward_s": [[0.001, 0.003, 0.002], [0.006, 0.006]],
        "backward_s": [[0.004], [0.012]],
        "peak_bytes": [1000, 2500],
    }
    assert results_of.numbers(content) == {
        "largest": "3", "samples": "7", "first": "2.000", "last": "6.000", "slope": "2000.0",
        "ratio": "2.000", "rate": "500", "peak": "2,500", "growth": "2.50",
    }  # fmt: skip
    assert results_of.memory_table(content)[-1] == ["3", "2,500", "833.3"]
    assert results_of.pipe_table([["a"], ["1"]]) == "| a |\n| ---: |\n| 1 |"


# ridgepoint's own project


def test_a_word_of_prose_changes_below_the_front_matter_only() -> None:
    text = "---\ntitle: In the front\n---\n\n# The head\n\nWe see the one and the other.\n"
    once = project.changed_prose(text, 0)
    assert once == text.replace("see the one", "see that very one")
    assert project.changed_prose(once, 1) == text.replace("see the one", "see this one one")
    with pytest.raises(ValueError, match="no line of prose"):
        project.changed_prose("---\n---\n\n# the head\n", 0)


def test_the_paper_that_is_edited_has_such_a_word() -> None:
    text = (project.ROOT / "templates/papers" / f"{project.EDITED_PAPER}.qmd.j2").read_text("utf-8")
    for turn in range(6):
        changed = project.changed_prose(text, turn)
        assert len(changed) != len(text) or changed != text
        text = changed


def test_the_drawing_that_is_edited_draws_otherwise_in_every_turn(tmp_path: Path) -> None:
    target = tmp_path / project.EDITED_DRAWING
    target.parent.mkdir(parents=True)
    target.write_text((project.ROOT / project.EDITED_DRAWING).read_text("utf-8"), "utf-8")
    texts = []
    for turn in range(6):
        project.change_bars(tmp_path, turn)
        texts.append(target.read_text("utf-8"))
        ast.parse(texts[-1])
    assert len(set(texts)) == 6
    assert texts[-1].count("_plain_draw = draw") == 1


def test_a_moved_sample_changes_one_value_of_a_record(tmp_path: Path) -> None:
    synthetic.write_records(tmp_path / "data", 1, 5)
    path = next((tmp_path / "data" / "conv_scaling").glob("*.json"))
    before = json.loads(path.read_text("utf-8"))
    project.change_record(tmp_path)
    (path,) = (tmp_path / "data" / "conv_scaling").glob("*.json")
    after = json.loads(path.read_text("utf-8"))
    changed = [
        (one, other)
        for a, b in zip(before["cases"], after["cases"], strict=True)
        for one, other in zip(a["series"][0]["samples"], b["series"][0]["samples"], strict=True)
        if one != other
    ]
    assert len(changed) == 1
    assert changed[0][1] > changed[0][0]


def test_the_record_that_is_changed_is_one_of_this_project(tmp_path: Path) -> None:
    """Its times stand in rounds, which those of made-up records do not; it is used as it is."""
    used = project.used_record(project.ROOT)
    target = tmp_path / used.relative_to(project.ROOT)
    target.parent.mkdir(parents=True)
    target.write_bytes(used.read_bytes())
    before = json.loads(used.read_text("utf-8"))
    project.change_record(tmp_path)
    changed = project.used_record(tmp_path)
    assert json.loads(changed.read_text("utf-8")) != before
    assert not target.exists()
    assert read_record(changed, tmp_path / "data").alterations == ()


def test_other_files_are_said_with_an_example() -> None:
    assert project.differences({"a": "1"}, {"a": "1"}, "before") == ()
    told = project.differences({"a": "1", "b": "2"}, {"a": "1", "c": "3"}, "before")
    assert told == ("2 files are other than before, such as b",)


def test_redrawn_figures_are_those_with_other_bytes() -> None:
    folder = f"html/{project.EDITED_STUDY}/figures"
    before = {f"{folder}/a.svg": "1", f"{folder}/b.svg": "1"}
    assert project.redrawn(before, {f"{folder}/a.svg": "2", f"{folder}/b.svg": "1"}) == ("a",)


# The engines


def task(kind: Any, study: str = "conv_scaling", name: str = "x") -> engines.Task:
    return engines.Task(kind, study, name, None)


def test_each_route_has_its_own_engines() -> None:
    tasks = [task(kind) for kind in reversed(engines.ORDER)]
    typst = [t.kind for t in engines.chosen(tasks, "typst", Scenario.COLD)]
    assert typst == ["pandoc", "typst", "figure"]
    latex = [t.kind for t in engines.chosen(tasks, "latex", Scenario.COLD)]
    assert latex == ["latexmk", "pandoc", "figure"]
    style = engines.chosen(tasks, "latex", Scenario.STYLE)
    assert [t.kind for t in style] == ["latexmk"]


def test_a_changed_record_asks_for_one_paper_and_its_changed_figures() -> None:
    tasks = [task("figure", name="a"), task("figure", name="b"), task("typst"),
             task("typst", study="conv_profiling")]  # fmt: skip
    found = engines.chosen(tasks, "typst", Scenario.RECORD, ["b"])
    assert found == [tasks[2], tasks[1]]


# The scale


def test_made_up_records_can_be_read_and_are_of_the_size(tmp_path: Path) -> None:
    written = synthetic.write_records(tmp_path, 3, 7)
    files = list((tmp_path / "conv_scaling").glob("*.json"))
    assert len(files) == 3
    assert sum(file.stat().st_size for file in files) == written
    assert scale.read_strictly(tmp_path) == 21
    assert scale.read_newest(tmp_path) == 7, "the newest record of the one device"
    assert scale.read_by_pandas(tmp_path) == 21
    assert scale.read_series_by_pandas(tmp_path) == 21, "a case has one series"


def test_many_studies_stand_in_a_copy_of_the_project(tmp_path: Path) -> None:
    synthetic.write_project(tmp_path / "copy", studies=3, cases=2)
    names = synthetic.small_studies(3)
    copy = tmp_path / "copy"
    listed = [sys.executable, "build.py", "--list"]
    done = subprocess.run(listed, cwd=copy, capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == names
    for name in names:
        assert len(list((copy / "data" / name).glob("*.json"))) == 1
        assert (copy / "templates/papers" / f"{name}.qmd.j2").exists()
        assert json.loads((copy / f"data/reported/{name}.json").read_text())["study"] == name


def test_the_small_study_can_be_computed() -> None:
    from benchmarks.small_study import findings
    from report.evidence.devices import Devices
    from report.evidence.reported import Reported
    from report.paper.findings import Inputs
    from report.records.store import Stored

    record = synthetic.sized(synthetic.pattern(), 4, 0)
    reported = Reported(study="small", source="x", device="x", software="x", tables=(), values=())
    stored = Stored(record, "small/x.json", True)
    found = findings(Inputs((stored,), reported, "reported/small.json", Devices(())))
    assert len(found.tables["tbl-times"].rows) == 4
    assert found.values["total"].number == pytest.approx(
        sum(case.samples("time")[0] for case in record.cases)
    )
