"""The prose check: a typed result is found with its line, and a name is left alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from report.paper.prose import typed_results

FRONT = """---
title: "T"
abstract: |
  A
  {% if facts.measured %}
  More of it.
  {% endif %}
keywords: [a, k]
date-format: 2026
---

Text.
"""


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("It takes 12 ms.", [(1, "12")]),
        ("It does 21,233,664 operations.", [(1, "21,233,664")]),
        ("It is 5 % slower, or 10% or 7\N{NO-BREAK SPACE}%.", [(1, "5 %"), (1, "10%"), (1, "7 %")]),
        ("ResNet-50 and VGG-16 on AVX-512, batch-10.", [(1, "10")]),
        ("It is (3) or -4 or +5 or ×6 or 7×.", [(1, n) for n in "34567"]),
        ("It is _5_ or __6__ or *7* or **8** or ~9~.", [(1, n) for n in "56789"]),
        ("# Section 2 {#sec-two}", [(1, "2")]),
        ("![Rate at 64 images](figures/rate2){#fig-rate}", [(1, "64")]),
        ('![Rate](f){#fig-r fig-alt="up to 64 images"}', [(1, "64")]),
        ('::: {.callout-note title="5 rules"}\nx\n:::', [(1, "5")]),
        ("::: {#tbl-a}\n| a | 7 |\n\nCaption with 8.\n:::", [(2, "7"), (4, "8")]),
        ("It costs $1 to $2.", [(1, "1"), (1, "2")]),
        ("$t = 0.5$ and $3 s$", [(1, "0.5"), (1, "3")]),
        (r"$t = 12\,\mathrm{ms}$ and $5 \cdot 64$", [(1, "12"), (1, "5"), (1, "64")]),
        ("$B = 147x$ and $n^{147}$ and $12 ms$", [(1, "147"), (1, "12")]),
        ("{{ 42 }} and {{ '5 ms' }} and {{- 6.5 }}", [(1, "42"), (1, "5"), (1, "6.5")]),
        ("~~~\n5\n~~~\n6", [(4, "6")]),
        (FRONT.replace("T", "Twice 2 as fast", 1), [(2, "2")]),
        (FRONT.replace("  A", "  It takes 12 ms"), [(4, "12")]),
    ],
)
def test_typed_results_are_found(template: str, found: list[tuple[int, str]]) -> None:
    # A no-break space may stand between number and sign.
    shown = [
        (line, number.replace("\N{NO-BREAK SPACE}", " "))
        for line, number in typed_results(template)
    ]
    assert shown == found


@pytest.mark.parametrize(
    "template",
    [
        "The type float32 and Conv2d and conv_2 and x86_64.",
        "Run `Conv2d(32, 64, 3, 1)` on `26x26`.",
        "```python\nx = 42\n```",
        "A study [@goyal2024conv; @hahn1991intervals, @10.1145/1234] says.",
        "See @fig-time2, @tbl-memory-amd-7763-4t and @sec-2.",
        "# Method {#sec-2 .x3 k=4}",
        "![Rate](figures/rate-64){#fig-64 width=50% layout-ncol=2}",
        "::: {.columns layout-ncol=2}\nText.\n:::",
        "[text](https://example.org/2024/5) and https://example.org/7.",
        "<!-- 5 left to do -->",
        "{{ v.time_2 }} and {{ tables['tbl-2'] }}",
        "{{ 'hold' if facts.devices | length > 1 else 'holds' }}",
        "{% for i in range(3) %}x{% endfor %}",
        "$F(B) = 2 M(B) = B_1 + 0$",
        r"$2n^3$ and $x_{12} = 3 \cdot B$",
        "$$ V = s (N + B A) $$ {#eq-2}",
        "m² and 10\N{SUPERSCRIPT THREE}".replace("10", "k"),
        FRONT,
    ],
)
def test_names_are_left_alone(template: str) -> None:
    assert typed_results(template) == ()


WORDS = st.text(st.sampled_from("abcdefgh .,;:!?()-–×±\"'/%&=+"), max_size=30)


@given(
    st.lists(st.text(st.sampled_from("abc ."), max_size=20), max_size=5),
    WORDS,
    st.integers(0, 10**9) | st.floats(0.001, 1e6).map(lambda x: f"{x:.3f}"),
    WORDS,
)
@example([], "", 0, "")
@example(["a."], "x.", 5, "x")
def test_a_number_anywhere_in_a_paragraph_is_found(
    above: list[str], before: str, number: object, after: str
) -> None:
    # A letter right before a digit makes a name of it, such as float32.
    apart = before + " " if before[-1:].isalpha() else before
    template = "\n".join([*above, f"a {apart}{number}{after}"])
    found = typed_results(template)
    assert any(line == len(above) + 1 and str(number).startswith(n[:1]) for line, n in found)
