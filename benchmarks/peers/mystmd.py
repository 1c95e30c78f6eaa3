"""mystmd, whose cache keeps the results of the code cells of a page."""

from __future__ import annotations

from typing import Final

from benchmarks.peers.myst import code_cells
from benchmarks.peers.peer import Peer
from benchmarks.peers.work import DOCUMENTS, text

_CONFIGURATION: Final = """\
version: 1
project:
  title: Five papers
  toc:
    - file: index.md
{listed}
site:
  title: Five papers
  template: ./theme
"""

#: The real theme comes from a server that registries do not mirror.  Building the content of a site
#: needs a theme's description only, not the theme.
_THEME: Final = """\
myst: v1
title: No theme
description: Only the content of the site is built
version: 1.0.0
license: MIT
build:
  install: "true"
  start: "true"
"""

_OPENING: Final = """\
---
title: {title}
kernelspec:
  name: python3
  display_name: Python 3
---

```{{code-cell}} python3
:tags: [remove-cell]
from IPython.display import SVG, Markdown

from drawing import svg
from results_of import load, memory_table, numbers, pipe_table, time_table

data = load("{document}")
found = numbers(data)
```"""

SYNTAX: Final = code_cells(
    _OPENING,
    number=lambda name: f'{{eval}}`found["{name}"]`',
)


def files() -> dict[str, str]:
    """The configuration, an index and the five pages with their code cells."""
    listed = "\n".join(f"    - file: {document}.md" for document in DOCUMENTS)
    return {
        "myst.yml": _CONFIGURATION.format(listed=listed),
        "theme/template.yml": _THEME,
        "index.md": "# Five papers\n\nMade-up papers for a benchmark.\n",
        **{f"{document}.md": text(document, SYNTAX) for document in DOCUMENTS},
    }


PEER: Final = Peer(
    name="mystmd",
    title="mystmd",
    makes="the pages' content in JSON, which its theme turns into HTML",
    caching="its execution cache in `_build`",
    kit="mystmd",
    files=files,
    modules=("results_of.py", "drawing.py"),
    source="{document}.md",
    page="_build/site/content/{document}.json",
    command=("myst", "build", "--ci", "--site", "--execute", "--execute-parallel", "{cores}"),
    built=("_build",),
)
