"""Check the prose of a paper: no result is typed by hand, and no text distorts a printed number.

While a template is rendered, each text that the study prints is replaced by a mark, a character of
Unicode's private use areas.  So all digits that pandoc then reads are typed, which means that an
author wrote them.  Typed digits are allowed in code, citations, addresses and names that the front
matter declares.  Formulas may contain the digits 0, 1 and 2, exponents, indices and coefficients,
since 2n³ states no result.  Text beside a study's number must not change how the number reads.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from report.core.errors import RenderError, TemplateError
from report.core.system.programs import pandoc_path, run

_READER: Final = Path(__file__).resolve().parents[2] / "templates" / "filter" / "parsed.lua"
_TIME_LIMIT_S: Final = 10.0
#: Columns between tab stops.
_TAB: Final = 4

#: Characters of Unicode's private use areas that serve as marks.
FIRST_MARK: Final = 0xF0000
MARK_RANGE: Final = "\U000f0000-\U0010ffff"
MARK_PATTERN: Final = re.compile(f"[{MARK_RANGE}]")
#: Pattern that no text matches.
_NO_MATCH: Final = re.compile("(?!)")
#: Characters in place of code, a formula or a picture that contains no number, or a number.
_PLACEHOLDER, _PLACEHOLDER_NUMBER = "\ufffc", "\ufffd"
#: Kind of text outside paragraphs → its name in messages, and characters that would end such text.
_OUTSIDE_PARAGRAPHS: Final = {
    "code": ("code", re.compile(r"\A\[|`|~~~")),
    "link": ("a link", re.compile(r"[\[\]()`]")),
    "math": ("a formula", re.compile(r"[`$\\{}\[]")),
    "hidden": ("an address, an attribute or a comment", re.compile(r"[^\w.:/#-]")),
}
#: Number of characters before and after a number in which text may change how the number reads.
_CONTEXT_LENGTH: Final = 60

_NUMBER: Final = re.compile(r"\d[\d.,]*(?:\s?%)?")
_LAST_WORD: Final = re.compile(r"(?:[^\W\d_][\w-]*)?\Z")
_ADDRESS: Final = rf"https?://[A-Za-z][^\s{MARK_RANGE}]+"
#: Allowed forms of declared names: 3 × 3, 2D, 8-bit, ResNet-20, float32, RTX 3090.
_NAME: Final = re.compile(
    r"\d{1,2}(?: ?[×x] ?\d{1,2})+|\d{1,2}(?:D|-bit)|[^\W\d_][\w/+-]*"
    r"|[A-Z][\w/+-]*(?: [A-Z][\w/+-]*){0,3} \d{1,4}[A-Z]{0,2}"
)
#: A name with a number must not be followed by a unit: "ResNet-20 times" would read as a result.
_NO_UNIT: Final = r"(?!\s?(?:%|(?:times|percent|[nµmkMGTP]?(?:s|B|FLOPs?|MACs?))\b))"
#: Words that multiply the number before them.
_MULTIPLE: Final = r"(?i:(?:hundred|thousand|[a-z]*illion|dozen)s?|bn|mn|mio)\b"
#: Text that may stand directly before a number: a space, a bracket, a sign of comparison, …
_FREE_BEFORE: Final = re.compile(rf"(?:\A|[\s(\[{{“‘«„\"'—=≈≤≥<>×|]|[{MARK_RANGE}]–)\Z")
#: Text that, with a space, changes the number after it: a sign, "minus", another number.
_CHANGING_BEFORE: Final = re.compile(
    rf"(?:[-−‐‑‒+±∓{_PLACEHOLDER_NUMBER}]|(?<!\S\s)–|\b(?i:minus|negative))\s+\Z"
)
#: Text that may stand directly after a number: a space, a bracket, the end of a sentence, …
_FREE_AFTER: Final = re.compile(
    rf"\Z|[\s)\]}}»—×=≈≤≥<>|]|[.,:;!?'’\"”](?![\w{MARK_RANGE}{_PLACEHOLDER}{_PLACEHOLDER_NUMBER}])|’s\b"
    rf"|–(?=[{MARK_RANGE}])|-(?=[^\W\d_])"
)
#: A percent sign or word, which would divide the number before it by a hundred.
_SHARE_AFTER: Final = re.compile(r"[\s-]+(?:[%‰]|(?i:percent|per\s+cent)\b)")
#: Text that changes the number before it: "million", "k", another number.
_CHANGING_AFTER: Final = re.compile(rf"[\s×·-]+(?:{_MULTIPLE}|[kKMGT]\b|{_PLACEHOLDER_NUMBER})")

#: Words that make the next number an upper or a lower bound.
_BOUND: Final = re.compile(
    r"\b((?P<upper>up\s+to|at\s+most|no\s+more\s+than|as\s+(?:much|many)\s+as)"
    r"|at\s+least|no\s+less\s+than|as\s+(?:little|few)\s+as)\s+(?:about\s+)?\Z",
    re.IGNORECASE,
)

#: Parts of a formula that print nothing or space, except a space after a comma: such a comma
#: separates two numbers.
_UNPRINTED: Final = re.compile(r"\\(?:[,;:!> ]|q?quad(?![A-Za-z]))|~|\{\}|(?<!,)\s+")
#: Coefficient of a variable or a bracket, such as the 2 of 2n.
_COEFFICIENT: Final = re.compile(r"(?<![\w.,])\d{1,2}(?=(?:\\cdot)?(?:[A-Za-z](?![A-Za-z])|\())")
#: Exponent or index.
_INDEX: Final = re.compile(r"(?<=[\w)\]}|'])[\^_](?:\d{1,2}(?!\d)|\{[^{}.]*\})")
#: Commands that print words in a formula.
_WORDS: Final = r"\\(?:text|math|mbox|operatorname)[a-z]*"
#: Digits that must not be typed in a formula, since they may be a result: in or before words,
#: decimals, and whole numbers above 2.
_RESULT_IN_FORMULA: Final = re.compile(
    rf"{_WORDS}\{{[^{{}}\d]*(\d+)|(\d+[.,]\d+|\.\d+|\d{{2,}}|[3-9]|\d+(?={_WORDS}))"
)
#: A formula that consists of one number.
_ONLY_NUMBER: Final = re.compile(r"[-+−]?([\d.,]+)")
#: Text that may stand directly before a study's number in a formula.  "!" follows each command, so
#: that the command's last letter is not taken for a variable.
_FREE_BEFORE_IN_FORMULA: Final = re.compile(
    rf"(?:\A|(?<!\d),\s?|[=(\[+/<>^_&!]|[\w)\]}}{MARK_RANGE}][-−])\Z"
)
#: Command that may stand before a number; the signs \pm and \mp would change how it reads.
_COMMAND: Final = re.compile(r"\\(?!pm|mp)[A-Za-z]+")
#: Text that may stand directly after a study's number in a formula.
_FREE_AFTER_IN_FORMULA: Final = re.compile(
    rf"\Z|[=)\]}};:+\-−/<>&|]|[A-Za-z](?!\d)|[.,](?![\d{MARK_RANGE}])"
    rf"|(?!\\%|(?:\\cdot|\\times)?{_WORDS}\{{\s*{_MULTIPLE})\\"
)


class MarkedText(NamedTuple):
    """A text of the study that a mark replaces, and the line where the template prints the text.

    ``value_id`` is the id of a printed number, empty for other texts.  ``rounding`` is how the
    number was rounded: exact, nearest, up or down.
    """

    text: str
    line: int = 0
    rounding: str = "exact"
    value_id: str = ""

    @property
    def shown(self) -> str:
        """Text without its link."""
        return re.sub(r"\A\[(.*?)\]\(#v-.*", r"\1", self.text, flags=re.DOTALL)

    @property
    def reads_as_number(self) -> bool:
        """True for a printed number (even with a unit), and for a text that ends in a digit."""
        return bool(self.value_id) or _ascii_digits(self.text[-1:]).isdigit()


class Fault(NamedTuple):
    """Fault of a template; its place is a ``line``, or a ``number`` with the text ``around`` it."""

    why: str
    around: str = ""
    number: str = ""
    line: int = 0


def read_printed(front: str, texts: Sequence[str], place: str) -> tuple[list[str], list[list[str]]]:
    """Let pandoc read the front matter ``front`` and the documents ``texts``.

    Returns the names that the front matter declares, and the printed texts as pairs of kind (words,
    code, math, link or author) and text.  Raises ``TemplateError``, with the ``place`` of the
    template, if pandoc cannot read them.
    """
    job = json.dumps({"front": front, "texts": [text.expandtabs(_TAB) for text in texts]})
    try:
        path = pandoc_path()
        finished = run([path, "lua", _READER], path.parent, _TIME_LIMIT_S, place, job)
    except RenderError as error:
        raise TemplateError(str(error)) from error
    if finished.returncode != 0:
        reason = finished.stderr.partition("stack traceback")[0].rpartition("lua:")[2]
        raise TemplateError(f"{place}: pandoc cannot read it ({reason.strip()}); fix the template.")
    printed = json.loads(finished.stdout)
    return printed["names"], printed["texts"]


def faults(
    documents: Iterable[str],
    texts: Sequence[Sequence[str]],
    names: Iterable[str],
    marked_texts: Sequence[MarkedText],
) -> Iterator[Fault]:
    """Yield the faults of ``documents``, in the order of their printed ``texts`` (kind, text).

    Digits that an author typed are faults, except in the declared ``names``.  Raises ``ValueError``
    for a declared name that looks like a measured number.
    """
    allowed = _allowed_names(names)
    # Marks in addresses and attributes, which pandoc does not print.
    hidden = {*MARK_PATTERN.findall("".join(documents))}.difference(*(text for _, text in texts))
    for kind, text in (*texts, *(("hidden", char) for char in sorted(hidden))):
        if kind == "math":
            yield from _typed_in_formula(text)
        elif kind == "words":
            without_names = allowed.sub(lambda name: "x" * len(name[0]), _ascii_digits(text))
            for match in _NUMBER.finditer(without_names):
                start, end = match.span()
                before, number = text[max(0, start - _CONTEXT_LENGTH) : start], text[start:end]
                around = before + text[start : end + _CONTEXT_LENGTH]
                yield _typed_fault(number.rstrip(".,"), around, _LAST_WORD.findall(before)[0])
        printed = _UNPRINTED.sub("", text) if kind == "math" else text
        for match in MARK_PATTERN.finditer(printed):
            if why := _fault_at(match, kind, printed, marked_texts):
                yield Fault(why, line=marked_text(match[0], marked_texts).line)


def line_of(fault: Fault, source: str, typed: Sequence[tuple[str, int]]) -> int:
    """Return the line of a fault, or else the line of the template ``source`` most similar to it.

    A line is similar if it has the fault's number, and words of the text around the number.  If no
    line has the number, an expression with the number decides (``typed``: text printed, line).
    """
    if fault.line:
        return fault.line
    for text, line in typed:
        if fault.number in text and fault.number not in source:
            return line
    words, similarities = {*re.findall(r"\w+", fault.around)}, []
    for text in source.split("\n"):
        common = words.intersection(re.findall(r"\w+", text))
        similarities.append((fault.number in text, len(common)))
    return similarities.index(max(similarities)) + 1


def _allowed_names(names: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of addresses and ``names``; raise ``ValueError`` as ``faults`` does."""
    patterns = [_ADDRESS]
    for name in sorted(names, key=len, reverse=True):
        if not _NAME.fullmatch(name):
            raise ValueError(name)
        unsigned = r"(?<![-−–+±])" if name[0].isdigit() else ""
        unit = _NO_UNIT if " " in name or name[0].isdigit() else ""
        spaced = re.escape(name).replace(r"\ ", r"\s")
        patterns.append(rf"(?<![\w.,]){unsigned}{spaced}(?!\w|[.,]\d){unit}")
    return re.compile("|".join(patterns))


def _typed_in_formula(tex: str) -> Iterator[Fault]:
    """Yield a fault for each number of a formula that may be a result."""
    printed = _UNPRINTED.sub("", tex).replace("{,}", ",")
    if only_number := _ONLY_NUMBER.fullmatch(printed):
        numbers = [only_number[1]]
    else:
        results = _RESULT_IN_FORMULA.findall(_INDEX.sub("", _COEFFICIENT.sub("n", printed)))
        numbers = [in_words or digits for in_words, digits in results]
    numbers += [char for char in tex if not char.isascii() and _is_numeric(char)]
    for number in numbers:
        yield _typed_fault(number, tex)


def _typed_fault(number: str, around: str, word: str = "") -> Fault:
    """Return the fault of a typed number; ``word`` is a word that ends in the number."""
    shown = f"in {word}{number}" if word else number
    return Fault(f"the number {shown} is typed into the prose", around, number)


def _fault_at(
    match: re.Match[str], kind: str, text: str, marked_texts: Sequence[MarkedText]
) -> str:
    """Explain how the ``text`` around a mark changes the mark's number; "" if it does not."""
    mark, (start, end) = marked_text(match[0], marked_texts), match.span()
    before, after = text[max(0, start - _CONTEXT_LENGTH) : start], text[end : end + _CONTEXT_LENGTH]
    where, unsafe = _OUTSIDE_PARAGRAPHS.get(kind, ("", _NO_MATCH))
    cannot_print = unsafe.search(mark.text) is not None
    if kind == "math" and mark.value_id:
        cannot_print = mark.shown != mark.text  # a link
    if cannot_print:
        form = "math" if kind == "math" else "plain"
        return f"{where} cannot print {mark.shown}; write .{form} of a value"
    bound = _BOUND.search(before) if kind == "words" else None
    if bound and mark.rounding not in ("exact", "up" if bound["upper"] else "down"):
        side, form = ("up", "up_to") if bound["upper"] else ("down", "from")
        return f"a number after «{bound[1]}» must be rounded {side}; write .{form} of the value"
    if _reads_differently(kind, before, after, mark, marked_texts):
        beside = MARK_PATTERN.sub("…", f"{before[-9:]}{mark.shown}{after[:9]}").strip()
        return f"the number {mark.shown} reads as another one in «{beside}»; write words around it"
    return ""


def _reads_differently(
    kind: str, before: str, after: str, mark: MarkedText, marked_texts: Sequence[MarkedText]
) -> bool:
    """Return whether the text before or after a number changes how the number reads."""
    if kind == "math":
        before = _COMMAND.sub(r"\g<0>!", before.rstrip("{"))
        is_free_before = _FREE_BEFORE_IN_FORMULA.search(before)
        return not (is_free_before and _FREE_AFTER_IN_FORMULA.match(after.lstrip("}")))
    if mark.value_id or re.match(r"[-−+.]?\d", _ascii_digits(mark.text[:2])):
        last = before.rstrip()[-1:]
        follows = MARK_PATTERN.match(last) and marked_text(last, marked_texts).reads_as_number
        if follows or _CHANGING_BEFORE.search(before) or not _FREE_BEFORE.search(before):
            return True
    if not mark.reads_as_number:
        return False
    # Numbers print their own percent sign.  Other texts may leave the sign to the template.
    has_second_percent = mark.value_id and _SHARE_AFTER.match(after)
    return bool(has_second_percent or _CHANGING_AFTER.match(after) or not _FREE_AFTER.match(after))


def marked_text(char: str, marked_texts: Sequence[MarkedText]) -> MarkedText:
    """Look up the text that the mark ``char`` replaces."""
    return marked_texts[ord(char) - FIRST_MARK]


def _ascii_digits(text: str) -> str:
    """Replace each non-ASCII character that prints digits, such as ½ or Ⅷ, by the digit 7."""
    numeric_chars = {char for char in text if not char.isascii() and _is_numeric(char)}
    return text.translate(dict.fromkeys(map(ord, numeric_chars), "7"))


@cache
def _is_numeric(char: str) -> bool:
    """Return whether a character is a number or is composed of numbers, such as ½."""
    shown = char + unicodedata.normalize("NFKC", char)
    return any(unicodedata.category(part).startswith("N") for part in shown)
