"""The tags of a paper's template: captions where tables and figures stand, and guarded sentences.

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
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jinja2 import TemplateRuntimeError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from report.paper.findings import Claim, Figure
from report.paper.tables import Column, Table, to_markdown
from report.paper.values import NOT_MEASURED
from report.text.escape import markdown

#: Before the parts of a block after the first, each with its name, where no text can hold it.
_BORDER: Final = "\0"
#: The parts that a tag may have after its first one.
_PARTS: Final = {"figure": ("alt",), "holds": ("else", "undecided")}
#: A text of the data may hold the border, but hardly with such a name in it.
_BETWEEN: Final = re.compile(rf"{_BORDER}(alt|else|undecided){_BORDER}")
_OPPOSITE: Final = {"supported": "refuted", "refuted": "supported"}
_AT_END: Final = re.compile(r"\{%(\s*end(?:table|figure|holds|known)\s*)%\}")
_MISSING: Final = f"[{NOT_MEASURED}](#v-"
_LINK: Final = re.compile(r"\[([^\]]*)\]\(#v-[\w-]*\)\{\.value\}")


@dataclass(frozen=True)
class Unsupported:
    """A sentence at ``line`` of the template that the data do not support."""

    claim: str
    verdict: str
    line: int


@dataclass
class Page:
    """What the tags of one template print from, and what they have found while it is rendered."""

    tables: dict[str, Table]
    figures: dict[str, Figure]
    claims: Mapping[str, Claim]
    unsupported: list[Unsupported] = field(default_factory=list)
    sentences: dict[str, str] = field(default_factory=dict)
    #: Of each block of ``known`` that is being printed, whether a table or figure is not there.
    lacking: list[bool] = field(default_factory=list)

    def table(self, id: str, caption: str) -> str:
        """The table in Quarto markdown; refuses one that the study does not have."""
        if id not in self.tables:
            return self._lacks(id, "table")
        self.tables[id] = replace(self.tables[id], caption=_plain(caption))
        return to_markdown(self.tables[id], caption)

    def figure(self, id: str, caption: str, alt: str) -> str:
        """The figure in Quarto markdown; refuses one that the study does not have."""
        if id not in self.figures:
            return self._lacks(id, "figure")
        self.figures[id] = replace(self.figures[id], caption=_plain(caption), alt=_plain(alt))
        return self.figures[id].as_markdown(caption)

    def _lacks(self, id: str, kind: str) -> str:
        """Drop the block of ``known`` around a table or figure that is not there, or refuse it."""
        if not self.lacking:
            raise TemplateRuntimeError(f"{id} is no {kind} of the study with these data")
        self.lacking[-1] = True
        return ""

    def claims_table(self, id: str, lines: str) -> str:
        """The claims of ``lines``, a row each."""
        rows: list[tuple[str, ...]] = []
        for line in filter(None, map(str.strip, lines.splitlines())):
            name, colon, sentence = line.partition(": ")
            if not colon:
                raise TemplateRuntimeError(f"a claim is «id: sentence», found {line!r}")
            self.sentences[name] = _plain(sentence)
            claim = self._called(name)
            rows.append((_plain(sentence), claim.verdict, claim.because))
        columns = (Column("Claim"), Column("Verdict"), Column("Found, and expected"))
        self.tables[id] = Table(id, "", columns, tuple(rows), wide=True)
        return ""

    def holds(
        self, id: str, verdict: str, line: int, sentence: str, others: Mapping[str, str]
    ) -> str:
        """The sentence that the verdict of the claim allows; ``others`` are the further parts."""
        claim = self._called(id)
        self.sentences.setdefault(id, _plain(sentence))
        if claim.verdict == verdict:
            return sentence
        if "else" in others and claim.verdict == _OPPOSITE.get(verdict):
            return others["else"]
        if "undecided" in others:
            return others["undecided"]
        self.unsupported.append(Unsupported(claim.id, claim.verdict, line))
        said = markdown(f"{claim.verdict}: {claim.because}")
        return f"[**[No longer {verdict} by these data ({said}):]**]{{.unsupported}} {sentence}"

    def _called(self, id: str) -> Claim:
        """The claim of that id; refuses one that the study does not have."""
        if id not in self.claims:
            known = ", ".join(sorted(self.claims))
            raise TemplateRuntimeError(f"{id} is no claim of the study; these are: {known}")
        return self.claims[id]


class PaperTags(Extension):
    """Teaches Jinja the tags; the environment's ``page`` prints them."""

    tags = {"table", "figure", "claims", "holds", "known"}  # noqa: RUF012 (as Jinja declares it)

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The source in which a line that ends with one of the tags stays a line.

        Jinja removes the line's end behind a tag, which would join two paragraphs.
        """
        return _AT_END.sub(r"{%\1 +%}", source)

    def parse(self, parser: Parser) -> nodes.Node:
        """One of the tags, up to its end."""
        token = next(parser.stream)
        arguments = [] if token.value == "known" else [parser.parse_expression()]
        while parser.stream.skip_if("comma"):
            arguments.append(parser.parse_expression())
        end, parts = f"end{token.value}", _PARTS.get(token.value, ())
        ends = (f"name:{end}", *(f"name:{part}" for part in parts))
        body = parser.parse_statements(ends)
        while (name := next(parser.stream).value) != end:
            border = nodes.Output([nodes.TemplateData(f"{_BORDER}{name}{_BORDER}")])
            body = [*body, border, *parser.parse_statements(ends)]
        call = self.call_method(f"_{token.value}", [nodes.Const(token.lineno), *arguments])
        return nodes.CallBlock(call, [], [], body).set_lineno(token.lineno)

    @property
    def _page(self) -> Page:
        page: Page = self.environment.page  # type: ignore[attr-defined]
        return page

    def _table(self, line: int, id: str, caller: Callable[[], str]) -> str:
        return self._page.table(id, caller().strip())

    def _figure(self, line: int, id: str, caller: Callable[[], str]) -> str:
        caption, parts = _parts(caller())
        alt = parts.get("alt", "")
        if not alt.strip():
            raise TemplateRuntimeError(f"the figure {id} has no alternative text; add {{% alt %}}")
        return self._page.figure(id, caption.strip(), _LINK.sub(r"\1", alt).strip())

    def _known(self, line: int, caller: Callable[[], str]) -> str:
        page, before = self._page, len(self._page.unsupported)
        page.lacking.append(False)
        text = caller()
        if not page.lacking.pop() and _MISSING not in text:
            return text
        del page.unsupported[before:]
        return ""

    def _claims(self, line: int, id: str, caller: Callable[[], str]) -> str:
        return self._page.claims_table(id, caller())

    def _holds(self, line: int, id: str, *rest: Any, caller: Callable[[], str]) -> str:
        sentence, others = _parts(caller())
        verdict = str(rest[0]) if rest else "supported"
        return self._page.holds(id, verdict, line, sentence, others)


def refusal(file: str, unsupported: Unsupported) -> str:
    """What the build says of a sentence that the data do not support."""
    return (
        f"templates/papers/{file}:{unsupported.line}: the sentence rests on the claim "
        f"{unsupported.claim}, which is {unsupported.verdict}; write what is true of these data."
    )


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """The first part of a block, and the others by their names."""
    first, *rest = _BETWEEN.split(text)
    return first, dict(zip(rest[::2], rest[1::2], strict=True))


def _plain(text: str) -> str:
    """Words without the links of their values and without escapes, on one line."""
    return " ".join(re.sub(r"\\(.)", r"\1", _LINK.sub(r"\1", text)).split())
