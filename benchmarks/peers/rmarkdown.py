"""R Markdown with knitr's cache; numbers and tables in R, the four figures by matplotlib."""

from __future__ import annotations

from typing import Final

from benchmarks.peers.peer import Peer
from benchmarks.peers.work import DOCUMENTS, Syntax, text

_OPENING: Final = """\
---
title: {title}
output: html_document
---

```{{r setup, include=FALSE}}
knitr::opts_chunk$set(echo = FALSE, python.reticulate = FALSE)
source("results_of.R")
data <- jsonlite::fromJSON("data/{document}.json")
numbers <- numbers_of(data)
```"""

#: knitr runs such a chunk as a Python process of its own and keeps what it printed.
_FIGURE: Final = """\
```{{python {name}, cache=TRUE, results='asis', python.reticulate=FALSE}}
from base64 import b64encode
from drawing import svg
from results_of import load
drawn = b64encode(svg("{name}", load("{document}")).encode()).decode()
print(f'<img alt="The {name} of the data" src="data:image/svg+xml;base64,{{drawn}}">')
```"""

_TABLE: Final = """\
```{{r {name}}}
knitr::kable({name}_table(data), align = "r")
```"""

#: The same numbers as in ``shared/results_of.py``.
_NUMBERS: Final = """\
spelled <- function(x, digits = 0) formatC(x, format = "f", digits = digits, big.mark = ",")
plain <- function(x, digits = 0) formatC(x, format = "f", digits = digits)

numbers_of <- function(d) {
  forward <- 1e3 * apply(d$forward_s, 1, median)
  backward <- 1e3 * apply(d$backward_s, 1, median)
  n <- length(d$batch)
  list(
    largest = plain(d$batch[n]),
    samples = plain(length(d$forward_s) + length(d$backward_s)),
    first = plain(forward[1], 3),
    last = plain(forward[n], 3),
    slope = plain(1e3 * coef(lm(forward ~ d$batch))[[2]], 1),
    ratio = plain(exp(mean(log(backward / forward))), 3),
    rate = plain(1e3 * d$batch[n] / forward[n]),
    peak = spelled(d$peak_bytes[n]),
    growth = plain(d$peak_bytes[n] / d$peak_bytes[1], 2)
  )
}

times_table <- function(d) data.frame(
  Batch = d$batch,
  Forward = plain(1e3 * apply(d$forward_s, 1, median), 3),
  Backward = plain(1e3 * apply(d$backward_s, 1, median), 3),
  Samples = ncol(d$forward_s)
)

memory_table <- function(d) data.frame(
  Batch = d$batch,
  Peak = spelled(d$peak_bytes),
  "Per image" = spelled(d$peak_bytes / d$batch, 1),
  check.names = FALSE
)
"""

SYNTAX: Final = Syntax(
    opening=lambda document, title: _OPENING.format(document=document, title=title),
    number=lambda name: f"`r numbers${name}`",
    figure=lambda document, name: _FIGURE.format(document=document, name=name),
    table=lambda _, name: _TABLE.format(name=name),
)

_RENDER: Final = 'rmarkdown::render(commandArgs(TRUE)[1], output_dir = "html", quiet = TRUE)'
_ALL: Final = f"""\
set -eu
printf '%s\\n' {" ".join(f"{document}.Rmd" for document in DOCUMENTS)} |
  xargs -n 1 -P "$(getconf _NPROCESSORS_ONLN)" Rscript render.R
"""


def files() -> dict[str, str]:
    """The numbers in R, the script that renders all documents at once, and the documents."""
    return {
        "results_of.R": _NUMBERS,
        "render.R": _RENDER + "\n",
        "all.sh": _ALL,
        **{f"{document}.Rmd": text(document, SYNTAX) for document in DOCUMENTS},
    }


PEER: Final = Peer(
    name="rmarkdown",
    title="R Markdown",
    makes="HTML",
    caching="knitr's `cache=TRUE` for the figures",
    kit="rmarkdown",
    files=files,
    modules=("results_of.py", "drawing.py"),
    source="{document}.Rmd",
    page="html/{document}.html",
    command=("sh", "all.sh"),
    built=(
        "html",
        *(f"{document}_{kind}" for document in DOCUMENTS for kind in ("cache", "files")),
    ),
)
