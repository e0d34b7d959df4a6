"""The encoder: a forward pass checked number by number, the text it reads, and the installed model."""

import math
import tomllib

import numpy as np
import pytest

import tiny_encoder
from layernorm_backward.encoder import bert, pretrained, text
from layernorm_backward.experiments import model, model_error
from workspace import ROOT

IDS = ([1, 7, 4, 4, 2], [3, 11, 2])


def dense(weights, name, row):
    matrix, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return [
        sum(float(w) * x for w, x in zip(line, row, strict=True)) + float(b)
        for line, b in zip(matrix, bias, strict=True)
    ]


def normed(weights, prefix, row):
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + tiny_encoder.SHAPE.eps)
    affine = zip(row, weights[f"{prefix}.weight"], weights[f"{prefix}.bias"], strict=True)
    return [(x - mean) / deviation * float(gamma) + float(beta) for x, gamma, beta in affine]


def attended(weights, prefix, rows):
    """Softmax attention one query, one head and one element at a time."""
    q, k, v = (
        [dense(weights, f"{prefix}.attention.self.{part}", row) for row in rows]
        for part in ("query", "key", "value")
    )
    size = len(rows[0]) // tiny_encoder.SHAPE.heads
    mixed = [[0.0] * len(rows[0]) for _ in rows]
    for here in range(len(rows)):
        for element in range(len(rows[0])):
            head = range(element // size * size, element // size * size + size)
            scores = [sum(q[here][e] * other[e] for e in head) / math.sqrt(size) for other in k]
            shares = [math.exp(score) for score in scores]
            values = zip(shares, v, strict=True)
            mixed[here][element] = sum(share * value[element] for share, value in values) / sum(shares)
    return [dense(weights, f"{prefix}.attention.output.dense", row) for row in mixed]


def fed_forward(weights, prefix, row):
    wide = dense(weights, f"{prefix}.intermediate.dense", row)
    return dense(weights, f"{prefix}.output.dense", [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in wide])


def added(rows, others):
    return [[a + b for a, b in zip(row, other, strict=True)] for row, other in zip(rows, others, strict=True)]


def by_hand(weights, ids):
    """The norm inputs and the output of one sequence, in plain Python."""
    tables = [weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
    rows = [
        [float(word) + float(place) + float(kind) for word, place, kind in zip(*parts, strict=True)]
        for parts in ((tables[0][token], tables[1][at], tables[2][0]) for at, token in enumerate(ids))
    ]
    given = [rows]
    rows = [normed(weights, "embeddings.LayerNorm", row) for row in rows]
    for layer in range(tiny_encoder.SHAPE.layers):
        prefix = f"encoder.layer.{layer}"
        given.append(added(rows, attended(weights, prefix, rows)))
        rows = [normed(weights, f"{prefix}.attention.output.LayerNorm", row) for row in given[-1]]
        given.append(added(rows, [fed_forward(weights, prefix, row) for row in rows]))
        rows = [normed(weights, f"{prefix}.output.LayerNorm", row) for row in given[-1]]
    return given, rows


def test_the_forward_pass_is_that_of_a_loop_over_tokens_heads_and_elements():
    weights = tiny_encoder.weights()
    trace = bert.forward(weights, tiny_encoder.SHAPE, IDS)
    expected = [by_hand(weights, ids) for ids in IDS]
    for at, found in enumerate((*trace.inputs, trace.output)):
        rows = [row for given, output in expected for row in (*given, output)[at]]
        assert np.asarray(found) == pytest.approx(np.array(rows), rel=1e-12, abs=1e-12)


def test_a_sequence_does_not_see_its_neighbours():
    weights = tiny_encoder.weights()
    together = bert.forward(weights, tiny_encoder.SHAPE, IDS).output
    alone = bert.forward(weights, tiny_encoder.SHAPE, IDS[1:]).output
    assert together[len(IDS[0]) :] == pytest.approx(alone, rel=1e-12)


def test_sites_are_the_layer_normalizations_of_the_weights():
    prefixes = [site.prefix for site in bert.sites(tiny_encoder.SHAPE.layers)]
    named = [name.removesuffix(".weight") for name in tiny_encoder.weights() if "LayerNorm.weight" in name]
    assert prefixes == named
    assert [site.name for site in bert.sites(1)] == ["embeddings", "attention 1", "feed-forward 1"]


def test_norms_carry_the_rows_and_weights_of_their_site():
    encoder = tiny_encoder.encoder()
    norms = pretrained.norms(encoder, ("to see", "it"))
    assert [norm.layer for norm in norms] == list(range(5))
    assert norms[3].name == "attention 2"
    assert norms[3].tokens == ["[CLS]", "to", "see", "[SEP]", "[CLS]", "it", "[SEP]"]
    gamma = encoder.weights["encoder.layer.1.attention.output.LayerNorm.weight"]
    assert (norms[3].gamma == gamma).all()
    ids = [encoder.tokenizer.encode(sentence).ids for sentence in ("to see", "it")]
    assert (norms[3].x == bert.forward(encoder.weights, encoder.shape, ids).inputs[3]).all()


def test_moving_rows_by_deviations_leaves_their_shape():
    norm = pretrained.norms(tiny_encoder.encoder(), ("to see",))[0]
    x = norm.problem(1, "normal", np.dtype(np.float64), offset=8.0).x
    assert x.mean(axis=-1) - norm.x.mean(axis=-1) == pytest.approx(8.0 * norm.x.std(axis=-1))
    assert np.diff(x) == pytest.approx(np.diff(norm.x), abs=1e-14)


def test_each_layer_normalization_has_a_dy_of_its_own_the_same_wherever_its_rows_are():
    first, second, *_ = pretrained.norms(tiny_encoder.encoder(), ("to see",))
    drawn = first.problem(1, "normal", np.dtype(np.float64)).dy
    assert (first.problem(1, "normal", np.dtype(np.float64), offset=8.0).dy == drawn).all()
    assert not (second.problem(1, "normal", np.dtype(np.float64)).dy == drawn).any()


def test_the_text_is_pairs_of_different_sentences():
    assert len(set(text.SENTENCES)) == len(text.SENTENCES)
    assert len(text.SENTENCES) % 2 == 0


def test_without_the_model_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(pretrained.installed, "is_there", lambda name: name != "tokenizers")
    with pytest.raises(ValueError, match="the trained encoder needs tokenizers: install with: make model"):
        pretrained.load()


def test_what_make_model_installs_is_what_the_experiments_require():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    lock = (ROOT / "workflow" / "model.lock").read_text(encoding="utf-8")
    locked = [line.partition("==")[0] for line in lock.splitlines() if "==" in line]
    assert sorted(locked) == sorted(groups["model"])
    assert {name.replace("-", "_") for name in locked} == set(pretrained.REQUIRES)
    assert pretrained.REQUIRES == model.REQUIRES == model_error.REQUIRES


# The first four elements of sentence embeddings by PyTorch 2.15.0 and transformers 5.23.0 in float64.
EMBEDDINGS = [
    (-0.02986435050382653, 0.03244419216146863, 0.016520158188105795, -0.07243995672487198),
    (0.015303670994146324, 0.038856797016002365, 0.061643975468239944, -0.006465178125511654),
    (-0.05986432214074886, 0.00018143698070505142, -0.007250273656661302, 0.011736445569093173),
]


@pytest.fixture
def installed():
    try:
        return pretrained.load()
    except ValueError as error:
        pytest.skip(str(error))


def test_the_installed_model_gives_the_embeddings_that_pytorch_gives(installed):
    """The embedding of a sentence is the mean over its tokens, scaled to norm 1."""
    for sentence, expected in zip(text.SENTENCES, EMBEDDINGS, strict=False):
        ids = installed.tokenizer.encode(sentence).ids
        mean = bert.forward(installed.weights, installed.shape, [ids]).output.mean(axis=0)
        assert (mean / np.linalg.norm(mean))[:4] == pytest.approx(expected, abs=1e-13)


def test_the_installed_model_has_the_layers_that_configs_may_name(installed):
    assert installed.shape.layers == pretrained.LAYERS
