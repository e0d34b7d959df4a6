"""Liger Kernel and QuACK by stand-ins that declare their functions as the packages do (0.8.5, 0.6.5)."""

import json
import sys
from dataclasses import astuple, dataclass
from types import ModuleType, SimpleNamespace

import pytest

from layernorm_backward.peers_on_gpu import liger, quack, quack_tuning
from test_peers_on_gpu import HIDDEN, LIMIT_U, contender, errors, problem


def stand_in(torch, functions):
    """A package's module with the given functions, made of PyTorch's operators."""
    sides = [HIDDEN]

    def layernorm_fwd(x, weight, bias=None, eps=1e-6, return_rstd=False, return_mean=False):
        assert weight.dtype == bias.dtype == torch.float32 and return_rstd and return_mean
        wide = torch.native_layer_norm(x.float(), sides, weight, bias, eps)
        return wide[0].to(x.dtype), wide[2], wide[1]

    def layernorm_bwd(x, weight, dout, rstd, mean, has_bias=True):
        assert has_bias
        given = dout.float(), x.float(), sides, mean, rstd, weight, weight, [True] * 3
        dx, dw, db = torch.ops.aten.native_layer_norm_backward(*given)
        return dx.to(x.dtype), dw, db

    def layer_norm_forward(X, W, B, eps):
        y, rstd, mean = layernorm_fwd(X, W.float(), B.float(), eps, True, True)
        return y, X, mean, rstd, 128, 4

    def layer_norm_backward(dY, X, W, B, Mean, RSTD):
        dx, *sums = layernorm_bwd(X, W.float(), dY, RSTD, Mean)
        return dx, *(one.to(W.dtype) for one in sums)

    module = ModuleType("stand_in")
    for name in functions:
        setattr(module, name, locals()[name])
    return module


def test_liger_is_called_as_its_functions_are_declared(monkeypatch):
    torch = pytest.importorskip("torch")
    fake = stand_in(torch, ["layer_norm_forward", "layer_norm_backward"])
    for name in ("liger_kernel", "liger_kernel.ops", "liger_kernel.ops.layer_norm"):
        monkeypatch.setitem(sys.modules, name, fake)
    assert max(errors("liger", problem("bfloat16"))) < LIMIT_U


def test_what_liger_imports_without_need_is_kept_from_it(monkeypatch, tmp_path):
    (tmp_path / "slow_to_import.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with liger.without(("slow_to_import", "json")):
        with pytest.raises(ImportError):
            import slow_to_import
        assert json.loads("1") == 1 and sys.modules["json"] is json
    import slow_to_import

    assert sys.modules["slow_to_import"] is slow_to_import
    assert {"peft", "transformers"} <= set(liger.OPTIONAL)


@dataclass(frozen=True)
class Launch:
    """Parameters of a kernel as QuACK has them."""

    num_threads: int
    threads_per_row: int
    cluster_n: int
    reload: str | None = None


SPACE = [
    Launch(128, 64, 1),
    Launch(128, 128, 1),
    Launch(256, 128, 1),
    Launch(256, 128, 2),
    Launch(128, 64, 2),
]


def test_near_a_rule_is_what_differs_in_one_parameter():
    rule = Launch(128, 64, 1)
    assert quack_tuning.near(rule, SPACE) == [rule, *SPACE[1:3], SPACE[4]]
    outside = Launch(128, 32, 1)
    assert quack_tuning.near(outside, SPACE) == [outside, *SPACE[:3]]


@pytest.fixture
def autotuner(monkeypatch):
    """QuACK's autotuner, to which more threads are faster; how many choices each run of it had."""
    tried = []

    class Autotuner:
        def __init__(self, fn, key, configs, *, prune_configs_by, do_bench):
            self.fn, self.configs = fn, configs
            assert prune_configs_by["early_config_prune"] is not None and do_bench.keywords

        def __call__(self, **arguments):
            tried.append(len(self.configs))
            self.best_config = max(self.configs, key=lambda one: astuple(one.kwargs["config"])[::2])
            self.fn(**arguments, config=self.best_config.kwargs["config"])

    found = SimpleNamespace(Autotuner=Autotuner, AutotuneConfig=lambda **given: SimpleNamespace(kwargs=given))
    monkeypatch.setitem(sys.modules, "quack.autotuner", found)
    monkeypatch.setitem(sys.modules, "triton.testing", SimpleNamespace(do_bench=lambda: None))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(testing=sys.modules["triton.testing"]))
    monkeypatch.setattr(quack_tuning, "_FOUND", {})
    return tried


def add_tuned(home, torch):
    """Give QuACK's stand-in its autotuned functions, with the parameters that version 0.6.5 has."""
    ran = []

    def rmsnorm_fwd_tuned(x, weight, out, bias, rstd, mean, eps, is_layernorm, per_head, config):
        assert is_layernorm and not per_head
        found = home.layernorm_fwd(x, weight, bias, eps, True, True)
        for one, other in zip((out, rstd, mean), found, strict=True):
            one.copy_(other.reshape(one.shape))
        ran.append(config)

    def rmsnorm_bwd_tuned(
        x, weight, dout, rstd, dx, dw_partial, db_partial, per_head, has_dw_partial, has_db_partial, mean,
        is_layernorm, config
    ):  # fmt: skip
        assert is_layernorm and has_dw_partial and has_db_partial and not per_head
        found = home.layernorm_bwd(x, weight, dout, rstd, mean)
        dx.copy_(found[0])
        for one, other in zip((dw_partial, db_partial), found[1:], strict=True):
            one.zero_()[0].copy_(other)
        ran.append(config)

    rule = SimpleNamespace(from_analytical_heuristic=lambda *_, **__: SPACE[0])
    home.RmsNormFwdConfig = home.RmsNormBwdConfig = rule
    home.get_sm_count = lambda hidden, device: 3
    for function in (rmsnorm_fwd_tuned, rmsnorm_bwd_tuned):
        configs = [SimpleNamespace(kwargs={"config": one}) for one in SPACE]
        entry = SimpleNamespace(fn=function, keys=[], configs=configs, early_config_prune=min)
        setattr(home, function.__name__, entry)
    return ran


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_quack_is_tuned_where_it_can_be_once_for_a_shape(monkeypatch, autotuner, dtype):
    torch = pytest.importorskip("torch")
    fake = stand_in(torch, ["layernorm_fwd", "layernorm_bwd"])
    for name in ("quack", "quack.rmsnorm"):
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setattr(quack, "on_host", lambda _: False)
    ran = add_tuned(fake, torch)
    assert max(errors("quack", problem(dtype))) < LIMIT_U
    assert set(ran[-2:]) == {Launch(256, 128, 2)} and len(autotuner) == 2 * quack_tuning.ROUNDS
    note = contender("quack", problem(dtype)).note
    assert "rmsnorm_fwd_tuned tuned near its rule: Launch(num_threads=256" in note
    assert "rmsnorm_bwd_tuned tuned near its rule: " in note and len(autotuner) == 2 * quack_tuning.ROUNDS
    del fake.get_sm_count
    failed = contender("quack", problem(dtype)).note
    assert (
        "layernorm_bwd by its rule, not tuned (AttributeError: " in failed and "rmsnorm_fwd_tuned" in failed
    )


@pytest.mark.parametrize("backward", [True, False], ids=["both", "forward_only"])
def test_quack_is_called_as_its_functions_are_declared_and_may_lack_a_backward_pass(monkeypatch, backward):
    torch = pytest.importorskip("torch")
    fake = stand_in(torch, ["layernorm_fwd", "layernorm_bwd"] if backward else ["layernorm_fwd"])
    for name in ("quack", "quack.rmsnorm"):
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setattr(quack, "on_host", lambda _: False)
    given = problem("bfloat16")
    if backward:
        assert max(errors("quack", given)) < LIMIT_U
        return
    found = contender("quack", given)
    assert found.backward is None and "no backward pass" in found.note
    y, *rest = found.results()
    assert y.dtype == given.x.dtype and rest == [None] * 3
