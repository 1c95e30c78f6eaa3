"""Items of the source (the audited publication), and what we measured for each of them."""

from typing import Final

#: Rows of a table: an item of the source, what we measured instead, and the result.
ACCOUNT: Final = (
    ("Fig. 1, bottom; peak grows with the batch", "another GPU and cuDNN", "not in general"),
    ("Fig. 3, bottom; average memory in FP16", "peaks on a GPU", "saves or costs memory"),
    ("Fig. 5, bottom; peak with AMP + AMC", "both settings on a CPU", "save more together"),
    ("Section III-B; Mini-ImageNet", "random images of the size", "bytes depend on shapes only"),
    ("Section III-B; pixels a side of CIFAR-10", "those of the data set", "source differs"),
    ("Fig. 6; larger tiles: faster, more average memory", "time, peak on a CPU", "agrees"),
    ("Figs. 3 and 5, top, 4, 7; time, accuracy", "no question of memory", "left out"),
    ("Figs. 1, top, 2; Sections I, III, V; time, depth, waits", "few or no values", "left out"),
)
