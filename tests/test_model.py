"""The experiments on a trained encoder, run on one with random weights; and on rows that are known."""

import numpy as np
import pytest

import tiny_encoder
from layernorm_backward.encoder import pretrained
from layernorm_backward.experiments import model, model_error
from selection import held_row_by_row, select

SIZES = {"sentences": 6, "dtypes": ["float32", "bfloat16"], "upstreams": ["shifted"], "seed": 3}
OFFSETS = {"offsets": [3.0, 1e4], "offset_layers": [4]}
WAYS = {"algorithms": ["naive", "two_pass", "recentred"]}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(pretrained, "load", lambda: tiny_encoder.encoder(hidden=64))


@pytest.fixture
def errors():
    return model_error.run(**(SIZES | OFFSETS | WAYS))


def test_kappa_is_that_of_the_rows_a_norm_is_given():
    table = model.run(**SIZES)
    norms = pretrained.norms(pretrained.load(), model.SENTENCES[:6])
    for norm in norms:
        row = select(table, layer=norm.layer, dtype="float32").iloc[0]
        offset = np.abs(norm.x.mean(axis=-1)) / norm.x.std(axis=-1)
        kappa = np.sqrt(1 + offset**2)
        special = [token in ("[CLS]", "[SEP]") for token in norm.tokens]
        assert row["name"] == norm.name
        assert row["rows"] == len(norm.tokens)
        assert row["kappa_median"] == pytest.approx(np.median(kappa), rel=1e-5)
        assert row["kappa_max"] == pytest.approx(kappa.max(), rel=1e-5)
        assert row["kappa_special_max"] == pytest.approx(kappa[special].max(), rel=1e-5)
        assert row["offset_q95"] == pytest.approx(np.quantile(offset, 0.95), rel=1e-5)


def test_a_row_of_one_element_has_the_largest_outlier_and_hardly_a_mean(monkeypatch):
    def norms(_, sentences):
        x = np.eye(3, 385, k=7)
        return [pretrained.Norm(0, "one", x, np.ones(385), np.zeros(385), 1e-12, ["[CLS]", "a", "[SEP]"])]

    monkeypatch.setattr(pretrained, "norms", norms)
    row = model.run(**(SIZES | {"dtypes": ["float64"]})).iloc[0]
    assert row["outlier_max"] == pytest.approx(384**0.5)
    assert row["offset_max"] == pytest.approx(384**-0.5)
    assert row["kappa_max"] == pytest.approx((385 / 384) ** 0.5)


def test_a_gradient_with_a_mean_loses_more_to_the_projection():
    table = model.run(**(SIZES | {"upstreams": ["normal", "shifted"], "dtypes": ["float32"]}))
    kappa_g = table.pivot_table(index="layer", columns="upstream", values="kappa_g_median")
    assert (kappa_g["shifted"] > 1.1 * kappa_g["normal"]).all()
    assert (kappa_g >= 1).all(axis=None)


def test_rows_as_they_are_stand_at_every_norm_and_moved_ones_where_they_are_asked_for(errors):
    assert set(select(errors, offset=0)["layer"]) == set(range(5))
    assert set(select(errors, offset=1e4)["layer"]) == {4}
    assert set(errors["accumulator"][errors["dtype"] == "float32"]) == {"storage"}
    assert set(errors["accumulator"][errors["dtype"] == "bfloat16"]) == {"storage", "float32"}


def test_a_moved_row_has_the_kappa_of_its_offset(errors):
    for offset in (3.0, 1e4):
        kappa = select(errors, offset=offset, dtype="float32")["kappa_median"]
        assert kappa.to_numpy() == pytest.approx(np.hypot(1, offset), rel=0.2)


def test_moved_rows_tell_the_ways_apart_and_the_bound_holds(errors):
    far = select(errors, offset=1e4, dtype="float32").set_index("algorithm")["dx_error_u_max"]
    assert far["naive"] > 1e3 * far["two_pass"]
    assert far["two_pass"] > 100 * far["recentred"]
    assert far["recentred"] < 8
    measured = select(errors, reason="")
    held_row_by_row(measured, "bound_ratio_max", "dx_error_u_max", "bound_u")


def test_the_largest_error_of_a_cell_is_above_the_median(errors):
    measured = select(errors, reason="")
    assert (measured["dx_error_u_max"] > measured["dx_error_u_median"]).any()


def test_rows_that_the_dtype_makes_constant_are_not_measured(errors):
    lost = select(errors, offset=1e4, dtype="bfloat16")
    assert lost["reason"].str.endswith("are constant in bfloat16").all()
    assert lost["dx_error_u_max"].isna().all()


def test_an_unknown_way_is_named():
    with pytest.raises(ValueError, match="best"):
        model_error.run(**(SIZES | OFFSETS | {"algorithms": ["best"]}))
