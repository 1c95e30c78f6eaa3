"""From findings and prose to the ``.qmd``, the one document that every format is made from."""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import jinja2

from figures.characters import visible
from report.errors import TemplateError
from report.paper.findings import Findings
from report.paper.prose import typed_results
from report.paper.templating import Page, paper_environment
from report.paper.values import Value
from report.records.files import read_file
from report.records.strict import byte_at
from report.text.escape import markdown

#: What every paper says at its beginning of records that are not what their names say and of those
#: that were asked for in this build alone, and at its end of those that others measured; no author
#: can forget it.
_SHARED: Final = Path(__file__).resolve().parents[2] / "templates" / "shared"
_OPENING: Final = "opening.qmd.j2"
_ENDING: Final = "ending.qmd.j2"
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


@dataclass(frozen=True)
class Manuscript:
    """A rendered template: its text, the findings with their captions, and what does not hold.

    ``unsupported`` has a sentence for each of the template's that its claim does not support.
    """

    text: str
    findings: Findings
    unsupported: tuple[str, ...]


def render_manuscript(
    template: Path,
    findings: Findings,
    origin: Mapping[str, Any] = MappingProxyType({}),
) -> Manuscript:
    """Render ``template`` with the findings of its study to Quarto markdown.

    The template sees ``v`` (values), ``facts``, ``claims``, and the names of ``tables`` and
    ``figures``, and has the tags of ``templating``.  ``origin`` is what the paper says of its data,
    as ``Chosen`` has it: the text begins with the records that were ``altered`` (file, what way)
    or ``asked`` for, and ends with the attributions of those ``imported``.
    Raises ``TemplateError`` with the template's line for an unknown name, a syntax error, or a
    number that is typed into the prose.
    """
    _check_text(template)
    said = {"altered": (), "asked": (), "imported": (), **origin}
    page = Page(_place(template), {**findings.tables}, {**findings.figures}, {**findings.claims})
    environment = paper_environment(page, template.parent, _SHARED)
    try:
        text = environment.get_template(template.name).render(
            # A namespace, because a dictionary has names of its own, such as copy.
            v=SimpleNamespace(**findings.values),
            tables=[*findings.tables],
            figures=[*findings.figures],
            claims=findings.claims,
            facts=findings.facts,
            provenance=provenance(findings.values.values(), said["asked"]),
        )
        empty = not findings.facts.get("measured", True)
        opening = environment.get_template(_OPENING).render(said, empty=empty)
        ending = environment.get_template(_ENDING).render(said)
    except Exception as error:
        # A template is a program, which can fail in every way.
        raise _refusal(template, error) from error
    front = _FRONT_MATTER.match(text)
    end = front.end() if front and opening else 0
    text = visible(f"{text[:end]}{opening}{text[end:]}{ending}")
    captioned = replace(findings, tables=page.tables, figures=page.figures, claims=page.claims)
    return Manuscript(text, captioned, tuple(page.unsupported))


def _place(template: Path) -> str:
    return f"templates/papers/{template.name}"


def _check_text(template: Path) -> None:
    """Refuse a template that is no text, or has a number that is typed into its prose."""
    place = _place(template)
    content = read_file(template, place, "restore it with git, or write the study's paper there")
    try:
        typed = typed_results(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise TemplateError(f"{place}: found {byte_at(error)}; save the file as UTF-8.") from error
    if typed:
        (line, number), *others = typed
        more = f" (and {len(others)} more)" if others else ""
        raise TemplateError(
            f"{place}:{line}: the number {number} is typed into the prose{more}; print a computed "
            "value instead, or put a name into `code`."
        )


def _refusal(template: Path, error: Exception) -> TemplateError:
    """Says in which line of the template, which Jinja leaves in the traceback, and what."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        line: int | None = error.lineno
    else:
        frames = reversed(traceback.extract_tb(error.__traceback__))
        line = next((f.lineno for f in frames if Path(f.filename) == template), None)
    what = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if isinstance(error, RecursionError):
        what = "a macro or an included file calls itself without end"
    place = _place(template) + (f":{line}" if line else "")
    return TemplateError(f"{place}: {what}; fix the template or the study's findings.")


_MARK: Final = "chosen by --use"
#: Characters of a formula that a line of the list has room for.
_FORMULA: Final = 200


def provenance(values: Iterable[Value], asked: Collection[str] = ()) -> str:
    """A pipe table with a line for every value of the prose: the target of its links.

    Files that the user ``asked`` for in this build are marked.  A formula that would fill a page
    is cut; what opens over its number has it, as the file of values does.
    """
    lines = [
        "| Number | Value | Formula | Samples | From |",
        "| :--- | ---: | :--- | ---: | :--- |",
    ]
    for value in values:
        reason, n = (value.as_json()[key] for key in ("reason", "n"))
        files = (f"{file} ({_MARK})" if file in asked else file for file in value.sources)
        formula = textwrap.shorten(value.formula, _FORMULA, placeholder=" … (whole in values.json)")
        source = ", ".join(files) or ("none" if reason else "theory")
        cells = map(markdown, (reason or value.plain, formula, str(n or ""), source))
        lines.append(f"| [{markdown(value.name)}]{{#{value.anchor}}} | {' | '.join(cells)} |")
    return "\n".join(lines)
