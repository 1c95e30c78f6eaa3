"""What ``build.py`` does: building, or what its options ask for instead.

Not in ``build.py`` itself, which Python would compile anew for every command.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from report.commands.arguments import PORT, instead, listed, parse, version
from report.commands.console import (
    announcer,
    clear_line,
    marked,
    print_summary,
    say,
    shown,
)
from report.engine.pipeline import (
    ROOT,
    Announce,
    Explain,
    Output,
    Request,
    build,
    look,
)
from report.errors import RidgepointError
from report.studies import STUDIES
from report.system.streams import check_output

OUTPUTS: tuple[Output, ...] = ("html", "pdf")


def request_of(options: argparse.Namespace) -> Request:
    """What the command line asks for; both usual formats when none is named.

    Raises ``RecordError`` for a record that is not there.
    """
    named = tuple(output for output in OUTPUTS if getattr(options, output))
    data = options.data.resolve()
    # A folder of one's own has records of some studies only.
    own = [s for s in STUDIES if (data / s).is_dir()] if data != ROOT / "data" else []
    studies = tuple(dict.fromkeys(options.study)) or tuple(own or STUDIES)
    return Request(
        studies=studies,
        outputs=named or OUTPUTS,
        out=options.out.resolve(),
        engine=options.engine,
        jobs=options.jobs,
        data=data,
        use=_named_records(options, studies),
        style=options.style,
    )


def _named_records(
    options: argparse.Namespace, studies: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The records that --use names, by study; raises ``RecordError``."""
    if not options.use:
        return {}
    from report.engine.use import named_records

    return named_records(options.use, studies, options.data.resolve(), Path.cwd())


def explainer(options: argparse.Namespace) -> Explain | None:
    """Prints each step that is run, and why, if that was asked."""
    if not options.explain:
        return None
    return lambda step, why: print(f"{step}: {why}")


def make(options: argparse.Namespace) -> int:
    """Build, and print what was made and what failed; returns the exit code."""
    request, start = request_of(options), time.monotonic()
    summary = build(request, _announcer(options), explainer(options))
    clear_line()
    for outcome in summary.failed:
        print(marked("error", sys.stderr), outcome.failure, file=sys.stderr)
        if options.debug:
            print(outcome.trace, end="", file=sys.stderr)
    if not options.quiet:
        print_summary(request, summary, time.monotonic() - start, explain=options.explain)
    return 1 if summary.failed else 0


def _announcer(options: argparse.Namespace) -> Announce:
    return (lambda words, share: None) if options.quiet else announcer()


def new(options: argparse.Namespace) -> int:
    """Write the files of a study, and say what to run next."""
    from report.commands.new import new_study, next_commands

    slug, title = options.new
    for path in new_study(slug, title):
        print(shown(path))
    print("\nNext:", *next_commands(slug), sep="\n  ")
    return 0


def tell(options: argparse.Namespace) -> int:
    """Print what a build would run, and why."""
    found = look(request_of(options))
    for step, why in found.stale.items():
        print(f"{step}: {why}")
    if not found.stale:
        print("Nothing to do.")
    return 0


def check(options: argparse.Namespace) -> int:
    """Print what is stale or not as expected; returns 1 if anything is."""
    from report.commands.check import faults

    found = faults(request_of(options))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


def accept(options: argparse.Namespace) -> int:
    """Make the records of --use the edition; write down today's verdicts and audits as expected."""
    from report.commands.check import accept_results
    from report.engine.use import accept_records

    request = request_of(options)
    for study, files in request.use.items():
        print(shown(accept_records(study, request.data, files)))
    print(shown(accept_results(request._replace(use={}))))
    return 0


def differ(options: argparse.Namespace) -> int:
    """Print what other data would make the papers say, and write the page that shows it."""
    from report.commands.difference import difference

    text, studies = difference(request_of(options), options.diff, _announcer(options))
    clear_line()
    print(text)
    if options.debug:
        traces = (side.trace for each in studies for side in each.refused.values())
        print("".join(traces), end="", file=sys.stderr)
    return int(any("new" in each.refused for each in studies))


def verify_twice(options: argparse.Namespace) -> int:
    """Build twice from nothing, and print whether the bytes are the same."""
    from report.commands.verify import verify

    found = verify(request_of(options), ROOT, _announcer(options))
    clear_line()
    print("\n".join(found.lines()))
    return 1 if found.differences else 0


def show(options: argparse.Namespace) -> int:
    """Serve the pages on this machine until Ctrl-C."""
    from report.commands.serve import serve

    serve(request_of(options).out, options.serve, say)
    return 0


def watch(options: argparse.Namespace) -> int:
    """Build now and whenever a file changes, and keep the pages in the browser up to date."""
    from report.commands.child import run_build
    from report.commands.serve import changes, watch_and_serve

    request = request_of(options)
    made_from = [ROOT / name for name in ("build.py", "report", "figures", "templates")]
    port = PORT if options.serve is None else options.serve

    def rebuild() -> str | None:
        return run_build(request, ROOT)  # a new process has today's code

    changed = changes(*made_from, request.data)
    watch_and_serve(request.out, port, rebuild, changed, say)
    return 0


def _printed(text: str) -> int:
    print(text)
    return 0


def command(options: argparse.Namespace) -> int:
    """Do what the options ask for; returns the exit code."""
    wanted = instead(options)
    return (_ACTIONS[wanted] if wanted else make)(options)


#: What each option does instead of a build.
_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "version": lambda options: _printed(version()),
    "list": lambda options: _printed("\n".join(listed())),
    "new": new,
    "dry-run": tell,
    "check": check,
    "accept": accept,
    "diff": differ,
    "verify": verify_twice,
    "watch": watch,
    "serve": show,
}

#: Options whose result is what is printed; a build has made its papers whoever reads of it.
_RESULTS = ("version", "list", "dry-run", "check", "diff", "verify")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    options = parse(arguments)
    try:
        code = command(options)
        if instead(options) in _RESULTS:
            check_output()
        return code
    except RidgepointError as error:
        if options.debug:
            raise
        print(marked("error", sys.stderr), error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says of a command that was interrupted
