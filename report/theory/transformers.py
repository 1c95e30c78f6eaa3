"""Multiply-adds of a transformer per token, from the model's ``config.json``.

Only matrix products count.  Full attention over a sequence of S tokens has 2 · S · heads · head
size multiply-adds per token and layer.  Causal attention masks later tokens, so that a token has
(S + 1) / 2 keys on average; this number replaces S.
"""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from report.core.errors import UsageError

#: ``model_type`` → matrices in the feed-forward network: three if it has a gate, else two.
_FEED_FORWARD_MATRICES: Final = {
    **dict.fromkeys(("gpt2", "gpt_neox", "opt", "bloom", "gpt_neo", "gptj"), 2),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo2"), 3),
}


@dataclass(frozen=True)
class Transformer:
    """Forward multiply-adds per token in weight matrices; layers × heads × head size."""

    matrix_macs: int
    attention_width: int

    def attention_macs(self, sequence: Fraction, causal: bool) -> Fraction:
        """Return attention's forward multiply-adds per token, without projections."""
        mean_keys = (sequence + 1) / 2 if causal else sequence
        return 2 * self.attention_width * mean_keys


def read_transformer(path: Path) -> Transformer:
    """Read a ``config.json``; raise ``UsageError`` if it lacks a field or its type is unknown."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
        kind = content["model_type"]
        if kind not in _FEED_FORWARD_MATRICES:
            known = ", ".join(sorted(_FEED_FORWARD_MATRICES))
            raise UsageError(f"{path}: model_type {kind!r} is not counted; possible are {known}.")
        layers = _field(content, "num_hidden_layers", "n_layer")
        hidden = _field(content, "hidden_size", "n_embd")
        heads = _field(content, "num_attention_heads", "n_head")
        head_size = _field(content, "head_dim", default=hidden // heads)
        key_heads = _field(content, "num_key_value_heads", default=heads)
        inner = _field(content, "intermediate_size", "n_inner", "ffn_dim", default=4 * hidden)
        projections = 2 * (heads + key_heads) * head_size
        layer = hidden * (projections + _FEED_FORWARD_MATRICES[kind] * inner)
        output = hidden * _field(content, "vocab_size")
        return Transformer(layers * layer + output, layers * heads * head_size)
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError) as error:
        reason = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path}: no configuration of a transformer: {reason}.") from None


def _field(content: dict[str, Any], *names: str, default: int | None = None) -> int:
    """Return the first value of the fields ``names``, else ``default``; may raise ``KeyError``."""
    for name in names:
        if content.get(name) is not None:
            return int(content[name])
    if default is None:
        raise KeyError(names[0])
    return default
