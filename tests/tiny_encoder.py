"""A BERT encoder with random weights, small enough to be computed element by element."""

from types import SimpleNamespace

import numpy as np

from layernorm_backward.encoder.bert import Shape, Weights
from layernorm_backward.encoder.pretrained import Encoder

HIDDEN, WIDE, WORDS, PLACES = 8, 12, 20, 32
SHAPE = Shape(layers=2, heads=2, eps=1e-5)


def weights(hidden: int = HIDDEN) -> Weights:
    """Random weights under the names of a published model, gamma about 1."""
    rng = np.random.default_rng(5)
    found = {}

    def draw(name: str, *shape: int) -> None:
        found[name] = (0.5 * rng.standard_normal(shape)).astype(np.float32)

    def norm(prefix: str) -> None:
        draw(f"{prefix}.LayerNorm.weight", hidden)
        found[f"{prefix}.LayerNorm.weight"] += 1
        draw(f"{prefix}.LayerNorm.bias", hidden)

    for name, count in (("word", WORDS), ("position", PLACES), ("token_type", 2)):
        draw(f"embeddings.{name}_embeddings.weight", count, hidden)
    norm("embeddings")
    for layer in range(SHAPE.layers):
        prefix = f"encoder.layer.{layer}"
        maps = {f"attention.self.{part}": (hidden, hidden) for part in ("query", "key", "value")}
        maps |= {"attention.output.dense": (hidden, hidden)}
        maps |= {"intermediate.dense": (WIDE, hidden), "output.dense": (hidden, WIDE)}
        for name, shape in maps.items():
            draw(f"{prefix}.{name}.weight", *shape)
            draw(f"{prefix}.{name}.bias", shape[0])
        norm(f"{prefix}.attention.output")
        norm(f"{prefix}.output")
    return found


class Tokenizer:
    """One token per word, whose id is the number of its letters, between [CLS] and [SEP]."""

    def encode(self, sentence: str) -> SimpleNamespace:
        words = sentence.split()
        return SimpleNamespace(
            tokens=["[CLS]", *words, "[SEP]"], ids=[1, *(len(word) % WORDS for word in words), 2]
        )


def encoder(hidden: int = HIDDEN) -> Encoder:
    return Encoder(weights(hidden), SHAPE, Tokenizer())
