"""Multiply-adds of a transformer per token, from the configuration file that comes with it.

Products of matrices count, embeddings and normalisations do not.  Attention over a sequence of S
tokens has 2 · S · heads · head size multiply-adds per token and layer where every score is counted
(full), and the mean over its tokens, with (S + 1) / 2 for S, where later ones are masked (causal).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from report.core.errors import UsageError

#: Matrices of the feed-forward network by the field ``model_type``: with a gate three, else two.
_MATRICES: Final = {
    **dict.fromkeys(("gpt2", "gpt_neox", "opt", "bloom", "gpt_neo", "gptj"), 2),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo2"), 3),
}


@dataclass(frozen=True)
class Transformer:
    """Extents of a decoder whose layers are alike."""

    layers: int
    hidden: int
    heads: int
    key_heads: int
    head_size: int
    inner: int
    matrices: int
    vocabulary: int

    @property
    def matrix_macs(self) -> int:
        """Forward multiply-adds per token of all matrices, with that of the output layer."""
        queries = 2 * self.hidden * self.heads * self.head_size
        keys = 2 * self.hidden * self.key_heads * self.head_size
        feed_forward = self.matrices * self.hidden * self.inner
        return self.layers * (queries + keys + feed_forward) + self.hidden * self.vocabulary

    def attention_macs(self, sequence: Fraction, causal: bool) -> Fraction:
        """Forward multiply-adds per token of scores and of their products with the values."""
        seen = (sequence + 1) / 2 if causal else sequence
        return 2 * self.layers * self.heads * self.head_size * seen


def read_transformer(path: Path) -> Transformer:
    """Read a ``config.json``; raise ``UsageError`` for a model whose work is not known."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
        kind = content["model_type"]
        if kind not in _MATRICES:
            known = ", ".join(sorted(_MATRICES))
            raise UsageError(f"{path}: model_type {kind!r} is not counted; possible are {known}.")
        hidden = _field(content, "hidden_size", "n_embd")
        heads = _field(content, "num_attention_heads", "n_head")
        return Transformer(
            layers=_field(content, "num_hidden_layers", "n_layer"),
            hidden=hidden,
            heads=heads,
            key_heads=content.get("num_key_value_heads") or heads,
            head_size=content.get("head_dim") or hidden // heads,
            inner=_field(content, "intermediate_size", "n_inner", "ffn_dim", default=4 * hidden),
            matrices=_MATRICES[kind],
            vocabulary=_field(content, "vocab_size"),
        )
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError) as error:
        reason = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path}: no configuration of a transformer: {reason}.") from None


def _field(content: dict[str, Any], *names: str, default: int | None = None) -> int:
    """Return the first of the fields that holds a number."""
    for name in names:
        if content.get(name) is not None:
            return int(content[name])
    if default is None:
        raise KeyError(names[0])
    return default
