"""How a paper is cited: for BibTeX, as a citation file, and for search engines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from report.text.escape import bibtex, latex


@dataclass(frozen=True)
class Work:
    """What is said of a paper where it is cited; all texts are plain.

    ``authors`` have a ``name``, and maybe an ``affiliation`` and an ``orcid``.  ``day`` is that of
    the newest record (ISO 8601), None where nothing was measured; it is also the paper's version.
    ``url`` is the address of its page, empty where it is not known.
    """

    study: str
    title: str
    authors: Sequence[Mapping[str, str]]
    description: str = ""
    keywords: Sequence[str] = ()
    day: str | None = None
    url: str = ""
    licence: str | None = None


def bibtex_entry(work: Work) -> str:
    """The entry of a paper for BibTeX, in ASCII."""
    fields = {
        "title": f"{{{_text(work.title)}}}",
        # An organization would else be taken for a first and a last name.
        "author": " and ".join(f"{{{_text(author['name'])}}}" for author in work.authors),
        **({"year": work.day[:4], "note": f"Data of {work.day}"} if work.day else {}),
        **({"url": work.url} if work.url else {}),
    }
    lines = "".join(f"  {name} = {{{content}}},\n" for name, content in fields.items())
    return f"@misc{{{work.study},\n{lines}}}\n"


def citation_file(work: Work) -> str:
    """The paper in the Citation File Format 1.2.0 (https://citation-file-format.github.io)."""
    # A name is not taken apart, as the format's persons are; hence all authors are entities.
    authors = [
        {"name": author["name"], **_if("orcid", _orcid_address(author))} for author in work.authors
    ]
    content = {
        "cff-version": "1.2.0",
        "message": "If you use this paper or its data, please cite it as below.",
        "type": "dataset",
        "title": work.title,
        "authors": authors,
        **_if("abstract", work.description),
        **_if("keywords", list(work.keywords)),
        **_if("version", work.day),
        **_if("date-released", work.day),
        **_if("url", work.url),
    }
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=96)
    return text


def linked_data(work: Work) -> dict[str, Any]:
    """The paper as JSON-LD in the words of https://schema.org."""
    return {
        "@context": "https://schema.org",
        "@type": "ScholarlyArticle",
        "headline": work.title,
        "author": [
            {
                "@type": "Person" if "orcid" in author else "Thing",
                "name": author["name"],
                **_if("affiliation", author.get("affiliation")),
                **_if("identifier", _orcid_address(author)),
            }
            for author in work.authors
        ],
        **_if("abstract", work.description),
        **_if("keywords", list(work.keywords)),
        **_if("version", work.day),
        **_if("datePublished", work.day),
        **_if("url", work.url),
        **_if("license", work.licence),
        "isAccessibleForFree": True,
    }


def as_data_block(content: Mapping[str, Any]) -> str:
    """JSON that can stand in an element ``script`` of a page, which ``</script>`` would end."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _orcid_address(author: Mapping[str, str]) -> str:
    return f"https://orcid.org/{author['orcid']}" if "orcid" in author else ""


def _if(key: str, content: object) -> dict[str, object]:
    return {key: content} if content else {}


def _text(text: str) -> str:
    return bibtex(latex(text))
