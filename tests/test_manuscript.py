"""Templates of authors: numbers, captions, claims, sentences and the bibliography.

A template may print numbers of the study only by name, such as ``{{ v.knee }}``.
"""

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from figures.panels import Drawing
from report.core.errors import RecordError, RenderError, StudyError, TemplateError
from report.core.missing import Missing
from report.core.records import store
from report.core.records.coverage import covered_cases
from report.core.records.record import Record
from report.core.statistics.estimates import Estimate
from report.engine.steps import ROOT
from report.engine.writing import render_document
from report.instruments.judgement import usable_records
from report.paper.bibliography import copy_bibliography
from report.paper.claims import Claim
from report.paper.findings import Figure, Findings
from report.paper.manuscript import Manuscript, meanwhile, render_manuscript
from report.paper.study import Study
from report.paper.tables import Column, Table
from report.paper.values import Value
from report.quantity.expression import Quantity, exact_number
from tests import factory
from tests.papers import inputs_of, render_template

FINDINGS = Findings(
    values={
        "knee": Value("knee", "Knee", 8, "1", "level", style="exact"),
        "copy": Value("copy", "Copy", Missing("no ceiling was measured"), "B/s", "bytes / time"),
    },
    tables={"tbl-a": Table("tbl-a", (Column("B"),), (("c",),))},
    figures={"fig-a": Figure("fig-a", Drawing(()))},
    claims={
        "linear": Claim("linear", "supported", "1; expected 1"),
        "grows": Claim("grows", "refuted", "0.9; expected above 1"),
        "grows-2t": Claim("grows-2t", "undecided", "1; expected above 1"),
    },
    facts={"measured": True, "devices": ["x", "y"], "sizes": {1: "a", "large": "b"}},
)
TEMPLATE = "templates/papers/study.qmd.j2"
#: The value knee as text that links to the list of values.
KNEE = "[8](#v-knee){.value}"


def render(folder: Path, text: str) -> Manuscript:
    """Render a template with ``FINDINGS``."""
    return render_template(folder, text, FINDINGS)


def share_of(number: float) -> dict[str, Quantity]:
    return {"share": exact_number("share", "1", number / 4)}


def study_with_source() -> Study[SimpleNamespace]:
    """Return a study whose data have the part ``source`` = 3, and lack the part ``cpu``."""
    return Study(lambda inputs: SimpleNamespace(source=3, cpu=None))


def test_a_mapping_declares_distinct_values_and_needs_its_part() -> None:
    """A mapping is a function that returns several values of a part of the data."""
    study = study_with_source()
    study.part("source").mapping("percent")(share_of)
    share = study.findings(inputs_of("conv_scaling")).values["share"]
    assert (share.id, share.number, share.style) == ("share", 0.75, "percent")
    study.values(share=exact_number("share", "1", 1))
    with pytest.raises(StudyError, match="declares share twice"):
        study.values(share=exact_number("share", "1", 2))
    with pytest.raises(StudyError, match="declares share twice"):
        study.findings(inputs_of("conv_scaling"))
    study = study_with_source()
    study.part("cpu").mapping()(share_of)
    with pytest.raises(StudyError, match="a mapping on cpu, which these data lack"):
        study.findings(inputs_of("conv_scaling"))


@pytest.mark.parametrize(("text", "expected"), [
    ("# Head {#sec-head}\n{## comment ##}\n{{ v.knee }}", f"# Head {{#sec-head}}\n{KNEE}"),
    ("{{ v.copy }}", "[not measured](#v-copy){.value}"),
    ("{% if not facts.measured %}\nNever.\n{% endif %}\n{{ tables | join }}", "tbl-a"),
    ("{{ claims['grows'].because | md }} {{ facts.devices | join('; ') }}",
     "0.9; expected above 1 x; y"),
    ("{% known %}It is {{ v.knee }}.{% endknown %}", f"It is {KNEE}."),
    ("{% known %}It is {{ v.copy }}.{% endknown %}", ""),
    ('{% known %}{% table "tbl-b" %}B.{% endtable %}{% endknown %}', ""),
    ('{% known %}{% holds "grows" %}{{ v.copy }}{% endholds %}{% endknown %}', ""),
    ('{% holds "linear" %}Yes.{% else %}No.{% endholds %}', "Yes."),
    ('{% holds "grows" %}Yes.{% undecided %}No.{% endholds %}', "No."),
    ('{% holds "grows" %}Yes.{% else %}No.{% undecided %}Open.{% endholds %}', "No."),
    ('{% holds "grows-2t" %}Yes.{% undecided %}Open.{% else %}No.{% endholds %}', "Open."),
    ('{% holds "linear", "refuted" %}No.{% else %}Yes.{% endholds %}', "Yes."),
    ('{% holds "grows", "refuted" %}It falls.{% endholds %}', "It falls."),
])  # fmt: skip
def test_templates_print_values(text: str, expected: str, tmp_path: Path) -> None:
    paper = render(tmp_path, f"First.\n{text}\nLast.\n")
    without_ids_of_claims = re.sub(r"\[\]\{#claim-.*?\}", "", paper.text)
    assert without_ids_of_claims == f"First.\n{expected}\nLast.\n"
    assert paper.unsupported == ()


def test_the_first_text_of_a_claim_has_an_id_for_links(tmp_path: Path) -> None:
    """Front matter and captions have no such id; lists cannot begin with an id."""
    paper = render(
        tmp_path,
        '---\ntitle: {% holds "linear" %}Work{% endholds %}\n---\n\n'
        '{% table "tbl-a" %}{% holds "linear" %}It is.{% endholds %}{% endtable %}\n\n'
        '{% holds "linear" %} {{ v.knee }} is, too.{% endholds %}\n\n'
        '{% holds "grows", "refuted" %}- It falls.{% endholds %}\n',
    )
    assert paper.text.count("{#claim-") == 1 and "title: Work\n" in paper.text
    assert "\n[]{#claim-linear}It is.\n" in paper.text and f"\n {KNEE} is, too." in paper.text
    assert "\n- It falls." in paper.text
    assert paper.findings.tables["tbl-a"].caption == "It is."


def test_captions_and_claims_are_in_the_words_of_the_author(tmp_path: Path) -> None:
    """Rendered text has the template's line breaks; captions of the findings are plain text."""
    paper = render(
        tmp_path,
        'One.\n\n{% table "tbl-a" %}The *knee* is {{ v.knee }}.{% endtable %}\n\nTwo.\n\n'
        '{% figure "fig-a" %}Drawn.{% alt %}At {{ v.knee }} it bends.{% endfigure %}\n\nThree.\n'
        '{% claims "tbl-claims" %}\nlinear: Work is linear.\ngrows: It grows.\n{% endclaims %}\n'
        '{% table "tbl-claims" %}All.{% endtable %}\n',
    )
    assert f"The *knee* is {KNEE}.\n:::\n\nTwo.\n\n![Drawn.]" in paper.text
    assert 'fig-alt="At 8 it bends."}\n\nThree.\n' in paper.text
    findings = paper.findings
    assert findings.tables["tbl-a"].caption == "The *knee* is 8."
    assert findings.figures["fig-a"].alt == "At 8 it bends."
    assert findings.claims["grows"].sentence == "It grows."
    assert findings.tables["tbl-claims"].rows == (
        ("Work is linear.", "supported", "1; expected 1"),
        ("It grows.", "refuted", "0.9; expected above 1"),
    )


def test_a_sentence_that_no_longer_holds_is_marked_with_its_line(tmp_path: Path) -> None:
    paper = render(tmp_path, 'One.\n\n{% holds "grows" %}It grows.{% endholds %}\n')
    mark = "[**[No longer supported by these data (refuted: 0.9; expected above 1):]**]"
    assert mark in paper.text.replace("\\", "") and paper.text.endswith(" It grows.\n")
    (fault,) = paper.unsupported
    assert fault.startswith(f"{TEMPLATE}:3: ") and "grows, which is refuted" in fault


GPU_MACHINE = factory.environment("example-gpu", factory.GPU)
IMPOSSIBLY_FAST = factory.record(factory.layer_cases(time=lambda batch: 1e-7 * batch))
FAILED = factory.record([factory.case(4, status="failed", reason="stopped")])


# ``measured``: True if a record has a case that fits all selectors; None if no record is usable.
@pytest.mark.parametrize(("records", "selectors", "measured"), [
    # A device, a factor, a quantity, and all of them in one case.
    ([factory.record()], '"gpu"', False),
    ([factory.record(machine=GPU_MACHINE)], '"gpu"', True),
    ([factory.record()], 'batch=64, pass="forward"', True),
    ([factory.record()], 'batch=63, pass="forward"', False),
    ([factory.record()], '"allocated_peak", "cpu", batch=1', True),
    ([factory.record()], '"page_faults"', False),
    ([factory.measurement()], '"page_faults", "time"', True),
    ([factory.measurement(), factory.record(machine=GPU_MACHINE)], '"page_faults", "gpu"', False),
    # Quick runs, failed cases and impossible records do not count as measurements.
    ([factory.record(plan="custom")], "batch=4", True),
    ([factory.record(plan="quick")], "batch=4", None),
    ([FAILED], "batch=4", None),
    ([IMPOSSIBLY_FAST], "batch=4", None),
    ([IMPOSSIBLY_FAST, factory.record(started="2026-10-01T10:00:00Z")], "batch=4", True),
])  # fmt: skip
def test_a_sentence_may_say_that_a_case_is_unmeasured_until_a_record_has_it(
    records: list[Record], selectors: str, measured: bool | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """All usable records count; with data of another project the sentence is not printed."""
    data = factory.data_folder(tmp_path, *records)
    coverage = covered_cases(usable_records("conv_scaling", data)[0])
    sentence = f"One.\n{{% unmeasured {selectors} %}}\nNobody knows.\n{{% endunmeasured %}}\nTwo.\n"
    (tmp_path / "conv_scaling.qmd.j2").write_text(sentence, "utf-8")

    def manuscript() -> Manuscript:
        return render_document("conv_scaling", data, tmp_path, FINDINGS, {}, coverage)

    assert manuscript() == Manuscript("One.\n\nTwo.\n", FINDINGS, ())
    monkeypatch.setattr("report.engine.writing.PROJECT_DATA", data)
    if measured is None:
        message = "2: batch is no factor of a record; these are: none"
        with pytest.raises(TemplateError, match=message):
            manuscript()
        return
    paper = manuscript()
    assert ("Nobody knows." in paper.text) is not measured
    assert len(paper.unsupported) == measured
    for fault in paper.unsupported:
        assert fault.startswith("templates/papers/conv_scaling.qmd.j2:2: the sentence says that ")
        assert f"data/conv_scaling/{store.record_name(records[-1])} has it" in fault


#: Sentences that deny a measurement.
DENIAL = re.compile(
    r"\bwe (?:did|do|could|have) not "
    r"(?:know|test|measure|time|trace|count|find|determine|force|make)\b"
    r"|\b(?:not|never) (?:been )?(?:tested|measured|traced)\b|\b(?:untested|out of reach)\b"
    r"|\b(?:we have no|traced no|none was|nothing was (?!fitted)|(?:is|are) unknown)\b",
    re.IGNORECASE,
)
#: Blocks in which such sentences are allowed, and which contain no other such block.
UNMEASURED = re.compile(r"\{% unmeasured (?:(?!% unmeasured ).)*?\{% endunmeasured %\}", re.DOTALL)


def test_papers_deny_a_measurement_only_where_the_build_checks_it() -> None:
    unchecked = []
    for path in sorted((ROOT / "templates" / "papers").glob("*.qmd.j2")):
        text, removed = path.read_text("utf-8"), 1
        while removed:  # a block that contained others is removed after them
            text, removed = UNMEASURED.subn("", text)
        unchecked += [f"{path.name}: {denial[0]}" for denial in DENIAL.finditer(text)]
    assert unchecked == []


# Template, line of the fault, and a part of the message.
@pytest.mark.parametrize(("text", "line", "fault"), [
    ("{{ facts.nope }}\n", 1, "nope"),
    ("a\n{% if facts.measured %}\nb\n", 3, "endif"),
    ("a\n{{ v. }}\n", 2, "expected"),
    ("a\n{% include 'nope.j2' %}\n", 2, "nope.j2"),
    # Messages for misspelt names list similar names.
    ("a\n{{ v.kne }}\n", 2, "knee"),
    ("a\n{{ v.knee.mth }}\n", 2, "math"),
    ("a\n{{ facts.sizes.larg }}\n", 2, "near it: large"),
    # Tags with wrong arguments.
    ('a\n{% unmeasured "tpu" %}x{% endunmeasured %}', 2, "tpu is no device or quantity; write cpu"),
    ('a\n{% unmeasured "page_fault" %}x{% endunmeasured %}', 2, "quantity: page_faults"),
    ('a\n{% unmeasured batch=2 batch=3 %}x{% endunmeasured %}', 2, "expected token ','"),
    ('a\n{% holds "nothing" %}x{% endholds %}', 2, "nothing is no claim"),
    ('a\n{% table "tbl-b" %}B.{% endtable %}', 2, "tbl-b is no table of the study"),
    ('{% claims "tbl-c" %}no colon{% endclaims %}', 1, "a claim is «id: sentence»"),
    ('a\n{% holds "grows", "zzz" %}x{% endholds %}', 2, "write supported or refuted"),
    # Tags without a part, or with a part twice.
    ('{% figure "fig-a" %}x{% endfigure %}', 1, "has no alternative text"),
    ('{% holds "linear" %}x', 1, "end"),
    ('{% holds "linear" %}a{% else %}\nb{% else %}c{% endholds %}', 2, "else stands twice"),
    # Templates may not compute numbers; the value knee is 8.
    ("a\n{{ v.knee.plain ~ 0 }}", 2, "80 is typed"),
    ("a\n{{ 3 * 4 }}\n", 2, "the number 12 is none of the study's values"),
    ("a\n{{ v.knee.plain | first }}", 2, "No filter named 'first'"),
    ('a\n{{ facts.devices | join("0") }}', 2, "join separates texts"),
    ("a\n{{ v.knee | md }}", 2, "a filter needs a text"),
    ("a\n{% for d in tables %}{{ loop.index }}{% endfor %}", 2, "the number 1 is none of the"),
    # Characters that cannot be printed.
    ('a\n{{ "\\U000f0000" }}', 2, "no text that can be printed"),
    ("a\n\U000f0000", 2, "a private character; remove it"),
    # Templates may not contain typed numbers.
    ("---\nnames: [x7, about 7]\n---\n", 2, "about 7 could be a result"),
    # Templates may not run code.
    ("a\n{{ cycler.__init__.__globals__.os.popen('id').read() }}\n", 2, "unsafe"),
    ("a\n{{ '{x.__class__}'.format(x=v) }}\n", 2, "not safely callable"),
    ("a\n{{ facts.sizes }}\n", 2, "dict is no text"),
    ("a\n{{ facts.devices.append(v) }}\n", 2, "append"),
    # Templates may not format numbers or print random numbers.
    ("a\n{{ v.knee.as_json() }}\n", 2, "as_json is unknown"),
    ("a\n{{ '{:f}'.format(v.knee.number) }}\n", 2, "not safely callable"),
    ("a\n{{ lipsum() }}\n", 2, "'lipsum' is undefined"),
    ("a\n{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}\n", 2, "itself"),
])  # fmt: skip
def test_faults_in_templates_have_a_line(text: str, line: int, fault: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError) as caught:
        render(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{TEMPLATE}:{line}: ") and "; " in message and "\n" not in message
    assert fault in message


# The headline lists the main claims; the claim linear is about the value knee.
@pytest.mark.parametrize(("headline", "abstract", "message"), [
    ("[linear]", "From {{ v.knee }} on.", ""),
    ("[grows, linear]", "From {{ v.knee.about }} on.", ""),
    ("[grows]", "It grows.", ""),
    ("[]", "From {{ v.knee }} on.", ""),  # without a headline, every value is allowed
    ("[grows]", "From {{ v.knee }} on.", "4: the abstract prints knee, which no claim of headline"),
])  # fmt: skip
def test_an_abstract_prints_only_numbers_of_its_headline(
    headline: str, abstract: str, message: str, tmp_path: Path
) -> None:
    claims = {**FINDINGS.claims, "linear": Claim("linear", "supported", "", numbers=("knee",))}
    front = f"---\nheadline: {headline}\nabstract: |\n  {abstract}\n---\n\nIt is {{{{ v.copy }}}}."
    with pytest.raises(TemplateError, match=message) if message else nullcontext():
        render_template(tmp_path, front, replace(FINDINGS, claims=claims))


def test_a_binary_template_is_named(tmp_path: Path) -> None:
    path = tmp_path / "study.qmd.j2"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(TemplateError, match=rf"^{TEMPLATE}: .*0xe9.*; "):
        render_manuscript(path, FINDINGS)


#: Front matter with two typed numbers, and with names that contain digits.
FRONT_MATTER = """---
title: "Twice 2 as fast"
abstract: |
  It takes 12 ms
  {% if facts.measured %}
  {% endif %}
names: [float32, ResNet-50, RTX 3090, 3 × 3]
headline: [slower]
---
"""
WITH_NAMES = "---\nnames: [float32, RTX 3090, 3 × 3]\n---\n"


@pytest.mark.parametrize(("template", "numbers"), [
    ("a\n\nIt takes 12 ms.", ["3: 12"]),
    ("It is 5 % slower, or 10% or 7\N{NO-BREAK SPACE}%.", ["1: 5 %", "10%", "7 %"]),
    ("It is (3) or -4 or +5 or ×6 or 7×.", ["1: 3", *"4567"]),
    ("It is _5_ or __6__ or *7* or **8** or ~9~.", ["1: 5", *"6789"]),
    ('![Rate](f){#fig-r fig-alt="up to 64 images"}', ["1: 64"]),
    ('::: {.callout-note title="5 rules"}\nx\n:::', ["1: 5"]),
    ("| a | 7 |\n|---|---|\n| b | 8 |", ["1: 7", "8"]),
    (r"$t = 12\,\mathrm{ms}$ and $5 \cdot 64$", ["1: 12", "5", "64"]),
    ("~~~\n5\n~~~\n\n6", ["5: 6"]),
    (FRONT_MATTER, ["2: 2", "12"]),
    # Digits of every script, in any notation of markdown, TeX and YAML.
    ("It is ½ or Ⅷ or ²³ or ٧ or \uff17 or ⑦.", ["1: ½", *"Ⅷ²٧\uff17⑦"]),
    ("It is &#55; or &#x37; or &frac12; or x&half;.", ["1: 7", "7", "½", "½"]),
    ("a\n\nIt is 1*2* or a**7** or a<!-- -->7.", ["3: 12", "7", "7"]),
    ("a\n\n7. one\n8. two", ["3: 7"]),
    (r"$2\,\text{ms}$, $\text{2 ms}$, $1{}2$, $1\,2$, $-2$, $\quad75$", ["1: 2", *"12345"]),
    ('---\ntitle: "\\x37 times"\n---\n', ["2: 7"]),
    (r"\@7.5, a@7.5, a](7.5), @a--7.5 or \`7.5\`", ["1: 7.5", *["7.5"] * 4]),
    ("` a\nb `7.5` c", ["2: 7.5"]),
    # Numbers that an expression prints: its own literals, or slices of the study's texts.
    *((f"a\n{{{{ {words} }}}}", [f"2: {number}"]) for words, number in (
        ("v.knee.plain[:1]", "8"), ('["7.5"][0]', "7.5"), (r'"\x37"', "7"),
        ("claims.grows.because[:3]", "0.9"), ('"9.9" if facts.measured', "9.9"),
    )),
    ('a\n{% set x = "9.9" %}{{ x }}', ["2: 9.9"]),
    ("{% for c in claims.grows.because %}{{ c }}{% endfor %}", ["1: 0.9", "1"]),
    ('{% claims "tbl-c" %}\ngrows: It is 7 `8`.\n{% endclaims %}', ["2: 7", "8"]),
    ('{% holds "grows" %}7{% else %}no{% endholds %}', ["1: 7"]),
    # Only declared, whole names match.
    ("float32 and conv_2", ["1: in float32", "in conv_2"]),
    (f"{WITH_NAMES}float32, 3 × 3, RTX 3090", []),
    (f"{WITH_NAMES}float32.5, xfloat32, -3 × 3", ["4: in float32.5", "in xfloat32", "3", "3"]),
    (f"{WITH_NAMES}RTX 3090 ms", ["4: 3090"]),
    # Digits that are not numbers.
    ("Run `Conv2d(32, 64, 3, 1)` on `26x26`.\n\n```python\nx = 42\n```", []),
    ("A study [@goyal2024conv; @hahn1991intervals, @10.1145/1234] says.", []),
    ("See @fig-time2, @tbl-memory-amd-7763-4t and @sec-2.\n\n# Method {#sec-2 .x3 k=4}", []),
    ('![x](f){#f fig-alt="{{ v.knee }}" width=50%} and $2x = {{ v.knee.math }}$', []),
    ("[text](https://example.org/2024/5) and https://example.org/7.", []),
    ("{{ tables[0] }}{% for i in tables %}x{% endfor %} <!-- 5 -->\n\n#. First", []),
    (r"$F(B) = 2 M(B) = B_1 + 0$ and $2n^3$ and $x_{12} = 3 \cdot B$", []),
    ("$$ V = s (N + B A) $$ {#eq-law}", []),
])  # fmt: skip
def test_typed_numbers_are_refused(template: str, numbers: list[str], tmp_path: Path) -> None:
    """The message names the first typed number with its line ("3: 12"), and counts the others."""
    if not numbers:
        render(tmp_path, template)
        return
    with pytest.raises(TemplateError) as caught:
        render(tmp_path, template)
    message = str(caught.value).replace("\N{NO-BREAK SPACE}", " ")
    place_and_number = re.escape(numbers[0].replace(": ", ": the number ", 1))
    others = rf" \(and {len(numbers) - 1} more\)" if numbers[1:] else ""
    assert re.match(rf"{TEMPLATE}:{place_and_number} is typed into the prose{others}; ", message)


@pytest.mark.parametrize("text", [
    "-{{ v.knee }}", "is − {{ v.knee }}", r"\-{{ v.knee }}", "&minus;{{ v.knee }}",
    "$-${{ v.knee }}", "`-` {{ v.knee }}", "[-]{.x}{{ v.knee }}", "-<!-- -->{{ v.knee }}",
    "minus {{ v.knee }}", "–{{ v.knee }}", "x{{ v.knee }}", ".{{ v.knee }}", "@a{{ v.knee }}",
    "{{ v.knee }}{{ v.knee }}", "{{ v.knee }} {{ v.knee }}", "{{ v.knee }}.{{ v.knee }}",
    "{{ v.knee }},{{ v.knee }}", "{{ v.knee }}**{{ v.knee }}**", "{{ v.knee }}^{{ v.knee }}^",
    "{{ v.knee }}x", "{{ v.knee }} million", "{{ v.knee }}-thousands", "{{ v.knee.bare }} %",
    "{{ v.knee }}`0`", "{{ v.knee }} `000`", "{{ v.knee }}^[x]", "`-{{ v.knee.plain }}`",
    "`{{ v.knee }}`", "[{{ v.knee }}](f)", "[x](f{{ v.knee }})", "${{ v.knee }}$",
    r"$\pm {{ v.knee.math }}$", r"$x \times -{{ v.knee.math }}$",
    "$2{{ v.knee.math }}$", r"$2{}\,{{ v.knee.math }}$",
    "${{ v.knee.math }}^2$", "${{ v.knee.math }}e1$", r"${{ v.knee.math }}\%$",
    r"${{ v.knee.math }}\text{ million}$",
    "-{{ claims.linear.because }}", "{{ claims.linear.because }}{{ v.knee }}",
])  # fmt: skip
def test_text_next_to_a_number_may_not_change_the_number(text: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=rf"^{TEMPLATE}(:3: .*reads as|:3: .*cannot print)"):
        render(tmp_path, f"a\n\n{text}")


def test_numbers_are_allowed_between_words_and_in_formulas(tmp_path: Path) -> None:
    text = (
        "- {{ v.knee }}×, ({{ v.knee }}); {{ v.knee }}–{{ v.knee }}, {{ v.knee }}-fold\n"
        "*{{ v.knee }}* × {{ v.knee }}: {{ v.knee }}. – {{ v.knee }}. `{{ v.knee.plain }}` "
        "$2\\,(dh + {{ v.knee.math }}hk), {{ v.knee.math }}$ "
        "$n - {{ v.knee.math }} = {{ v.knee.math }}\\,\\text{B}$"
    )
    assert render(tmp_path, text).text.count("8") == 14


INTERVAL = Estimate(0.01234, 0.012, 0.013, n=15, confidence=0.95)


def test_bounds_round_outward(tmp_path: Path) -> None:
    """After words such as "up to" and "at least", only the number rounded outward is accepted."""
    values: dict[str, Value] = {}
    text, expected = "", ""
    for number, unit, style, up, down in (
        (1.65, "1", "measured", "1.7", "1.6"),
        (1.6, "1", "measured", "1.6", "1.6"),
        (3 * 0.1, "1", "measured", "0.3", "0.3"),
        (0.9951, "1", "measured", "1", "0.99"),
        (-1.65, "1", "measured", "−1.6", "−1.7"),
        (0.1234, "1", "percent", "13\N{NO-BREAK SPACE}%", "12\N{NO-BREAK SPACE}%"),
        (INTERVAL, "s", "measured", "13\N{NO-BREAK SPACE}ms", "12\N{NO-BREAK SPACE}ms"),
        (1234, "1", "exact", "1,234", "1,234"),
        (0.0, "1", "measured", "0", "0"),
        (Missing("no run"), "1", "measured", "not measured", "not measured"),
    ):
        x = f"x{'abcdefghij'[len(values)]}"
        values[x] = Value(x, "X", number, unit, "x", style=style)
        text += f"Up to {{{{ v.{x}.up_to }}}}, at least about {{{{ v.{x}.from }}}}.\n"
        expected += f"Up to {up}, at least about {down}.\n"
    findings = Findings(values, {}, {})
    printed = render_template(tmp_path, text, findings).text
    assert re.sub(r"\[(.*?)\]\(#v-x.\)\{\.value\}", r"\1", printed) == expected
    for sentence, advice in (
        ("Up to {{ v.X.about }}.", "up; write .up_to"),
        ("*At most* {{ v.X }}.", "up; write .up_to"),
        ("As much as {{ v.X }}.", "up; write .up_to"),
        ("It is at\nmost {{ v.X.from }}.", "up; write .up_to"),
        ("As few as {{ v.X.interval }}.", "down; write .from"),
        ("At least {{ v.X.up_to }}.", "down; write .from"),
    ):
        message = rf"{TEMPLATE}:[12]: .* must be rounded {advice}"
        for rounded in ("xa", "xi"):
            with pytest.raises(TemplateError, match=message):
                render_template(tmp_path, sentence.replace("X", rounded), findings)
        for not_rounded in ("xh", "xj"):
            render_template(tmp_path, sentence.replace("X", not_rounded), findings)


# ---------------------------------------------------------------------------- bibliography

VALID = rb"""% a comment

@article{first,
  author = {Ren{\'e} M{\"u}ller and \O{}. {\AA}s},
  title  = "A {"quoted"} title with \emph{type} \& 5 \% $\times$ \texttt{x}",
  year   = 2001
}

@misc{second, title = {Other},}

% @misc{old,
%   title = {A}, title = {\input{x}},
% }
@stringent{third,}
"""
CROSS_REFERENCE = b"\n@misc{child, crossref = {book}}\n@book{book, title = {B}}\n"


@pytest.mark.parametrize("content", [
    VALID + CROSS_REFERENCE,
    VALID.replace(b"\n", b"\r\n"),
    b"\xef\xbb\xbf" + VALID,
    rb"@misc{a, author={P. Erd{\H{o}}s and \'\i\c c, Z}, title={$n^2\mathrm{x}_2$}, file={a_b%}}",
    b"@misc{long, title = {" + b"x" * 500_000 + b"}}\n",
])  # fmt: skip
def test_valid_entries_are_accepted(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "references.bib").write_bytes(content)
    (tmp_path / "paper").mkdir()
    copy_bibliography(tmp_path, tmp_path / "paper")
    copied = (tmp_path / "paper" / "references.bib").read_bytes()
    assert copied == content.removeprefix(b"\xef\xbb\xbf")


@pytest.mark.parametrize(("old", "new", "fault"), [
    (b"year   = 2001", b"note = {x", "line 3, entry first: expected name = {text} for"),
    (b"2001\n}", b"2001\n}}", "line 3, entry first: expected name = {text}"),
    (b"{second, ", b"{", "line 9, entry @misc{title = {Other},}: expected @type{key,"),
    (b"second", b"First", "line 9, entry First: found this key twice"),
    (b"Other", b"Oth\xe9r", "line 9: found the byte 0xe9, which is not UTF-8"),
    (b"Other", rb"\input{/etc/passwd}", r"entry second: title: found \input; TeX is allowed only"),
    (b"Other", b"^^5cinput{x}", "entry second: title: found ^^"),
    (b"Other}", b"Other}, Title = {x}", "entry second: found the field title twice"),
    (b"{Other},", rb"{a \}, note = {b},", "entry second: expected name = {text}"),
    (b"{Other},", rb'"\{", note = {b}, year = "\}"', "entry second: expected name = {text}"),
    (b"Other", b"half 50% of", r"title: found %, which TeX does not print; write \%"),
    (b"Other", b"R & D", r"title: found &, which TeX does not print; write \&"),
    (b"Other", b"C#", r"title: found #, which TeX does not print; write \#"),
    (b"Other", b"x\\ ", "title: found \\ , which TeX does not print"),
    (b"Other}", b"Other}\xc2\xa0, year = {1}", "entry second: expected name = {text}"),
    (b"title = {Other}", b"url = {JavaScript:x}", "url: found JavaScript:x; expected an address"),
    (b"Other", rb"At \url{data:x}", "title: found data:x; expected an address"),
    (b"Other", rb"At \url|data:x|", "title: found ; expected an address"),
    (b"title = {Other}", rb"doi = {10.1007/x\_1}", r"doi: found 10.1007/x\_1; expected an address"),
    (b"title = {Other}", b"doi = {javascript:x}", "doi: found javascript:x; expected an address"),
    (b"Other", b"{" * 99 + b"}" * 99, "and a brace that closes it"),
    (b"% a comment", b"no comment", "before the first entry: found text"),
    (b"@misc{second", b"@string{s", "entry @string{s, title = {Other},}: expected"),
])  # fmt: skip
def test_damaged_entries_are_named(old: bytes, new: bytes, fault: str, tmp_path: Path) -> None:
    assert old in VALID + CROSS_REFERENCE
    (tmp_path / "references.bib").write_bytes((VALID + CROSS_REFERENCE).replace(old, new, 1))
    remedy = "; fix the entry, or restore the file with git."
    expected = rf"^data/references\.bib: .*{re.escape(fault)}.*{re.escape(remedy)}$"
    with pytest.raises(RecordError, match=expected):
        copy_bibliography(tmp_path, tmp_path / "paper")
    assert not (tmp_path / "paper").exists()


def test_a_fault_of_the_prose_is_reported_before_an_error_that_follows_from_it() -> None:
    def check() -> None:
        raise TemplateError("the fault")

    with pytest.raises(TemplateError, match="the fault"), meanwhile() as start:
        start(check)
        raise RenderError("what follows")
