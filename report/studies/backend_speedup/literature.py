"""What was written before, as a table: every work by its key in the bibliography."""

from __future__ import annotations

from typing import Final

from report.paper.tables import Cell, Citation, Column, Table

#: Key, subject, how it was studied, what was found, and where it stops.  Findings are those that
#: the works state in their abstracts, in own words.
_WORKS: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    (
        "kirk2016programming",
        "Programming of GPUs",
        "Textbook on CUDA",
        "Explains why GPUs favour throughput and CPUs latency, and what a program must do for it",
        "NVIDIA hardware only",
    ),
    (
        "chellapilla2006high",
        "Convolution networks on CPU and GPU",
        "Convolution unfolded into a matrix product; BLAS; pixel shaders",
        "Unfolding with BLAS gains 2.4 to 3.0 times, the GPU 3.1 to 4.1 times",
        "Hardware of its time, before CUDA",
    ),
    (
        "strigl2010performance",
        "Convolution networks with CUDA",
        "One framework on CPU and GPU, several sizes of network",
        "The GPU is 2 to 24 times as fast, and gains more the larger the network is",
        "One kind of network",
    ),
    (
        "choi2017cuda",
        "Convolution network with CUDA",
        "Implementation from scratch",
        "Cited by the source study; we could not read more of it than its title",
        "Not known to us",
    ),
    (
        "lee2010debunking",
        "CPU against GPU",
        "A set of kernels, tuned on both sides",
        "Gaps of 10 to 1,000 times shrink to 2.5 times on average once both sides are tuned",
        "Kernels, not whole programs",
    ),
    (
        "gregg2011where",
        "Cost of transfers",
        "Kernels timed with and without their copies",
        "With its copies a kernel takes 2 to 50 times as long as without",
        "Kernels with one call each",
    ),
    (
        "shi2016benchmarking",
        "Deep-learning frameworks",
        "Five frameworks, three kinds of networks, CPUs and GPUs",
        "No framework is fastest everywhere",
        "Whole frameworks, not their operations",
    ),
    (
        "hoefler2015benchmarking",
        "How to report performance",
        "Rules, and a survey of published results",
        "A speed-up needs its base in absolute terms, and every time its spread",
        "General; no networks",
    ),
)


def literature() -> Table:
    """The works that this study builds on."""
    rows: tuple[tuple[Cell, ...], ...] = tuple((Citation(key), *words) for key, *words in _WORKS)
    return Table(
        "tbl-literature",
        "What was written before.",
        (
            Column("Work"),
            Column("Subject"),
            Column("How it was studied"),
            Column("What was found"),
            Column("Where it stops"),
        ),
        rows,
        wide=True,
    )
