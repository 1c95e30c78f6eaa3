"""Render a paper's findings and template to a manuscript (``.qmd``), the source of all formats."""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import call
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, TypeAlias

import jinja2

from figures.characters import escape_invisible
from report.core.errors import TemplateError
from report.core.records.coverage import CoveredCase
from report.core.records.files import read_file
from report.core.records.strict import SyntaxFaultError, byte_at, parse_yaml
from report.core.text.escape import markdown
from report.paper.findings import Findings
from report.paper.prose import MARK_PATTERN, Fault, faults, line_of, marked_text, read_printed
from report.paper.templating import ANCHOR, Page, PrintedNumber, for_template, paper_environment
from report.paper.values import Value

#: Calls a function, now or in another thread.
Starter: TypeAlias = Callable[[Callable[[], None]], object]

#: Folder of texts that every paper needs: ``opening.qmd.j2`` names edited records and records
#: chosen by --use, ``ending.qmd.j2`` credits imported records.
_SHARED: Final = Path(__file__).resolve().parents[2] / "templates" / "shared"
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
#: Largest number of characters of a formula in the list of provenance.
_LONGEST_FORMULA: Final = 200
#: A tag or comment of a template, with the end of its line.
_TAG: Final = re.compile(r"\{%.*?%\}\n?|\{#.*?#\}\n?", re.DOTALL)


@dataclass(frozen=True)
class Manuscript:
    """A rendered template: its text, and the findings with captions from the template.

    ``unsupported`` has a warning for each sentence that the data no longer support.
    """

    text: str
    findings: Findings
    unsupported: tuple[str, ...]


def render_manuscript(
    template: Path,
    findings: Findings,
    origin: Mapping[str, Any] = MappingProxyType({}),
    measured: Sequence[CoveredCase] | None = None,
    start: Starter = call,
) -> Manuscript:
    """Render ``template`` with the findings of its study to Quarto markdown.

    The template can use ``v`` (values), ``facts``, ``claims``, the ids of ``tables`` and
    ``figures``, the table ``provenance`` of all values, and the tags of ``templating``.  ``origin``
    describes the records: ``altered`` are edited records (file, reason), ``asked`` are files that
    the user chose by --use, ``imported`` are attributions, and ``byline`` is the subtitle.
    ``measured`` lists the cases of own records; None for data other than the project's.  ``start``
    calls the check of the prose, at once by default; it may let another thread do so.

    Raises ``TemplateError`` with the template's line, such as for an unknown name, a syntax error,
    a number that is typed into the prose, or a number of the abstract that no main claim decides.
    """
    source = _read(template)
    shared = for_template({"altered": (), "asked": (), "imported": (), **origin})
    parts = dict(findings.tables), dict(findings.figures), dict(findings.claims)
    page = Page(_place(template), *parts, measured)
    environment = paper_environment(page, template.parent, _SHARED)
    try:
        text = environment.get_template(template.name).render(
            # A namespace, because a value's id may be a method's name of dictionaries, such as
            # copy.
            v=SimpleNamespace(**{id: PrintedNumber(v) for id, v in findings.values.items()}),
            tables=for_template([*findings.tables]),
            figures=for_template([*findings.figures]),
            claims=for_template({id: claim.as_json() for id, claim in findings.claims.items()}),
            facts=for_template(findings.facts),
            provenance=for_template(provenance(findings.values.values(), origin.get("asked", ()))),
        )
        is_empty = not findings.facts.get("measured", True)
        opening = environment.get_template("opening.qmd.j2").render(shared, empty=is_empty)
        ending = environment.get_template("ending.qmd.j2").render(shared)
    except Exception as error:  # Code in a template can raise any error.
        raise _template_error(template, error) from error
    match = _FRONT_MATTER.match(text)
    front = match[0] if match else ""
    body = opening + text.removeprefix(front) + ending
    if front and "byline" in origin:
        front = front.removesuffix("---\n") + f"subtitle: {origin['byline']}\n---\n"
    front = ANCHOR.sub("", front)
    start(partial(_check_prose, front, body, page, source))
    _check_abstract(front, page)
    captioned = replace(findings, tables=page.tables, figures=page.figures, claims=page.claims)
    text = escape_invisible(page.resolve_marks(front + page.with_first_anchors(body)))
    return Manuscript(text, captioned, tuple(page.unsupported))


@contextmanager
def meanwhile() -> Iterator[Starter]:
    """Provide a function that starts another function in a thread, for ``render_manuscript``.

    The end of the context waits for that function.  Its error replaces an error of the context.
    """
    with ThreadPoolExecutor(1) as thread:
        started: list[Future[None]] = []
        try:
            yield lambda function: started.append(thread.submit(function))
        finally:
            for future in started:
                future.result()


def _place(template: Path) -> str:
    """Return the path of a template as messages print it."""
    return f"templates/{'shared' if template.parent == _SHARED else 'papers'}/{template.name}"


def _read(template: Path) -> str:
    """Read a template; raise ``TemplateError`` if it is not UTF-8 or has private characters."""
    place = _place(template)
    content = read_file(template, place, "restore it with git, or write the study's paper there")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(f"{place}: found {byte_at(error)}; save the file as UTF-8.") from error
    if mark := MARK_PATTERN.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        raise TemplateError(f"{place}:{line}: found a private character; remove it.")
    return text


def front_of(template: Path) -> Mapping[str, Any]:
    """Read a template's front matter without rendering it, so that texts keep their expressions.

    Raises ``TemplateError`` if the template cannot be read.
    """
    match = _FRONT_MATTER.match(_TAG.sub("", _read(template)))
    return _fields(match[0]) if match else {}


def _fields(front: str) -> Mapping[str, Any]:
    """Parse front matter; return {} if it is faulty, which ``read_source`` reports."""
    try:
        fields, _ = parse_yaml(front.removeprefix("---\n").removesuffix("---\n"))
    except SyntaxFaultError:
        return {}
    return fields if isinstance(fields, Mapping) else {}


def _check_prose(front: str, body: str, page: Page, source: str) -> None:
    """Raise ``TemplateError`` if a number is typed, or if text around a number changes it."""
    texts = [body, *page.outside_body]
    names, printed = read_printed(front, texts, page.template)
    try:
        problems = [*faults([front, *texts], printed, names, page.marked_texts)]
    except ValueError as error:
        line = line_of(Fault("", "names", str(error)), source, ())
        raise TemplateError(
            f"{page.template}:{line}: the name {error} could be a result; names are such as "
            "float32, ResNet-20, 8-bit, 3 × 3 or RTX 3090."
        ) from error
    if problems:
        fault = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        remedy = "print a value, put it into `code`, or declare a name under names: at the top"
        why = f"{fault.why}{more}; {remedy}" if fault.number else fault.why
        raise TemplateError(f"{page.template}:{line_of(fault, source, page.typed_texts)}: {why}.")


def _check_abstract(front_matter: str, page: Page) -> None:
    """Raise ``TemplateError`` for a number of the abstract that no main claim decides.

    Main claims are listed under ``headline:`` in the front matter.  Without such a list, the
    abstract may print any value.
    """
    front = _fields(front_matter)
    headline = [id for id in front.get("headline") or () if id in page.claims]
    decided = {value_id for id in headline for value_id in page.claims[id].numbers}
    for char in MARK_PATTERN.findall(str(front.get("abstract"))):
        mark = marked_text(char, page.marked_texts)
        if headline and mark.value_id and mark.value_id not in decided:
            raise TemplateError(
                f"{page.template}:{mark.line}: the abstract prints {mark.value_id}, which no claim "
                "of headline: decides; add it to the numbers of such a claim, or drop it."
            )


def _template_error(template: Path, error: Exception) -> TemplateError:
    """Describe an error with the template's line, which Jinja keeps in the traceback."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        line: int | None = error.lineno
    else:
        innermost_first = reversed(traceback.extract_tb(error.__traceback__))
        line = next((f.lineno for f in innermost_first if Path(f.filename) == template), None)
    why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if isinstance(error, RecursionError | SyntaxError):
        why = "a macro or an included file calls itself without end, or tags are nested too deeply"
    place = _place(template) + (f":{line}" if line else "")
    return TemplateError(f"{place}: {why}; fix the template or the study's findings.")


def provenance(values: Iterable[Value], asked: Collection[str] = ()) -> str:
    """List all values in a Markdown table; the values in the prose link to its lines.

    Files of ``asked``, which the user chose by --use, are marked.  Long formulas are cut; the
    dialog of a number on the page, and the file of values, show the whole formula.
    """
    lines = [
        "| Number | Value | Formula | Samples | From |",
        "| :--- | ---: | :--- | ---: | :--- |",
    ]
    for value in values:
        content = value.as_json()
        reason, count = content["reason"], content["n"]
        files = (f"{file} (chosen by --use)" if file in asked else file for file in value.sources)
        ending = " … (whole in values.json)"
        formula = textwrap.shorten(value.formula, _LONGEST_FORMULA, placeholder=ending)
        source = ", ".join(files) or ("none" if reason else "theory")
        cells = map(markdown, (reason or value.plain, formula, str(count or ""), source))
        lines.append(f"| [{markdown(value.name)}]{{#{value.anchor}}} | {' | '.join(cells)} |")
    return "\n".join(lines)
