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
whoever reviews a contribution need read only its Python for what it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2 import TemplateRuntimeError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from report.paper.findings import Claim, Figure
from report.paper.tables import Column, Table, to_markdown
from report.paper.values import NOT_MEASURED, Value
from report.text.escape import markdown

#: The parts that a tag may have after its first one.
_PARTS: Final = {"figure": ("alt",), "holds": ("else", "undecided")}
#: The filters and methods that a template may use, none of which makes another number of one.
_FILTERS: Final = ("capitalize", "first", "join", "last", "length", "lower", "title", "upper")
_OF_MAPPINGS: Final = ("get", "items", "keys", "values")
_OPPOSITE: Final = {"supported": "refuted", "refuted": "supported"}
_AT_END: Final = re.compile(r"\{%(\s*end(?:table|figure|holds|known)\s*)%\}")
_MISSING: Final = f"[{NOT_MEASURED}](#v-"
_LINK: Final = re.compile(r"\[([^\]]*)\]\(#v-[\w-]*\)\{\.value\}")


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
    #: Of each block of ``known`` that is being printed, whether a table or figure is not there.
    lacking: list[bool] = field(default_factory=list)

    def has(self, id: str, kind: str, there: Mapping[str, Any]) -> bool:
        """Whether the table or figure is there; the block of ``known`` around it knows, or refuses.

        Raises ``TemplateRuntimeError`` where there is no such block.
        """
        if id not in there and not self.lacking:
            raise TemplateRuntimeError(f"{id} is no {kind} of the study with these data")
        if id not in there:
            self.lacking[-1] = True
        return id in there

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

    @property
    def _page(self) -> Page:
        page: Page = self.environment.page  # type: ignore[attr-defined]
        return page

    def _table(self, line: int, id: str, caller: Callable[[], str]) -> str:
        page, caption = self._page, caller().strip()
        if not page.has(id, "table", page.tables):
            return ""
        page.tables[id] = replace(page.tables[id], caption=_plain(caption))
        return to_markdown(page.tables[id], caption)

    def _figure(
        self, line: int, id: str, caller: Callable[[], str], alt_: Callable[[], str] = str
    ) -> str:
        page, caption, alt = self._page, caller(), _plain(alt_())
        if not alt:
            raise TemplateRuntimeError(f"the figure {id} has no alternative text; add {{% alt %}}")
        if not page.has(id, "figure", page.figures):
            return ""
        page.figures[id] = replace(page.figures[id], caption=_plain(caption), alt=alt)
        return page.figures[id].as_markdown(caption.strip())

    def _known(self, line: int, caller: Callable[[], str]) -> str:
        page, before = self._page, len(self._page.unsupported)
        page.lacking.append(False)
        text = caller()
        if not page.lacking.pop() and _MISSING not in text:
            return text
        del page.unsupported[before:]
        return ""

    def _claims(self, line: int, id: str, caller: Callable[[], str]) -> str:
        page, rows = self._page, []
        for each in filter(None, map(str.strip, caller().splitlines())):
            name, colon, sentence = each.partition(": ")
            if not colon:
                raise TemplateRuntimeError(f"a claim is «id: sentence», found {each!r}")
            claim = page.claims[name] = replace(page.claim(name), sentence=_plain(sentence))
            rows.append((claim.sentence, claim.verdict, claim.because))
        columns = (Column("Claim"), Column("Verdict"), Column("Found, and expected"))
        page.tables[id] = Table(id, columns, tuple(rows), wide=True)
        return ""

    def _holds(
        self, line: int, id: str, verdict: str = "supported", *, caller: Callable[[], str],
        **parts: Callable[[], str],
    ) -> str:  # fmt: skip
        page, claim, sentence = self._page, self._page.claim(id), caller()
        # All parts, so that a name that is unknown is refused in each.
        others = {name: part() for name, part in parts.items()}
        page.claims[id] = replace(claim, sentence=claim.sentence or _plain(sentence))
        if claim.verdict == verdict:
            return sentence
        if "else_" in others and claim.verdict == _OPPOSITE.get(verdict):
            return others["else_"]
        if "undecided_" in others:
            return others["undecided_"]
        page.unsupported.append(
            f"{page.template}:{line}: the sentence rests on the claim {id}, which is "
            f"{claim.verdict}; write what is true of these data."
        )
        said = markdown(f"{claim.verdict}: {claim.because}")
        return f"[**[No longer {verdict} by these data ({said}):]**]{{.unsupported}} {sentence}"


def _plain(text: str) -> str:
    """Words without the links of their values and without escapes, on one line."""
    return " ".join(re.sub(r"\\(.)", r"\1", _LINK.sub(r"\1", text)).split())


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

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse numbers that no study has declared; raises ``jinja2.TemplateRuntimeError``."""
        raise jinja2.TemplateRuntimeError(f"the template computes with {operator}")

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        """Refuse another sign, in the same way."""
        return self.call_binop(context, operator, arg, None)


def _printed(item: Any) -> Any:
    """Refuse what has no words; raises ``jinja2.TemplateRuntimeError``."""
    if not isinstance(item, str | int | float | Value | jinja2.Undefined):
        raise jinja2.TemplateRuntimeError(f"{type(item).__name__} is no text that can be printed")
    return item


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
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters["md"] = markdown
    return environment
