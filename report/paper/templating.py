"""Jinja environment for templates of papers: it prints a study's findings and computes nothing.

``docs/adding-a-study.md`` explains its tags, which are methods of ``PaperTags``.

A template cannot change data or read attributes with an underscore, so reviewers of a contribution
need to read only Python code.  While a template is rendered, a private-use character, the mark,
stands for each text of the study (see ``prose``).  Digits that a template computes, or cuts out of
a text, count as typed by the author.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Any, Final

import jinja2
from jinja2 import TemplateRuntimeError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from figures.characters import escape_invisible
from report.core.records.coverage import CoveredCase, check_selectors, newest_record_with
from report.core.text.escape import markdown
from report.paper.claims import Claim
from report.paper.findings import Figure
from report.paper.prose import FIRST_MARK, MARK_PATTERN, MARK_RANGE, MarkedText, marked_text
from report.paper.tables import Column, Table, to_markdown
from report.paper.values import FORMS, NOT_MEASURED, Value

#: Tag → names of its optional parts, which follow its first part.
_PARTS: Final = {"figure": ("alt",), "holds": ("else", "undecided")}
#: Methods of mappings that a template may call.
_SAFE_CALLS: Final = ("get", "items", "keys", "values")
_OPPOSITE_VERDICT: Final = {"supported": "refuted", "refuted": "supported"}
_END_TAG: Final = re.compile(r"\{%(\s*end(?:table|figure|holds|known|unmeasured)\s*)%\}")
#: Anchor before the text of a claim, to which lists of claims link.
ANCHOR: Final = re.compile(r"\[\]\{#claim-[^}]*\}")
#: Beginning of a text that is part of a paragraph, not a block such as a list or a table.
_IN_PARAGRAPH: Final = re.compile(rf"(?!{ANCHOR.pattern})[\w\[“*@{MARK_RANGE}]")
#: Beginning of a printed value that is missing, and text of a table or figure that is.
_MISSING_VALUE: Final = f"[{NOT_MEASURED}](#v-"


class StudyText(str):
    """A text of the study, which a template can print only as a whole."""


class PrintedNumber(str):
    """A number of the study in one of its forms, which a template can print only as a whole.

    A number in the default form has the other forms as attributes.
    """

    _marked_text: MarkedText

    def __new__(cls, value: Value, form: str = "") -> PrintedNumber:
        """Print ``value`` in a ``form``; an empty form is the default form."""
        text = value.form(form)
        number = super().__new__(cls, text)
        number._marked_text = MarkedText(text, rounding=value.rounding(form), value_id=value.id)
        for other_form in () if form else FORMS:
            setattr(number, other_form, cls(value, other_form))
        return number


@dataclass
class Page:
    """State of rendering one template: findings that tags print, and collected warnings.

    ``template`` is the template's path in messages.  ``unsupported`` has a warning for each
    sentence that the data do not support.
    """

    template: str
    tables: dict[str, Table]
    figures: dict[str, Figure]
    claims: dict[str, Claim]
    #: Cases in own records; None for data other than the project's.
    measured: Sequence[CoveredCase] | None
    unsupported: list[str] = field(default_factory=list)
    marked_texts: list[MarkedText] = field(default_factory=list)
    #: Alternative texts, and texts that are printed only with other data.  Their numbers are
    #: checked as in the body.
    outside_body: list[str] = field(default_factory=list)
    #: Texts that expressions printed without a mark, with their lines in the template.
    typed_texts: list[tuple[str, int]] = field(default_factory=list)
    #: Number of open ``known`` blocks.
    open_blocks: int = 0

    def mark(self, text: str) -> str:
        """Return the private-use character that replaces ``text`` until rendering ends."""
        mark = text._marked_text if isinstance(text, PrintedNumber) else MarkedText(str(text))
        self.marked_texts.append(mark._replace(line=self.line()))
        return chr(FIRST_MARK + len(self.marked_texts) - 1)

    def put_anchor(self, id: str, text: str) -> str:
        """Put the anchor of claim ``id`` before its text, unless the text is a list or a table."""
        words = text.lstrip()
        if not _IN_PARAGRAPH.match(words):
            return text
        return f"{text[: len(text) - len(words)]}[]{{#claim-{id}}}{words}"

    def with_first_anchors(self, text: str) -> str:
        """Keep only the first anchor of each claim."""
        for anchor in dict.fromkeys(ANCHOR.findall(text)):
            before, _, after = text.partition(anchor)
            text = f"{before}{anchor}{after.replace(anchor, '')}"
        return text

    def resolve_marks(self, text: str) -> str:
        """Replace the marks in a text by the texts of the study."""
        return MARK_PATTERN.sub(lambda mark: marked_text(mark[0], self.marked_texts).text, text)

    def line(self) -> int:
        """Return the line of the template that is being rendered, or 0."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            template = frame.f_globals.get("__jinja_template__")
            if template and template.name == Path(self.template).name:
                return int(template.get_corresponding_lineno(frame.f_lineno))
            frame = frame.f_back
        return 0

    def missing(self, id: str, kind: str) -> str:
        """Return a text in place of a table or figure, for which the ``known`` block is dropped.

        Raises ``TemplateRuntimeError`` outside ``known`` blocks.
        """
        if not self.open_blocks:
            raise TemplateRuntimeError(f"{id} is no {kind} of the study with these data")
        return _MISSING_VALUE

    def plain(self, text: str) -> str:
        """Return a text as words on one line, without anchors, links of values, and escapes."""
        texts, unanchored = self.marked_texts, ANCHOR.sub("", text)
        unlinked = MARK_PATTERN.sub(lambda mark: marked_text(mark[0], texts).shown, unanchored)
        return " ".join(re.sub(r"\\(.)", r"\1", unlinked).split())

    def claim(self, id: str) -> Claim:
        """Look up a claim; raises ``TemplateRuntimeError`` for an unknown id."""
        if id not in self.claims:
            known = ", ".join(sorted(self.claims))
            raise TemplateRuntimeError(f"{id} is no claim of the study; these are: {known}")
        return self.claims[id]


class PaperTags(Extension):
    """Jinja extension with the tags of this module; they print from the environment's ``page``."""

    # Jinja declares this attribute as a plain set.
    tags = {"table", "figure", "claims", "holds", "known", "unmeasured"}  # noqa: RUF012

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Keep the newline behind an end tag; without it, Jinja would join two paragraphs."""
        return _END_TAG.sub(r"{%\1 +%}", source)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Parse a tag up to its end; pass its optional parts as macros to the tag's method.

        The method of a tag is called ``_`` and its name.  A variable that is set in a part is local
        to that part.
        """
        token = next(parser.stream)
        line, kind = token.lineno, token.value
        arguments: list[nodes.Expr] = []
        parts: list[nodes.Keyword] = []
        while parser.stream.current.type != "block_end":
            if arguments or parts:
                parser.stream.expect("comma")
            if kind == "unmeasured" and parser.stream.look().type == "assign":
                factor = parser.stream.expect("name").value
                next(parser.stream)
                parts.append(nodes.Keyword(factor, parser.parse_expression()))
            else:
                arguments.append(parser.parse_expression())
        ends = tuple(f"name:{end}" for end in (f"end{kind}", *_PARTS.get(kind, ())))
        body = parser.parse_statements(ends)
        macros: list[nodes.Macro] = []
        while (part := next(parser.stream)).value != f"end{kind}":
            macro = f"{part.value}_of_line_{line}"
            if any(earlier.name == macro for earlier in macros):
                parser.fail(f"{part.value} stands twice in {kind}", part.lineno)
            macros.append(nodes.Macro(macro, [], [], parser.parse_statements(ends), lineno=line))
            parts.append(nodes.Keyword(f"{part.value}_", nodes.Name(macro, "load")))
        call = self.call_method(f"_{kind}", [nodes.Const(line), *arguments], parts)
        return [*macros, nodes.CallBlock(call, [], [], body, lineno=line)]

    @property
    def _page(self) -> Page:
        page: Page = self.environment.page  # type: ignore[attr-defined]
        return page

    def _table(self, line: int, id: str, caller: Callable[[], str]) -> str:
        """Return the Markdown of a table with its caption."""
        page, caption = self._page, caller().strip()
        if id not in page.tables:
            return page.missing(id, "table")
        table = page.tables[id] = replace(page.tables[id], caption=page.plain(caption))
        opening, _, rest = to_markdown(table, "").partition("\n")
        body = rest.removesuffix("\n\n\n:::")
        return f"{opening}\n{page.mark(body)}\n\n{caption}\n:::"

    def _figure(
        self, line: int, id: str, caller: Callable[[], str], alt_: Callable[[], str] = str
    ) -> str:
        """Return the Markdown of a figure with its caption and its required alternative text."""
        page, caption, described = self._page, caller(), alt_()
        alt = page.plain(described)
        if not alt:
            raise TemplateRuntimeError(f"the figure {id} has no alternative text; add {{% alt %}}")
        if id not in page.figures:
            return page.missing(id, "figure")
        page.outside_body.append(markdown(described))
        figure = page.figures[id] = replace(page.figures[id], caption=page.plain(caption), alt=alt)
        wide = " .wide" if figure.drawing.wide else ""
        attributes = f'#{id}{wide} fig-alt="{page.mark(markdown(alt))}"'
        # The path has no extension, since each output format adds its own.
        return f"![{caption.strip()}](figures/{figure.name}){{{attributes}}}"

    def _known(self, line: int, caller: Callable[[], str]) -> str:
        """Return the block's text, or "" if one of its values, tables or figures is missing."""
        page, earlier_warnings = self._page, len(self._page.unsupported)
        page.open_blocks += 1
        text = caller()
        page.open_blocks -= 1
        if _MISSING_VALUE not in page.resolve_marks(text):
            return text
        page.outside_body.append(text.replace(_MISSING_VALUE, ""))
        del page.unsupported[earlier_warnings:]
        return ""

    def _unmeasured(
        self, line: int, *selectors: Any, caller: Callable[[], str], **factors: Any
    ) -> str:
        """Return the sentence if no record has the case, else "" and add a warning to the page."""
        page, sentence = self._page, caller()
        check_selectors(selectors)
        if page.measured is not None:
            record = newest_record_with(page.measured, selectors, factors)
            if not record:
                return sentence
            case = ", ".join((*selectors, *(f"{name}={factors[name]}" for name in factors)))
            page.unsupported.append(
                f"{page.template}:{line}: the sentence says that {case} was not measured, but "
                f"data/{record} has it; write what the record shows."
            )
        page.outside_body.append(sentence)
        return ""

    def _claims(self, line: int, id: str, caller: Callable[[], str]) -> str:
        """Add a table of claims to the tables that the template can print."""
        page, rows = self._page, []
        for row in filter(None, map(str.strip, caller().splitlines())):
            claim_id, colon, sentence = row.partition(": ")
            if not colon:
                raise TemplateRuntimeError(f"a claim is «id: sentence», found {row!r}")
            page.outside_body.append(markdown(sentence))
            claim = page.claim(claim_id)
            claim = page.claims[claim_id] = replace(claim, sentence=page.plain(sentence))
            rows.append((claim.sentence, claim.verdict, claim.because))
        columns = (Column("Claim"), Column("Verdict"), Column("Found, and expected"))
        page.tables[id] = Table(id, columns, tuple(rows), wide=True)
        return ""

    def _holds(
        self, line: int, id: str, verdict: str = "supported", *, caller: Callable[[], str],
        **parts: Callable[[], str],
    ) -> str:  # fmt: skip
        """Return the part that fits the claim's verdict; without one, a warning and the sentence.

        The tag's first part, a sentence, fits ``verdict`` (supported or refuted), and the part
        ``else`` fits the opposite verdict.  The part ``undecided`` fits all other verdicts.
        """
        page, claim = self._page, self._page.claim(id)
        if verdict not in _OPPOSITE_VERDICT:
            raise TemplateRuntimeError(
                f"no sentence rests on the verdict {verdict}; write supported or refuted"
            )
        # All parts are rendered, so that an unknown name raises an error in any part.
        texts = {verdict: caller(), **{name: part() for name, part in parts.items()}}
        if "else_" in texts:
            texts[_OPPOSITE_VERDICT[verdict]] = texts.pop("else_")
        page.claims[id] = replace(claim, sentence=claim.sentence or page.plain(texts[verdict]))
        chosen = claim.verdict if claim.verdict in texts else "undecided_"
        page.outside_body += (text for name, text in texts.items() if name != chosen)
        if chosen in texts:
            return page.put_anchor(id, texts[chosen])
        page.unsupported.append(
            f"{page.template}:{line}: the sentence rests on the claim {id}, which is "
            f"{claim.verdict}; write what is true of these data."
        )
        reason = page.mark(markdown(f"{claim.verdict}: {claim.because}"))
        warning = f"[**[No longer {verdict} by these data ({reason}):]**]{{.unsupported}}"
        return page.put_anchor(id, f"{warning} {texts[verdict]}")


def for_template(content: Any) -> Any:
    """Convert texts and whole numbers to ``StudyText``, also within mappings and sequences."""
    if isinstance(content, Mapping):
        return {for_template(key): for_template(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [for_template(value) for value in content]
    is_number = isinstance(content, int) and not isinstance(content, bool)
    is_text = is_number or isinstance(content, str)
    return StudyText(escape_invisible(str(content))) if is_text else content


class Unknown(jinja2.StrictUndefined):
    """An undefined name, with a message that suggests similar names."""

    @property
    def _undefined_message(self) -> str:
        name, owner = str(self._undefined_name), self._undefined_obj
        if self._undefined_hint or owner is jinja2.utils.missing:
            return str(super()._undefined_message)
        keys = owner if isinstance(owner, Mapping) else getattr(owner, "__dict__", ())
        known = [key for key in keys if isinstance(key, str) and not key.startswith("_")]
        similar = get_close_matches(name, known, n=3, cutoff=0.5)
        return f"{name} is unknown" + (f"; near it: {', '.join(similar)}" if similar else "")


class PaperEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox for templates of papers; tags and marks use its ``page``."""

    page: Page

    def is_safe_callable(self, obj: Any) -> bool:
        """Allow calls of macros, tags, and methods that read a mapping."""
        # An undefined name raises its own error when it is called.
        if isinstance(obj, Macro | jinja2.Undefined):
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        return isinstance(owner, PaperTags) or (isinstance(owner, Mapping) and name in _SAFE_CALLS)


@jinja2.pass_context
def _finalize(context: Context, item: Any) -> Any:
    """Return a mark for a text of the study; return a text of the template unchanged.

    Raises ``jinja2.TemplateRuntimeError`` for anything that is not a text, such as a number that
    the template computes.
    """
    page = context.environment.page  # type: ignore[attr-defined]
    if isinstance(item, PrintedNumber | StudyText):
        return page.mark(item)
    if isinstance(item, jinja2.Undefined):
        return item
    if isinstance(item, int | float):
        raise TemplateRuntimeError(f"the number {item} is none of the study's values")
    if not isinstance(item, str) or MARK_PATTERN.search(item):
        raise TemplateRuntimeError(f"{type(item).__name__} is no text that can be printed")
    page.typed_texts.append((item, page.line()))
    return item


def _require_study_text(content: Any) -> StudyText:
    """Return ``content``; raise ``TemplateRuntimeError`` unless it is a text of the study."""
    if not isinstance(content, StudyText):
        raise TemplateRuntimeError(f"a filter needs a text of the study, not {content}")
    return content


def _md(text: Any) -> StudyText:
    """Escape the characters of a text that have a meaning in Markdown (filter ``md``)."""
    return StudyText(markdown(_require_study_text(text)))


def _join(texts: Any, between: str = " ") -> StudyText:
    """Join texts of the study by a separator that keeps numbers apart."""
    if between not in (" ", ", ", "; "):
        raise TemplateRuntimeError("join separates texts by a space, a comma or a semicolon")
    return StudyText(between.join(map(_require_study_text, texts)))


def paper_environment(page: Page, *folders: Path) -> PaperEnvironment:
    """Make the environment that reads templates from ``folders`` and prints from ``page``."""
    environment = PaperEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        extensions=[PaperTags],
        undefined=Unknown,
        finalize=_finalize,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Jinja's default {# would treat the id of a heading, {#sec-method}, as a comment.
        comment_start_string="{##",
        comment_end_string="##}",
    )
    environment.page = page
    environment.globals.clear()
    environment.filters = {"join": _join, "md": _md}
    return environment
