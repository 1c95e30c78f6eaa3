"""Write a page and a report about compared functions: ``python build.py --comparison RECORD``."""

from argparse import Namespace
from pathlib import Path

from report.commands.arguments import request_of
from report.commands.console import announcer, say, short_path
from report.core.errors import RecordError
from report.core.records.store import Stored, read_attachments, read_record
from report.engine.place import only_build, put_folder
from report.instruments import case_operators
from report.instruments.comparison import (
    RECORD_NAME,
    disturbance_warning,
    explanations,
    groups,
    report_lines,
    verdicts,
)
from report.render.shell import read_settings, render_template, write_assets


def comparison(options: Namespace) -> int:
    """Write ``compare/index.html`` and ``compare/report.md`` below the output folder.

    Raises ``RecordError`` if the file is not the record of a comparison.
    """
    path: Path = options.comparison.resolve()
    stored: Stored = read_record(path, path.parents[1])
    if stored.record.study != RECORD_NAME:
        raise RecordError(
            f"{path.name}: is a record of {stored.record.study}; name one of {RECORD_NAME}."
        )
    files = read_attachments(stored, (case_operators.FILE_PATTERN,), path.parents[1])
    results = verdicts(stored.record)
    *candidates, self_comparison = results
    content = {
        "record": stored.record,
        "file": path.name,
        "itself": self_comparison,
        "groups": groups(stored.record),
        "wrong": [result for result in candidates if result.reason],
        "warning": disturbance_warning(results),
        "reasons": tuple(explanations(stored.record, files)),
    }
    request = request_of(options)
    page = render_template(
        "comparison.html.j2", read_settings(request.data), root="", scripts=(), **content
    )
    text = "".join(f"- {line}\n" for line in report_lines(stored.record, files))
    with only_build(request.out, announcer(quiet=True)) as stage:
        write_assets(stage / RECORD_NAME)
        (stage / RECORD_NAME / "index.html").write_text(page, "utf-8", newline="\n")
        report = f"# Functions beside {self_comparison.function}\n\n{text}"
        (stage / RECORD_NAME / "report.md").write_text(report, "utf-8", newline="\n")
        put_folder(RECORD_NAME, request.out, stage)
    say(f"Wrote {short_path(request.out / RECORD_NAME / 'index.html')} and report.md")
    return 0
