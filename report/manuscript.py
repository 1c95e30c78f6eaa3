"""From findings and prose to the ``.qmd``, the one document that every format is made from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import jinja2

from figures.characters import visible
from report.errors import TemplateError
from report.escape import escape, markdown
from report.paper import Findings
from report.prose import check_prose
from report.tables import to_markdown
from report.values import Value


def write_manuscript(template: Path, findings: Findings) -> str:
    """Render ``template`` with the findings of its study to Quarto markdown.

    The template sees ``v`` (values), ``tables``, ``figures``, ``claims``, ``facts`` and
    ``downloads``.  Raises ``TemplateError`` with the template's line for an unknown name, a syntax
    error, or a number that is typed into the prose.
    """
    check_prose(template, _read(template))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Jinja's own {# would swallow the ids of headings, {#sec-method}.
        comment_start_string="{##",
        comment_end_string="##}",
    )
    environment.filters["md"] = markdown
    try:
        text = environment.get_template(template.name).render(
            # A namespace, because a dictionary has names of its own, such as copy.
            v=SimpleNamespace(**findings.values),
            tables={key: to_markdown(table) for key, table in findings.tables.items()},
            figures={key: figure.as_markdown() for key, figure in findings.figures.items()},
            claims=findings.claims,
            facts=findings.facts,
            downloads={key: item.as_markdown() for key, item in findings.downloads.items()},
            provenance=provenance(findings.values.values()),
        )
        return visible(text)
    except jinja2.TemplateSyntaxError as error:
        raise _refusal(template, error.lineno, error.message or "syntax error") from error
    except (jinja2.TemplateError, TypeError, ArithmeticError) as error:
        # A template that computes ends here too; numbers are computed in the study.
        raise _refusal(template, _line(error, template), str(error)) from error


def _read(template: Path) -> str:
    try:
        return template.read_text(encoding="utf-8")
    except OSError as error:
        raise TemplateError(
            f"templates/papers/{template.name}: cannot be read ({error.strerror}); restore it with "
            "git, or write the study's paper there."
        ) from error
    except UnicodeDecodeError as error:
        raise TemplateError(
            f"templates/papers/{template.name}: found the byte 0x{error.object[error.start]:02x}, "
            "which is not UTF-8; save the file as UTF-8."
        ) from error


def _refusal(template: Path, line: int | None, what: str) -> TemplateError:
    place = f"templates/papers/{template.name}" + (f":{line}" if line else "")
    words = " ".join(what.split()).rstrip(".")
    return TemplateError(f"{place}: {words}; mend the template or the study's findings.")


def _line(error: Exception, template: Path) -> int | None:
    """The template's line, which Jinja leaves in the traceback."""
    traceback, line = error.__traceback__, None
    while traceback is not None:
        if Path(traceback.tb_frame.f_code.co_filename) == template:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


_HEADINGS: Final = ("Number", "Value", "Formula", "Samples", "From")


def provenance(values: Iterable[Value]) -> str:
    """A pipe table with a line for every value of the prose: the target of its links."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "| :--- | ---: | :--- | ---: | :--- |"]
    for value in values:
        data = value.as_json()
        count = str(data["n"]) if data["n"] else ""
        origin = ", ".join(value.sources) or ("none" if data["reason"] else "theory")
        printed = data["reason"] or value.plain
        cells = (value.name, printed, value.formula, count, origin)
        text = [escape(cell, "markdown") for cell in cells]
        text[0] = f"[{text[0]}]{{#{value.anchor}}}"
        lines.append("| " + " | ".join(text) + " |")
    return "\n".join(lines)
