"""From ``results.json`` to ``README.md``; no number is typed, and the template computes none."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import jinja2

from benchmarks import scale
from benchmarks.engines import ORDER
from benchmarks.goals import Goal, goals
from benchmarks.results import (
    Builds,
    Checks,
    EngineTask,
    Environment,
    Filtering,
    Point,
    Results,
    Scale,
    Timed,
    Tool,
)
from benchmarks.scenarios import TITLES, Scenario
from benchmarks.summary import (
    find_timed,
    last_slope,
    median_peak,
    median_wall,
    net_peak,
    points_of,
    slope,
)

_TEMPLATE: Final = "README.md.j2"
_NONE: Final = "–"


def render(results: Results) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    builds, grown = results.builds, results.scale
    return environment.get_template(_TEMPLATE).render(
        goals=goals_table(goals(results)),
        builds=builds and builds_page(builds),
        scale=grown and scale_page(grown),
        filtering=results.filtering and filtering_page(results.filtering),
        checks=results.checks and checks_page(results.checks),
    )


def builds_page(builds: Builds) -> dict[str, str]:
    """The pieces of the part ``builds``."""
    return {
        "environment": environment_text(builds.environment),
        "versions": versions_text(builds.environment),
        "tools": tools_table(builds.tools),
        "times": times_table(builds),
        "faults": faults_list(builds),
        "engines": engines_table(builds.engine_tasks),
        "computing": computing_table(builds),
    }


def scale_page(grown: Scale) -> dict[str, str]:
    """The pieces of the part ``scale``."""
    tables = (axis_table(axis, points_of(grown.points, axis)) for axis in scale.AXES)
    return {
        "environment": environment_text(grown.environment),
        "versions": versions_text(grown.environment),
        "axes": "\n\n".join(table for table in tables if table),
    }


def filtering_page(filtering: Filtering) -> dict[str, str]:
    """The pieces of the part ``filter``."""
    headings = ("Paper", "With the filter (s)", "Without (s)", "Samples of each")
    rows = (
        (
            f"`{p.study}`",
            f"{statistics.median(p.with_filter):.3f}",
            f"{statistics.median(p.without):.3f}",
            f"{len(p.without)}",
        )
        for p in filtering.papers
    )
    return {
        "environment": environment_text(filtering.environment),
        "papers": table(headings, rows, numbers=3),
    }


def checks_page(checks: Checks) -> dict[str, str]:
    """The pieces of the part ``checks``."""
    return {
        "environment": environment_text(checks.environment),
        "text": f"To install the environment took {checks.install.wall_s:.0f} s, `.ci/run` "
        f"{checks.check.wall_s:.0f} s ({checks.check.cpu_s:.0f} s of processor time); "
        f"{checks.passed:,} tests passed. One run each.",
    }


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A pipe table; the last ``numbers`` columns are flush right."""
    texts = len(headings) - numbers
    rule = ["---"] * texts + ["---:"] * numbers
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))


def goals_table(found: Sequence[Goal]) -> str:
    """Every goal with both medians, the ratio, the bound and the verdict."""
    headings = ("Figure to reach", "Medians", "Ratio", "Goal", "Verdict")
    return table(headings, (_goal_row(goal) for goal in found))


def _goal_row(goal: Goal) -> tuple[str, ...]:
    ratio = "not measured" if goal.ratio is None else f"{goal.ratio:.2f}"
    medians = f"{goal.measured}; {goal.base}"
    return (goal.sentence, medians, ratio, f"{goal.kind} {goal.bound:g}", _verdict(goal))


def _verdict(goal: Goal) -> str:
    if goal.met is None:
        return "not measured"
    if goal.met:
        return "met"
    return f"**missed**: {goal.reason}" if goal.reason else "**missed**"


def tools_table(tools: Sequence[Tool]) -> str:
    """Who took part, what each makes and what it remembers."""
    headings = ("Tool", "Makes", "What it remembers", "")
    rows = ((t.title, t.makes, t.caching, f"not here: {t.missing}" if t.missing else "")
            for t in tools)  # fmt: skip
    return table(headings, rows)


def times_table(builds: Builds) -> str:
    """Medians in seconds; a mark behind each says whether the outputs were right."""
    present = [tool for tool in builds.tools if tool.missing is None]
    headings = ("Tool", "Makes", *(TITLES[scenario] for scenario in Scenario))
    rows = ((t.title, t.makes, *(_time_cell(find_timed(builds, t.name, s)) for s in Scenario))
            for t in present)  # fmt: skip
    return table(headings, rows, numbers=len(Scenario))


def _time_cell(timed: Timed | None) -> str:
    if timed is None:
        return _NONE
    mark = "✗" if timed.faults else "✓"
    return f"{median_wall(timed.samples):.3f} s ({len(timed.samples)}) {mark}"


def faults_list(builds: Builds) -> str:
    """Why a mark is ✗, a line for each tool and scenario."""
    titles = {tool.name: f"{tool.title} ({tool.makes})" for tool in builds.tools}
    lines = [
        f"- {titles[timed.tool]}, {TITLES[Scenario(timed.scenario)]}: {'; '.join(timed.faults)}."
        for timed in builds.timed
        if timed.faults
    ]
    return "\n".join(lines) or "All outputs of all tools were right."


def engines_table(tasks: Sequence[EngineTask]) -> str:
    """What kinds of calls take in a cold build, summed over the papers."""
    headings = ("Engine route", "Call", "Calls", "Seconds together", "Seconds each")
    rows = [
        _engine_row(engine, kind, found)
        for engine in ("typst", "latex")
        for kind in ORDER
        if (found := [t for t in tasks if _is(t, engine, kind)])
    ]
    return table(headings, rows, numbers=3)


def _is(task: EngineTask, engine: str, kind: str) -> bool:
    return (task.engine, task.scenario, task.kind) == (engine, Scenario.COLD.value, kind)


def _engine_row(engine: str, kind: str, tasks: Sequence[EngineTask]) -> tuple[str, ...]:
    medians = [statistics.median(task.seconds) for task in tasks]
    each = statistics.median(medians)
    return (engine, kind, f"{len(tasks)}", f"{sum(medians):.2f}", f"{each:.3f}")


def computing_table(builds: Builds) -> str:
    """What each study takes before anything is drawn."""
    rows = ((f"`{c.study}`", f"{statistics.median(c.seconds):.3f}") for c in builds.computing)
    return table(("Study", "Seconds on one core"), rows, numbers=1)


def axis_table(axis: str, points: Sequence[Point]) -> str:
    """One axis: time and memory for each size, and below it the exponents of their growth."""
    if not points:
        return ""
    headings = ("Size", "Time (s)", "Peak memory (MB)", "Above idle (MB)", "Input (MB)", "Samples")
    body = table(headings, map(_point_row, points), numbers=len(headings))
    title = scale.AXES[axis]
    return f"**{title[0].upper()}{title[1:]}.** {_growth(points)}\n\n{body}"


def _point_row(point: Point) -> tuple[str, ...]:
    return (
        f"{point.size:,}",
        f"{median_wall(point.samples):.3f}",
        f"{median_peak(point.samples) / 1e6:.0f}",
        _megabytes(net_peak(point)),
        _megabytes(point.input_bytes),
        f"{len(point.samples)}",
    )


def _megabytes(size: float | None) -> str:
    return _NONE if size is None else f"{size / 1e6:.1f}"


def _growth(points: Sequence[Point]) -> str:
    sizes = [float(point.size) for point in points]
    times = [median_wall(point.samples) for point in points]
    peaks = [median_peak(point.samples) for point in points]
    texts = (_exponent(slope(sizes, times)), _exponent(last_slope(sizes, times)))
    return (
        f"Exponent of time over size: {texts[0]} fitted over all sizes, {texts[1]} between the "
        f"two largest; of peak memory: {_exponent(slope(sizes, peaks))} and "
        f"{_exponent(last_slope(sizes, peaks))}."
    )


def _exponent(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def environment_text(where: Environment) -> str:
    """The machine and the moment in a sentence."""
    commit = where.commit[:10] if where.commit else "unknown"
    changed = "" if where.tree_clean else ", with changes that are not committed"
    return (
        f"{where.processor}, {where.cores} cores, {where.memory_bytes / 2**30:.0f} GiB, "
        f"{where.operating_system}, Python {where.python}; commit {commit}{changed}; "
        f"from {where.started} to {where.finished}; load average {where.load_before:.2f} before "
        f"and {where.load_after:.2f} after."
    )


def versions_text(where: Environment) -> str:
    """Names and versions, separated by commas."""
    return ", ".join(f"{name} {version}" for name, version in where.versions.items())
