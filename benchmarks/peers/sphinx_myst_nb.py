"""Sphinx with MyST-NB, whose cache keeps the results of notebooks that were executed."""

from __future__ import annotations

from typing import Final

from benchmarks.peers.myst import code_cells
from benchmarks.peers.peer import Peer
from benchmarks.peers.work import DOCUMENTS, text

_CONF: Final = """\
project = "Five papers"
extensions = ["myst_nb"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_cache_path = "build/.jupyter_cache"
exclude_patterns = ["build"]
"""

#: Parallel readers would all create the cache's database at once, and all but one of them fail.
_BUILD: Final = """\
set -eu
cache=build/.jupyter_cache
[ -e $cache/global.db ] || python -c "from jupyter_cache import get_cache; get_cache('$cache').db"
sphinx-build -q -b html -j auto . build/html
"""

_OPENING: Final = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# {title}

```{{code-cell}} python3
:tags: [remove-cell]
from IPython.display import SVG, Markdown
from myst_nb import glue

from drawing import svg
from results_of import load, memory_table, numbers, pipe_table, time_table

data = load("{document}")
for name, number in numbers(data).items():
    glue(name, number, display=False)
```"""

SYNTAX: Final = code_cells(
    _OPENING,
    number=lambda name: f"{{glue:text}}`{name}`",
    heading="##",
)


def files() -> dict[str, str]:
    """The configuration, an index and the five notebooks in Markdown."""
    listed = "\n".join(DOCUMENTS)
    return {
        "build.sh": _BUILD,
        "conf.py": _CONF,
        "index.md": f"# Five papers\n\n```{{toctree}}\n{listed}\n```\n",
        **{f"{document}.md": text(document, SYNTAX) for document in DOCUMENTS},
    }


PEER: Final = Peer(
    name="sphinx_myst_nb",
    title="Sphinx + MyST-NB",
    makes="HTML",
    caching='`nb_execution_mode = "cache"`, Sphinx\'s own environment, `-j auto`',
    kit="sphinx_myst_nb",
    files=files,
    modules=("results_of.py", "drawing.py"),
    source="{document}.md",
    page="build/html/{document}.html",
    command=("sh", "build.sh"),
    built=("build", "jupyter_execute"),
)
