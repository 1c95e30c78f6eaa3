"""The figures to reach, each a ratio of medians of one run, and why one is missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from benchmarks.peers.work import DOCUMENTS, FIGURES
from benchmarks.project import EDITED_STUDY
from benchmarks.results import Builds, Checks, EngineTask, Filtering, Point, Results, Scale
from benchmarks.scenarios import TITLES, Scenario
from benchmarks.summary import (
    find_timed,
    last_slope,
    median_peak,
    median_wall,
    net_peak,
    points_of,
    slope,
    wall_of,
)

COMPARED_CASES: Final = 100_000
#: What a build and a reading may take: bytes at the peak, and seconds and bytes at these sizes.
_BUILD_PEAK: Final = 300e6
_MANY_STUDIES, _MANY_STUDIES_S = 500, 60.0
_FIGURE_S, _FILTER_S, _CHECKS_S = 0.1, 0.15, 600.0
_MANY_CASES, _MANY_CASES_S, _MANY_CASES_PEAK = 1_000_000, 5.0, 1.5e9
_PEER_FIGURES: Final = len(DOCUMENTS) * len(FIGURES)


@dataclass(frozen=True)
class Goal:
    """A ratio with its bound; ``measured`` and ``base`` say in words what was divided by what."""

    sentence: str
    measured: str
    base: str
    ratio: float | None
    bound: float
    kind: Literal["at most", "at least"]
    reason: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bound holds; None where it was not measured."""
        if self.ratio is None:
            return None
        return self.ratio <= self.bound if self.kind == "at most" else self.ratio >= self.bound


def goals(results: Results) -> tuple[Goal, ...]:
    """All goals in the order in which they were set."""
    builds = list(_build_goals(results.builds)) if results.builds else []
    return (
        *builds,
        *(_filter_goals(results.filtering) if results.filtering else ()),
        *(_scale_goals(results.scale) if results.scale else ()),
        *(_check_goals(results.checks) if results.checks else ()),
    )


@dataclass(frozen=True)
class _Pair:
    """Which two medians make a ratio: (tool, scenario) over (tool, scenario)."""

    sentence: str
    above: tuple[str, Scenario]
    below: tuple[str, Scenario]
    bound: float
    kind: Literal["at most", "at least"]
    reason: Callable[[Builds], str]


def _why_peer(builds: Builds) -> str:
    """The papers are larger documents, in two formats."""
    cold = [t for t in builds.engine_tasks if (t.engine, t.scenario) == ("typst", "cold")]
    figures = sum(task.kind == "figure" for task in cold)
    bare = _wall(builds, "engines_typst", Scenario.COLD)
    return (
        f"the papers have {figures} figures, and the engines and matplotlib alone take "
        f"{bare:.2f} s for their two formats; the peer draws {_PEER_FIGURES} small figures and "
        "makes one format"
    )


def _why_style(builds: Builds) -> str:
    own, bare = (
        _wall(builds, tool, Scenario.STYLE) for tool in ("ridgepoint_latex", "engines_latex")
    )
    return (
        f"{own - bare:.2f} s go beyond latexmk: on starting the workers, writing the LaTeX sources "
        "anew, and checking and placing what comes out"
    )


def _why_noop(builds: Builds) -> str:
    bare, own = (_wall(builds, t, Scenario.NOOP) for t in ("python", "ridgepoint_typst"))
    return (
        f"{own - bare:.3f} s go beyond starting the interpreter: on importing the command, reading "
        "the manifest, and asking the file system for every input and output"
    )


def _why_engines(engine: str, scenario: Scenario) -> Callable[[Builds], str]:
    def why(builds: Builds) -> str:
        own = _wall(builds, f"ridgepoint_{engine}", scenario)
        bare = _wall(builds, f"engines_{engine}", scenario)
        order = (
            "pandoc begins when the figures are drawn and the PDF when pandoc has ended, while the "
            "engines alone run side by side"
            if scenario is Scenario.RECORD
            else "every worker has to be started and to import what it needs"
        )
        computing = _computing(builds, scenario)
        return f"{own - bare:.2f} s go beyond the engines; {computing}, and {order}"

    return why


def _computing(builds: Builds, scenario: Scenario) -> str:
    """What the studies take to be computed, which engines alone need not do."""
    one = scenario is Scenario.RECORD
    taken = [c for c in builds.computing if not one or c.study == EDITED_STUDY]
    seconds = sum(sum(c.seconds) / len(c.seconds) for c in taken)
    subject = "reading and computing the study" if one else "reading and computing all studies"
    return f"{subject} takes {seconds:.2f} s on one core before anything can be drawn"


def _wall(builds: Builds, tool: str, scenario: Scenario) -> float:
    return wall_of(builds, tool, scenario) or 0.0


_NOOP, _COLD, _RECORD, _STYLE = Scenario.NOOP, Scenario.COLD, Scenario.RECORD, Scenario.STYLE
_OWN, _LATEX = "ridgepoint_typst", "ridgepoint_latex"
#: The goals of the part ``builds``.
PAIRS: Final = (
    _Pair("Nothing to do, against a bare interpreter",
          (_OWN, _NOOP), ("python", _NOOP), 2.5, "at most", _why_noop),
    _Pair("Nothing to do: how much longer mystmd takes",
          ("mystmd", _NOOP), (_OWN, _NOOP), 15.0, "at least", _why_noop),
    _Pair("Nothing to do: how much longer Sphinx + MyST-NB takes",
          ("sphinx_myst_nb", _NOOP), (_OWN, _NOOP), 15.0, "at least", _why_noop),
    _Pair("One record changed, against the engines alone (Typst)",
          (_OWN, _RECORD), ("engines_typst", _RECORD), 1.3, "at most",
          _why_engines("typst", _RECORD)),
    _Pair("One record changed, against the engines alone (LaTeX)",
          (_LATEX, _RECORD), ("engines_latex", _RECORD), 1.3, "at most",
          _why_engines("latex", _RECORD)),
    _Pair("Cold, against engines and matplotlib over the cores (Typst)",
          (_OWN, _COLD), ("engines_typst", _COLD), 1.15, "at most", _why_engines("typst", _COLD)),
    _Pair("Cold: how much longer Quarto takes for the HTML of the same papers, figures ready",
          ("quarto", _COLD), (_OWN, _COLD), 1.0, "at least", _why_engines("typst", _COLD)),
    _Pair("Cold: how much longer mystmd takes for one format",
          ("mystmd", _COLD), (_OWN, _COLD), 1.0, "at least", _why_peer),
    _Pair("Cold: how much longer Sphinx + MyST-NB takes for one format",
          ("sphinx_myst_nb", _COLD), (_OWN, _COLD), 1.0, "at least", _why_peer),
    _Pair("All PDFs anew by LaTeX, against bare latexmk over the cores",
          (_LATEX, _STYLE), ("engines_latex", _STYLE), 1.15, "at most",
          _why_style),
    _Pair("Cold by the LaTeX route, against its engines and matplotlib over the cores",
          (_LATEX, _COLD), ("engines_latex", _COLD), 1.15, "at most", _why_engines("latex", _COLD)),
)  # fmt: skip


def _build_goals(builds: Builds) -> Iterator[Goal]:
    titles = {tool.name: tool.title for tool in builds.tools}
    for pair in PAIRS:
        above, below = (wall_of(builds, *key) for key in (pair.above, pair.below))
        known = above is not None and below is not None
        yield Goal(
            sentence=pair.sentence,
            measured=_words(titles, pair.above, above),
            base=_words(titles, pair.below, below),
            ratio=above / below if above is not None and below is not None else None,
            bound=pair.bound,
            kind=pair.kind,
            reason=pair.reason(builds) if known else "",
        )
    cold = find_timed(builds, _OWN, _COLD)
    if cold:
        peak = median_peak(cold.samples)
        why = "Typst keeps all that it has computed of a paper until it has written the PDF"
        yield _limit("Peak memory of a cold build, its largest process", peak, _BUILD_PEAK, why)
    yield from _part_goals([t for t in builds.engine_tasks if _is_cold_typst(t)])


def _is_cold_typst(task: EngineTask) -> bool:
    return (task.engine, task.scenario) == ("typst", _COLD.value)


def _part_goals(tasks: Sequence[EngineTask]) -> Iterator[Goal]:
    """What a figure takes, and how often pandoc is started for a paper."""
    figures = [median(task.seconds) for task in tasks if task.kind == "figure"]
    if figures:
        why = (
            "matplotlib places every text and draws the figure twice, as SVG and as PDF, for which "
            "it cuts the fonts to the glyphs that are used"
        )
        yield _limit("One figure, in the median", median(figures), _FIGURE_S, why, time=True)
    calls = [task for task in tasks if task.kind.startswith("pandoc")]
    papers = {task.name for task in calls}
    if papers:
        yield Goal(
            sentence="Processes of pandoc for a paper",
            measured=f"{len(calls)} calls",
            base=f"{len(papers)} papers",
            ratio=len(calls) / len(papers),
            bound=1.0,
            kind="at most",
            reason="each format is written by a process of its own, which parses anew",
        )


def _filter_goals(filtering: Filtering) -> Iterator[Goal]:
    added = [median(p.with_filter) - median(p.without) for p in filtering.papers]
    why = "it visits every element of a paper, and resolves its numbers, references and tables"
    sentence = "What the Lua filter adds to a page's call of pandoc, in the median of the papers"
    yield _limit(sentence, median(added), _FILTER_S, why, time=True)


def _check_goals(checks: Checks) -> Iterator[Goal]:
    found = checks.check.wall_s
    why = (
        f"{checks.passed:,} tests and both linters take {checks.check.cpu_s / 60:.0f} minutes of "
        f"processor time on {checks.environment.cores} cores"
    )
    yield _limit("`.ci/run` in a fresh clone, packages installed", found, _CHECKS_S, why, time=True)


def _limit(sentence: str, found: float, allowed: float, reason: str, *, time: bool = False) -> Goal:
    """A goal that is no ratio of two measurements: bytes, or with ``time`` seconds."""
    said, bound = (f"{n:.2f} s" if time else f"{n / 1e6:.0f} MB" for n in (found, allowed))
    return Goal(sentence, said, f"allowed: {bound}", found / allowed, 1.0, "at most", reason)


def _words(titles: dict[str, str], key: tuple[str, Scenario], seconds: float | None) -> str:
    tool, scenario = key
    took = "not measured" if seconds is None else f"{seconds:.3f} s"
    return f"{titles.get(tool, tool)}, {TITLES[scenario]}: {took}"


def _scale_goals(scale: Scale) -> Iterator[Goal]:
    cases = points_of(scale.points, "cases_read")
    own = _compared(cases)
    for axis, words in _PANDAS.items():
        other = _compared(points_of(scale.points, axis))
        if own and other:
            yield _against_pandas(own, other, words)
    if own and own.input_bytes:
        yield _memory(own, own.input_bytes)
    if len(cases) > 1:
        yield _linear(cases)
    yield from _scale_limits(scale)


def _scale_limits(scale: Scale) -> Iterator[Goal]:
    """The goals for the largest sizes, where they were measured."""
    for point in points_of(scale.points, "cases_read"):
        if point.size == _MANY_CASES:
            read, why = f"Reading {point.size:,} cases", "every value is checked and kept"
            wall, peak = median_wall(point.samples), median_peak(point.samples)
            yield _limit(f"{read}, time", wall, _MANY_CASES_S, why, time=True)
            yield _limit(f"{read}, peak memory", peak, _MANY_CASES_PEAK, why)
    for point in points_of(scale.points, "studies_cold"):
        if point.size == _MANY_STUDIES:
            wall = median_wall(point.samples)
            why = "each is computed, drawn and converted by itself, and starts pandoc once"
            yield _limit(f"{point.size} small studies, all pages built from nothing", wall,
                         _MANY_STUDIES_S, why, time=True)  # fmt: skip


#: Two ways in which the function is used.
_PANDAS: Final = {
    "cases_pandas": "a row a case with all it holds",
    "cases_series": "a row a series with few fields",
}


def _compared(points: tuple[Point, ...]) -> Point | None:
    return next((point for point in points if point.size == COMPARED_CASES), None)


def _against_pandas(own: Point, other: Point, words: str) -> Goal:
    one, two = median_wall(own.samples), median_wall(other.samples)
    return Goal(
        sentence=f"Reading {COMPARED_CASES:,} cases: how much longer pandas.json_normalize takes, "
        f"{words}",
        measured=f"pandas.json_normalize: {two:.2f} s",
        base=f"report.records.store.read_study: {one:.2f} s",
        ratio=two / one,
        bound=5.0,
        kind="at least",
        reason="reading keeps every field and checks every value, which pandas does not",
    )


def _memory(own: Point, written: int) -> Goal:
    held = net_peak(own) or median_peak(own.samples)
    return Goal(
        sentence=f"Memory for reading {COMPARED_CASES:,} cases, against the JSON",
        measured=f"peak above an idle process: {held / 1e6:.0f} MB",
        base=f"JSON: {written / 1e6:.0f} MB",
        ratio=held / written,
        bound=3.0,
        kind="at most",
        reason="a checked record is an object for each layer, series and case",
    )


def _linear(cases: tuple[Point, ...]) -> Goal:
    sizes = [float(point.size) for point in cases]
    times = [median_wall(point.samples) for point in cases]
    last = last_slope(sizes, times)
    exponent = "unknown" if last is None else f"{last:.2f}"
    ends = f"{sizes[0]:,.0f} to {sizes[-1]:,.0f} cases"
    return Goal(
        sentence="Time over cases: the exponent fitted over all sizes (1 is linear)",
        measured=f"{ends}: {times[0]:.3f} s to {times[-1]:.2f} s",
        base=f"between the two largest the exponent is {exponent}",
        ratio=slope(sizes, times),
        bound=1.1,
        kind="at most",
        reason="memory has to be found for more objects",
    )
