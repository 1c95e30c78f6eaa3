"""How a paper is cited."""

from __future__ import annotations

from collections.abc import Sequence

from report.text.escape import bibtex, latex


def bibtex_entry(
    study: str, title: str, authors: Sequence[str], day: str | None, url: str = ""
) -> str:
    """The entry of a paper for BibTeX, in ASCII, from plain texts.

    ``day`` is that of the newest record (ISO 8601), None where nothing was measured; ``url`` is the
    address of its page, empty where it is not known.
    """
    fields = {
        "title": f"{{{_text(title)}}}",
        # An organization would else be taken for a first and a last name.
        "author": " and ".join(f"{{{_text(author)}}}" for author in authors),
        **({"year": day[:4], "note": f"Data of {day}"} if day else {}),
        **({"url": url} if url else {}),
    }
    lines = "".join(f"  {name} = {{{content}}},\n" for name, content in fields.items())
    return f"@misc{{{study},\n{lines}}}\n"


def _text(text: str) -> str:
    return bibtex(latex(text))
