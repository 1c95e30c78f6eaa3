"""The page of a paper as one HTML file that holds all it shows, to be sent or handed in."""

from __future__ import annotations

import base64
import hashlib
import html
import mimetypes
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

#: The scripts that a page loads when something is opened, as ``script_of`` writes them.
_BUNDLED = re.compile(r"\(globalThis\.ridgepoint \?\?= \{\}\)\.(\w+) = (.*);\n", re.DOTALL)
_POLICY = re.compile(r'(?<=<meta http-equiv="Content-Security-Policy" content=")[^"]*')
_STYLE = re.compile(r'<link rel="stylesheet" href="([^"]+)">')
_SCRIPT = re.compile(r'<script src="([^"]+)"( defer)?></script>\n?')
_IMAGE = re.compile(r'(?<=<img class="drawn" src=")[^":]+')
_PICTURE = re.compile(r'(?<=<a class="picture" href=")[^":]+')
_OFFERED = re.compile(r'<a\b([^>]*)\shref="([^":#]+)"([^>]*)>(.*?)</a>', re.DOTALL)
#: Files that are offered within the page; others stand as words.
_CARRIED: Final = (".csv", ".bib")
mimetypes.add_type("text/plain", ".bib")


def single_file(folder: Path) -> str:
    """The page in ``folder``, which is a site by itself, with all files that it shows in it.

    Links to tables and entries lead to their content; what is offered beside them is left out.
    """
    page = (folder / "index.html").read_text("utf-8")
    bundle = _bundle(folder, sorted(folder.glob("*.js")), sorted(folder.glob("figures/*.js")))
    scripts = [(_read(folder, each[1]), bool(each[2])) for each in _SCRIPT.finditer(page)]
    now = [text for text, later in scripts if not later]
    later = [bundle, *(text for text, later in scripts if later)]
    styles = [_read(folder, match[1]) for match in _STYLE.finditer(page)]
    page = _SCRIPT.sub("", _STYLE.sub("", page))
    page = _PICTURE.sub("#content", _IMAGE.sub(lambda match: _data(folder, match[0]), page))
    page = _OFFERED.sub(_carried(folder), page)
    head = "".join(f"<style>{text}</style>\n" for text in styles) + _elements(now)
    page = page.replace("</head>", f"{head}</head>", 1)
    page = page.replace("</body>", f"{_elements(later)}</body>", 1)
    return _POLICY.sub(lambda _: _policy([*now, *later], styles), page)


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text("utf-8")


def _elements(scripts: Iterable[str]) -> str:
    return "".join(f"<script>{text}</script>\n" for text in scripts)


def _bundle(folder: Path, *groups: Iterable[Path]) -> str:
    """A script with what the others would load: address → {name: content}."""
    entries = []
    for path in (path for group in groups for path in group):
        found = _BUNDLED.fullmatch(path.read_text("utf-8"))
        assert found, f"{path.name} is not as script_of writes it"
        # Within a script only a «<» could end the element.
        content = found[2].replace("<", "\\u003c")
        entries.append(f'"{path.relative_to(folder).as_posix()}":{{"{found[1]}":{content}}}')
    return f"(globalThis.ridgepoint ??= {{}}).bundled = {{{','.join(entries)}}};\n"


def _data(folder: Path, name: str) -> str:
    """The file as an address that holds its content."""
    path = folder / html.unescape(name)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _carried(folder: Path) -> Callable[[re.Match[str]], str]:
    def replaced(link: re.Match[str]) -> str:
        before, address, after, words = link.groups()
        if not address.endswith(_CARRIED):
            return words if "download" in after else ""
        name = f' download="{html.escape(Path(address).name)}"'
        rest = after.replace(' download=""', "").replace(" download", "")
        return f'<a{before} href="{_data(folder, address)}"{name}{rest}>{words}</a>'

    return replaced


def _policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Only these scripts and styles, by their digests, and pictures of the page's own."""

    def sources(texts: Iterable[str]) -> str:
        digests = (hashlib.sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)

    return (
        f"default-src 'none'; script-src {sources(scripts)}; style-src {sources(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
