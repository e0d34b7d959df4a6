"""Peers on a GPU, as far as they can be tried without one: on the host where they run there, else refused.

What a peer does on the host is what it does on a device, but for the kernels that PyTorch or XLA picks there.
Run as a program, with a peer's name and dtype, it writes the errors of that peer: for one that is told by its
environment to run on the host.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from types import ModuleType

import numpy as np
import pytest

from layernorm_backward import inputs, oracle, peers_on_gpu
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.peers_on_gpu import bridge, quack, triton_tutorial
from layernorm_backward.problem import Problem, draw

EPS = 1e-5
ROWS, HIDDEN = 24, 100
LIMIT_U = 12
HEAVY = {"torch", "jax", "triton", "liger_kernel", "quack", "cupy"}


def problem(dtype, rows=ROWS, hidden=HIDDEN, gamma_dtype=None):
    rng = inputs.generator(3)
    drawn = draw(rng, inputs.rows(rng, rows, hidden, dtype_of(dtype)), "shifted", "random")
    other = dtype_of(gamma_dtype or dtype)
    return drawn._replace(gamma=drawn.gamma.astype(other), beta=drawn.beta.astype(other))


def contender(name, given):
    return peers_on_gpu.prepare(name, given.x, given.gamma, given.beta, given.dy, EPS)


def errors(name, given):
    found = contender(name, given)
    found.forward()
    found.backward()
    if found.synchronize:
        found.synchronize()
    exact = oracle.results(*given.values(), EPS)
    results = found.results()
    wanted = (given.x, given.x, given.gamma, given.gamma)
    assert [one.dtype for one in results] == [one.dtype for one in wanted]
    return [float(np.max(error_u(*one))) for one in zip(results, exact, strict=True)]


def test_importing_it_imports_no_peer():
    ask = "import sys, layernorm_backward.peers_on_gpu; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert not HEAVY & set(run.stdout.split())


def test_a_missing_package_is_named_and_an_unknown_peer_refused(monkeypatch):
    assert set(peers_on_gpu.PEERS) >= {
        "torch_eager",
        "torch_compile",
        "jax",
        "triton_tutorial",
        "liger",
        "quack",
    }
    lost = peers_on_gpu._Peer(None, {"no_such_package": "no-such-package", "numpy": "numpy"})
    monkeypatch.setitem(peers_on_gpu._PEERS, "lost", lost)
    assert peers_on_gpu.missing("lost") == "not installed: no_such_package"
    assert peers_on_gpu.version("lost") == f"numpy {np.__version__}"
    for ask in (peers_on_gpu.missing, peers_on_gpu.version):
        with pytest.raises(ValueError, match="unknown peer 'apex'; there are: torch_eager,"):
            ask("apex")


REFUSED = [
    ("triton_tutorial", "float64", 64, "the tutorial computes in float32"),
    ("triton_tutorial", "float32", 16385, "rows of at most 65536 bytes, not 65540"),
    ("triton_tutorial", "bfloat16", 32769, "rows of at most 65536 bytes, not 65538"),
    ("liger", "float64", 64, "Liger Kernel computes in float32"),
    ("liger", "bfloat16", 65537, "rows of at most 65536 elements, not 65537"),
    ("quack", "float64", 64, "QuACK computes in float32"),
    ("quack", "float32", 131073, "rows of at most 131072 elements of float32, not 131073"),
    ("quack", "bfloat16", 65537, "no bfloat16 rows of odd length"),
    ("quack", "bfloat16", 64, "QuACK runs on a GPU only"),
]


@pytest.mark.parametrize(("name", "dtype", "hidden", "reason"), REFUSED)
def test_what_a_peer_does_not_take_is_refused_with_the_reason(name, dtype, hidden, reason):
    with pytest.raises(ValueError, match=reason):
        contender(name, problem(dtype, 1, hidden))


def test_arrays_that_do_not_fit_together_are_refused():
    right = problem("float32")
    wrong = {
        "x has shape": right._replace(x=right.x[0]),
        "dy has shape": right._replace(dy=right.dy[:3]),
        "gamma has shape": right._replace(gamma=right.gamma[:3]),
        "dy must have the dtype of x": right._replace(dy=right.dy.astype(np.float64)),
        "C-contiguous": right._replace(x=np.asfortranarray(right.x)),
    }
    for reason, given in wrong.items():
        with pytest.raises(ValueError, match=reason):
            contender("torch_eager", given)


@pytest.mark.parametrize(
    ("hidden", "itemsize", "wanted"),
    [
        (64, 4, (64, 1, 256)),
        (1024, 4, (1024, 4, 256)),
        (1025, 2, (2048, 8, 128)),
        (4097, 2, (8192, 8, 96)),
        (32768, 2, (32768, 8, 64)),
    ],
)
def test_the_tutorials_launch_follows_from_the_rows_length(hidden, itemsize, wanted):
    assert tuple(triton_tutorial.launch(hidden, itemsize)) == wanted


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_tensor_shares_memory_and_comes_back_with_the_same_bits(dtype):
    torch = pytest.importorskip("torch")
    given = problem(dtype).x
    shared = bridge.tensor(given)
    assert str(shared.dtype) == f"torch.{dtype}" and shared.shape == given.shape
    back = bridge.from_tensor(shared)
    assert back.dtype == given.dtype and back.tobytes() == given.tobytes()
    shared.fill_(2)
    assert (given.astype(np.float64) == 2).all() and (back.astype(np.float64) != 2).any()
    assert isinstance(shared, torch.Tensor)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "package"), [("torch_eager", "torch"), ("jax", "jax")])
def test_a_peer_is_right_on_the_host(name, package, dtype):
    pytest.importorskip(package)
    assert max(errors(name, problem(dtype))) < LIMIT_U


@pytest.fixture
def compiled_at_once(monkeypatch):
    """torch.compile without its C++ compiler, which takes a minute; how often a pass was compiled."""
    torch = pytest.importorskip("torch")
    compile, graphs = torch.compile, []

    def backend(graph, inputs):
        from torch._dynamo.backends.debugging import aot_eager

        graphs.append(graph)
        return aot_eager(graph, inputs)

    def quickly(function, *, mode, **how):
        assert mode in torch._inductor.list_mode_options()
        return compile(function, backend=backend, **how)

    monkeypatch.setattr(torch, "compile", quickly)
    return graphs


@pytest.mark.filterwarnings("ignore")  # of the compiler's own modules
def test_what_is_compiled_is_right_on_the_host_and_compiled_once_for_each_shape(compiled_at_once):
    shapes = range(16, 28)  # more than PyTorch compiles one function for if it is not told to
    for hidden in shapes:
        assert max(errors("torch_compile", problem("bfloat16", 5, hidden, "float32"))) < LIMIT_U
    assert len(compiled_at_once) == len(shapes)
    assert max(errors("torch_compile", problem("bfloat16"))) < LIMIT_U


@pytest.mark.parametrize("name", ["torch_eager", "jax"])
def test_a_pass_runs_anew_with_each_call(name):
    pytest.importorskip("torch" if name == "torch_eager" else name)
    found = contender(name, problem("float32"))
    first = found.results()
    found.forward()
    found.backward()
    for one, other in zip(first, found.results(), strict=True):
        assert one.tobytes() == other.tobytes() and not np.shares_memory(one, other)


def test_gamma_of_a_dtype_that_pytorch_does_not_take_is_refused():
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"takes no torch.bfloat16 gamma beside torch.float32 x: "):
        contender("torch_eager", problem("float32", gamma_dtype="bfloat16"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_tutorials_scheme_is_right_by_tritons_interpreter(dtype):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", __file__, "triton_tutorial", dtype]
    surroundings = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    assert max(json.loads(run.stdout.splitlines()[-1])) < LIMIT_U


class Graphs:
    """Stands in for torch.cuda: what is run within `graph` is the graph, and a replay runs it again."""

    def __init__(self):
        self.said = []
        self.CUDAGraph = lambda: self
        self.Stream = lambda: self
        self.current_stream = lambda: self
        self.stream = lambda _: nullcontext()

    def wait_stream(self, _):
        self.said.append("wait")

    @contextmanager
    def graph(self, _, stream):
        self.said.append("capture")
        yield

    def replay(self):
        self.said.append("replay")


def test_a_capture_records_and_warms_up_first_and_a_replay_is_what_results_show(monkeypatch):
    torch = pytest.importorskip("torch")
    from layernorm_backward.peers_on_gpu import passes

    graphs, count = Graphs(), iter(range(100))
    for name in ("CUDAGraph", "Stream", "current_stream", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(graphs, name))

    def passed(results):
        graphs.said.append(f"run {results}")
        return tuple(torch.full((2,), float(next(count))) for _ in range(results))

    found = passes.contender(
        lambda: passed(1),
        lambda: passed(3),
        "fake",
        np.ones(2, np.float16),
        record=lambda: graphs.said.append("record"),
        cuda=True,
    )
    graphs.said.clear()
    replay = found.captured(found.backward)
    warm = ["run 3"] * passes.WARM
    assert graphs.said == ["wait", "record", *warm, "wait", "capture", "run 3"]
    captured = [one.tolist() for one in found.results()]
    found.backward()
    assert [one.tolist() for one in found.results()][1:] != captured[1:]
    replay()
    assert graphs.said[-1] == "replay" and [one.tolist() for one in found.results()] == captured
    assert [one.dtype.name for one in found.results()] == ["float32", "float32", "float16", "float16"]


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


def main():
    """Write the errors of y, dx, dgamma, dbeta, in u, with more rows than the tutorial has groups."""
    name, dtype = sys.argv[1:]
    found: Problem = problem(dtype, 70, 8200)
    print(json.dumps(errors(name, found)))


if __name__ == "__main__":
    main()
