"""The Jinja that papers are written for: it prints what a study found, and computes nothing.

Its tags are captions where tables and figures stand, and guarded sentences.

``{% table "tbl-x" %}caption{% endtable %}``
    the table with its caption.
``{% figure "fig-x" %}caption{% alt %}alternative text{% endfigure %}``
    the figure with both.
``{% claims "tbl-claims" %}id: sentence, a claim a line{% endclaims %}``
    the table of the claims that are named, each in the author's words, with its verdict.
``{% holds "id" %}a sentence{% else %}its opposite{% undecided %}neither{% endholds %}``
    the sentence while the claim is supported, its opposite where it is refuted, and what says
    neither in all other cases; each of the last two may be left out, and ``undecided`` then stands
    for a missing opposite.  Where nothing fits, the sentence is marked as no longer supported and
    the build says so; an undecided claim never prints the opposite.
    ``{% holds "id", "refuted" %}`` rests the sentence on that verdict, so that the opposite stands
    where the claim is supported.
``{% known %}sentences, tables, figures{% endknown %}``
    the block unless a value that it prints is missing, or a table or figure that it names.

A template reaches no attribute with an underscore, changes nothing and computes no number, so that
whoever reviews a contribution need read only its Python for what it does.  Each text of the study
is printed whole, as a mark (``prose``); of a part of one, digits count as typed.  What a template
takes is limited in time and characters.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from time import monotonic
from types import FrameType, SimpleNamespace
from typing import Any, Final

import jinja2
from jinja2 import TemplateRuntimeError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from figures.characters import visible
from report.core.text.escape import markdown
from report.paper.findings import Claim, Figure
from report.paper.prose import FIRST_MARK, MARKS, Mark
from report.paper.tables import Column, Table, to_markdown
from report.paper.values import NOT_MEASURED, Value

#: The parts that a tag may have after its first one.
_PARTS: Final = {"figure": ("alt",), "holds": ("else", "undecided")}
#: The methods that a template may call.
_OF_MAPPINGS: Final = ("get", "items", "keys", "values")
#: Forms in which a template prints a value, names that it cannot set, and what may repeat.
_FORMS: Final = ("about", "bare", "interval", "math", "plain")
_RESERVED: Final = frozenset({"v", "facts", "claims", "tables", "figures", "provenance"})
_REPEATED: Final = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)
#: Seconds and characters that a template may take; a pass of a loop counts as some of these.
_TIME_LIMIT_S: Final = 8.0
_CHARACTERS: Final = 20_000_000
_PASS: Final = 100
_READING: Final = 40
#: The most parts of expressions and statements, which take long to compile.
_NODES: Final = 20_000
_OPPOSITE: Final = {"supported": "refuted", "refuted": "supported"}
_AT_END: Final = re.compile(r"\{%(\s*end(?:table|figure|holds|known)\s*)%\}")
_MARK: Final = re.compile(f"[{MARKS}]")
_MISSING: Final = f"[{NOT_MEASURED}](#v-"
_LINK: Final = re.compile(r"\[((?:\\.|[^\]\\])*)\]\(#v-[\w-]*\)\{\.value\}")


@dataclass
class Page:
    """What the tags of one template print from, and what they have found while it is rendered.

    ``unsupported`` says of each sentence that the data do not support where it stands.
    """

    template: str
    tables: dict[str, Table]
    figures: dict[str, Figure]
    claims: dict[str, Claim]
    unsupported: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    #: Markdown of the template that is shown elsewhere, or with other data.
    asides: list[str] = field(default_factory=list)
    #: What expressions have printed that is no mark, and in which lines.
    typed: list[tuple[str, int]] = field(default_factory=list)
    characters: int = 0
    end: float = field(default_factory=lambda: monotonic() + _TIME_LIMIT_S)
    #: Of each block of ``known`` that is being printed, whether a table or figure is not there.
    lacking: list[bool] = field(default_factory=list)

    def mark(self, text: str, *, number: bool = False) -> str:
        """Make a character that stands for ``text`` until the template is rendered."""
        self.spend(2 * _PASS)
        self.marks.append(Mark(text, number, self.line()))
        return chr(FIRST_MARK + len(self.marks) - 1)

    def resolved(self, text: str) -> str:
        """Replace the marks in a text by what they stand for."""
        return _MARK.sub(lambda mark: self.marks[ord(mark[0]) - FIRST_MARK].text, text)

    def line(self) -> int:
        """Line of the template that is being rendered; 0 if none is."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            template = frame.f_globals.get("__jinja_template__")
            if template and template.name == Path(self.template).name:
                return int(template.get_corresponding_lineno(frame.f_lineno))
            frame = frame.f_back
        return 0

    def spend(self, characters: int) -> None:
        """Count what the template takes; raises ``TemplateRuntimeError`` if it is too much."""
        self.characters += characters
        if self.characters > _CHARACTERS or monotonic() > self.end:
            raise TemplateRuntimeError("the template repeats or prints too much")

    def has(self, id: str, kind: str, there: Mapping[str, Any]) -> bool:
        """Whether the table or figure is there; the block of ``known`` around it knows, or refuses.

        Raises ``TemplateRuntimeError`` where there is no such block.
        """
        if id not in there and not self.lacking:
            raise TemplateRuntimeError(f"{id} is no {kind} of the study with these data")
        if id not in there:
            self.lacking[-1] = True
        return id in there

    def plain(self, text: str) -> str:
        """Strip the links of values and the escapes from words, on one line."""
        unlinked = _LINK.sub(r"\1", self.resolved(text))
        return " ".join(re.sub(r"\\(.)", r"\1", unlinked).split())

    def claim(self, id: str) -> Claim:
        """The claim of that id; refuses one that the study does not have."""
        if id not in self.claims:
            known = ", ".join(sorted(self.claims))
            raise TemplateRuntimeError(f"{id} is no claim of the study; these are: {known}")
        return self.claims[id]


class PaperTags(Extension):
    """Teaches Jinja the tags, which print from the environment's ``page``."""

    tags = {"table", "figure", "claims", "holds", "known"}  # noqa: RUF012 (as Jinja declares it)

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The source in which a line that ends with one of the tags stays a line.

        Jinja removes the line's end behind a tag, which would join two paragraphs.
        """
        self._page.spend(_READING * len(source))
        return _AT_END.sub(r"{%\1 +%}", source)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """One of the tags, up to its end; its further parts are macros that its method is given.

        What a part sets, no other part knows.
        """
        token = next(parser.stream)
        line, kind = token.lineno, token.value
        arguments = [] if kind == "known" else [parser.parse_expression()]
        while parser.stream.skip_if("comma"):
            arguments.append(parser.parse_expression())
        ends = tuple(f"name:{each}" for each in (f"end{kind}", *_PARTS.get(kind, ())))
        body, parts = parser.parse_statements(ends), []
        macros: list[nodes.Macro] = []
        while (part := next(parser.stream)).value != f"end{kind}":
            macro = f"{part.value}_of_line_{line}"
            if any(each.name == macro for each in macros):
                parser.fail(f"{part.value} stands twice in {kind}", part.lineno)
            macros.append(nodes.Macro(macro, [], [], parser.parse_statements(ends), lineno=line))
            parts.append(nodes.Keyword(f"{part.value}_", nodes.Name(macro, "load")))
        call = self.call_method(f"_{kind}", [nodes.Const(line), *arguments], parts)
        return [*macros, nodes.CallBlock(call, [], [], body, lineno=line)]

    def _count(self, characters: int) -> None:
        self._page.spend(characters)

    @property
    def _page(self) -> Page:
        page: Page = self.environment.page  # type: ignore[attr-defined]
        return page

    def _table(self, line: int, id: str, caller: Callable[[], str]) -> str:
        page, caption = self._page, caller().strip()
        if not page.has(id, "table", page.tables):
            return ""
        table = page.tables[id] = replace(page.tables[id], caption=page.plain(caption))
        opening, _, rest = to_markdown(table, "").partition("\n")
        body = rest.removesuffix("\n\n\n:::")
        return f"{opening}\n{page.mark(body)}\n\n{caption}\n:::"

    def _figure(
        self, line: int, id: str, caller: Callable[[], str], alt_: Callable[[], str] = str
    ) -> str:
        page, caption, described = self._page, caller(), alt_()
        alt = page.plain(described)
        if not alt:
            raise TemplateRuntimeError(f"the figure {id} has no alternative text; add {{% alt %}}")
        if not page.has(id, "figure", page.figures):
            return ""
        page.asides.append(markdown(described))
        figure = page.figures[id] = replace(page.figures[id], caption=page.plain(caption), alt=alt)
        return replace(figure, alt=page.mark(markdown(alt))).as_markdown(caption.strip())

    def _known(self, line: int, caller: Callable[[], str]) -> str:
        page, before = self._page, len(self._page.unsupported)
        page.lacking.append(False)
        text = caller()
        if not page.lacking.pop() and _MISSING not in page.resolved(text):
            return text
        page.asides.append(text)
        del page.unsupported[before:]
        return ""

    def _claims(self, line: int, id: str, caller: Callable[[], str]) -> str:
        page, rows = self._page, []
        for each in filter(None, map(str.strip, caller().splitlines())):
            name, colon, sentence = each.partition(": ")
            if not colon:
                raise TemplateRuntimeError(f"a claim is «id: sentence», found {each!r}")
            page.asides.append(markdown(sentence))
            claim = page.claims[name] = replace(page.claim(name), sentence=page.plain(sentence))
            rows.append((claim.sentence, claim.verdict, claim.because))
        columns = (Column("Claim"), Column("Verdict"), Column("Found, and expected"))
        page.tables[id] = Table(id, columns, tuple(rows), wide=True)
        return ""

    def _holds(
        self, line: int, id: str, verdict: str = "supported", *, caller: Callable[[], str],
        **parts: Callable[[], str],
    ) -> str:  # fmt: skip
        page, claim, sentence = self._page, self._page.claim(id), caller()
        if verdict not in _OPPOSITE:
            raise TemplateRuntimeError(
                f"no sentence rests on the verdict {verdict}; write supported or refuted"
            )
        # All parts, so that a name that is unknown is refused in each.
        texts = {"sentence": sentence, **{name: part() for name, part in parts.items()}}
        page.claims[id] = replace(claim, sentence=claim.sentence or page.plain(sentence))
        if claim.verdict == verdict:
            chosen = "sentence"
        elif "else_" in texts and claim.verdict == _OPPOSITE[verdict]:
            chosen = "else_"
        else:
            chosen = "undecided_"
        page.asides += (text for name, text in texts.items() if name != chosen)
        if chosen in texts:
            return texts[chosen]
        page.unsupported.append(
            f"{page.template}:{line}: the sentence rests on the claim {id}, which is "
            f"{claim.verdict}; write what is true of these data."
        )
        said = page.mark(markdown(f"{claim.verdict}: {claim.because}"))
        return f"[**[No longer {verdict} by these data ({said}):]**]{{.unsupported}} {sentence}"


class Text(str):
    """A text of the study, which a template prints whole."""


class Escaped(Text):
    """A text of the study that is markdown."""


class Number(str):
    """A number of the study in one of its forms, which a template prints whole."""


class Forms(SimpleNamespace):
    """A value of the study as a template sees it: by itself, and in each of its forms."""

    def __init__(self, value: Value) -> None:
        super().__init__(**{form: Number(getattr(value, form)) for form in _FORMS})
        self.itself = Number(value)


def given(content: Any) -> Any:
    """Content of the study for a template, with a ``Text`` for each text and whole number."""
    if isinstance(content, Mapping):
        return {given(key): given(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [given(value) for value in content]
    number = isinstance(content, int) and not isinstance(content, bool)
    return Text(visible(str(content))) if number or isinstance(content, str) else content


class Unknown(jinja2.StrictUndefined):
    """A name that is not there; its message says which similar ones are."""

    @property
    def _undefined_message(self) -> str:
        name, of = str(self._undefined_name), self._undefined_obj
        if self._undefined_hint or of is jinja2.utils.missing:
            return str(super()._undefined_message)
        keys = of if isinstance(of, Mapping) else dir(of)
        known = [key for key in keys if isinstance(key, str) and not key.startswith("_")]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        return f"{name} is unknown" + (f"; near it: {', '.join(near)}" if near else "")


class PaperEnvironment(ImmutableSandboxedEnvironment):
    """Prints from ``page``, by the tags above."""

    page: Page
    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)
    intercepted_unops = frozenset(ImmutableSandboxedEnvironment.default_unop_table)

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether a template may call it: macros, tags, and what looks into a mapping."""
        # A name that is not there says so when it is called.
        if isinstance(obj, Macro | jinja2.Undefined):
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        return isinstance(owner, PaperTags) or (isinstance(owner, Mapping) and name in _OF_MAPPINGS)

    def _generate(self, source: nodes.Template, *arguments: Any, **options: Any) -> str:
        """Refuse what computes or repeats without end, and count passes; then as Jinja does."""
        for line, why in _refused(source):
            raise jinja2.TemplateSyntaxError(why, line)
        tags = self.extensions[PaperTags.identifier]
        for node in (source, *source.find_all(_REPEATED)):
            printed = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            call = tags.call_method("_count", [nodes.Const(_PASS + printed)], lineno=node.lineno)
            node.body.insert(0, nodes.ExprStmt(call, lineno=node.lineno))  # type: ignore[attr-defined]
        source.set_environment(self)
        return super()._generate(source, *arguments, **options)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse numbers that no study has declared; raises ``jinja2.TemplateRuntimeError``."""
        raise jinja2.TemplateRuntimeError(f"the template computes with {operator}")

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        """Refuse another sign, in the same way."""
        return self.call_binop(context, operator, arg, None)


def _refused(source: nodes.Template) -> Iterator[tuple[int, str]]:
    """Statements that no template may have, each with its line."""
    for count, node in enumerate(source.find_all(nodes.Node)):
        if count > _NODES:
            yield node.lineno, "the template is too long"
        if isinstance(node, nodes.Name) and node.name in _RESERVED and node.ctx != "load":
            yield node.lineno, f"{node.name} is the study's and cannot be set"
        # Lists of lists would make comparisons that never end.
        items = node.items if isinstance(node, nodes.List | nodes.Tuple) else ()
        simple = all(
            isinstance(item, nodes.Const | nodes.Getattr) or getattr(item, "ctx", "") == "store"
            for item in items
        )
        if isinstance(node, nodes.Concat | nodes.Dict) or not simple:
            kind = "~" if isinstance(node, nodes.Concat) else "a list or mapping of its own"
            yield node.lineno, f"the template computes with {kind}"
        text = getattr(node, "value", getattr(node, "data", ""))
        if isinstance(text, str) and _MARK.search(text):
            yield node.lineno, "a private character stands in the template"


@jinja2.pass_context
def _printed(context: Context, item: Any) -> Any:
    """Print a text of the study as its mark, and words of the template as they are.

    Raises ``jinja2.TemplateRuntimeError`` for what has no words.
    """
    page = context.environment.page  # type: ignore[attr-defined]
    text = item.itself if isinstance(item, Forms) else item
    if isinstance(text, Text | Number):
        return page.mark(str(text), number=isinstance(text, Number))
    if isinstance(text, jinja2.Undefined):
        return text
    if isinstance(text, int | float):
        raise TemplateRuntimeError(f"the number {text} is none of the study's values")
    if not isinstance(text, str):
        raise TemplateRuntimeError(f"{type(text).__name__} is no text that can be printed")
    page.spend(len(text))
    page.typed.append((text, page.line()))
    return text


def _text(content: Any) -> Text:
    """Refuse what is no text of the study; raises ``TemplateRuntimeError``."""
    if not isinstance(content, Text):
        raise TemplateRuntimeError(f"a filter takes a text of the study, and not {content}")
    return content


def _md(text: Any) -> Escaped:
    return text if isinstance(text, Escaped) else Escaped(markdown(_text(text)))


def _capitalize(text: Any) -> Text:
    return type(_text(text))(text.capitalize())


def _join(texts: Any, between: str = " ") -> Text:
    """Texts of the study, parted so that no two become one number."""
    if between not in (" ", ", ", "; "):
        raise TemplateRuntimeError("join parts texts by a space, a comma or a semicolon")
    return Text(between.join(map(_text, texts)))


def paper_environment(page: Page, *folders: Path) -> PaperEnvironment:
    """The environment that finds templates in ``folders`` and prints from ``page``."""
    environment = PaperEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        extensions=[PaperTags],
        undefined=Unknown,
        finalize=_printed,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Jinja's own {# would swallow the ids of headings, {#sec-method}.
        comment_start_string="{##",
        comment_end_string="##}",
    )
    environment.page = page
    environment.globals.clear()
    environment.filters = {"capitalize": _capitalize, "join": _join, "md": _md}
    return environment
