"""The project of all papers that ``quarto render`` makes a website and PDFs of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from report.render.pandoc import TEMPLATES
from report.render.shell import Settings
from report.render.source import Source, read_source

#: The settings of the project and the classes of its PDFs, the extension and the preamble.
_TEMPLATES: Final = TEMPLATES / "quarto"
_PREAMBLE: Final = "../ridgepoint.tex"


def write_project(
    sources: Mapping[str, Path], target: Path, entries: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write the Quarto project of the papers ``study -> source folder`` into ``target``.

    ``entries`` are the ``title`` and the ``abstract`` of each.  Returns the path of its
    ``_quarto.yml``; raises ``RenderError``.
    """
    project: dict[str, Any] = yaml.safe_load((_TEMPLATES / "_quarto.yml").read_text("utf-8"))
    pages = {f"{study}/{study}.qmd": entry for study, entry in entries.items()}
    project["project"]["render"] += pages
    project["website"]["title"] = Settings().title
    project["website"]["sidebar"]["contents"] = [
        {"href": page, "text": entry["title"]} for page, entry in pages.items()
    ]
    for study, folder in sources.items():
        kept_here = shutil.ignore_patterns("values.json", "_quarto.yml")
        shutil.copytree(folder, target / study, ignore=kept_here, dirs_exist_ok=True)
        metadata = _metadata(read_source(folder, study), project["format"]["html"])
        _write(target / study / "_metadata.yml", _yaml(metadata))
    extension = target / "_extensions" / "ridgepoint"
    extension.mkdir(parents=True, exist_ok=True)
    for name in ("quarto/_extension.yml", "quarto/ridgepoint.lua", "filter/tabular.lua"):
        shutil.copyfile(TEMPLATES / name, extension / Path(name).name)
    for name in ("numeric.csl", "quarto/ridgepoint.tex"):
        shutil.copyfile(TEMPLATES / name, target / Path(name).name)
    papers = (f"## [{e['title']}]({page})\n\n{e['abstract']}\n\n" for page, e in pages.items())
    head = f"---\ntitle: {json.dumps(Settings().title)}\n---\n\n{Settings().lead}\n\n"
    _write(target / "index.qmd", head + "".join(papers))
    return _write(target / "_quarto.yml", _yaml(project))


def _metadata(paper: Source, html: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a paper's ``_metadata.yml``: its formats, with the class of its style."""
    classes = yaml.safe_load((_TEMPLATES / "styles.yml").read_text("utf-8"))
    pdf = {
        "default-image-extension": "pdf",
        "include-in-header": _PREAMBLE,
        "keep-tex": True,
        **classes[paper.style],
        **({"toc": paper.contents_in(page=False)} if paper.one_column else {}),
    }
    return {"format": {"html": {**html, "toc": paper.contents_in(page=True)}, "pdf": pdf}}


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=1000)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8", newline="\n")
    return path
