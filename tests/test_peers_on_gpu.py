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
from types import SimpleNamespace

import numpy as np
import pytest

from layernorm_backward import inputs, oracle, peers_on_gpu
from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.gpu import contenders
from layernorm_backward.gpu.rows import Arrays
from layernorm_backward.peers_on_gpu import bridge, triton_tutorial
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


def contender(name, given, directions=DIRECTIONS):
    return peers_on_gpu.prepare(name, given.x, given.gamma, given.beta, given.dy, EPS, directions)


def errors(name, given, directions=DIRECTIONS):
    """Of those of y, dx, dgamma, dbeta that are asked for, in u."""
    found = contender(name, given, directions)
    for run in filter(None, (found.forward, found.backward)):
        run()
    if found.synchronize:
        found.synchronize()
    exact = oracle.results(*given.values(), EPS)
    results = found.results()
    asked = ["forward" in directions] + ["backward" in directions] * 3
    assert [one is not None for one in results] == asked
    wanted = (given.x, given.x, given.gamma, given.gamma)
    assert all(one is None or one.dtype == other.dtype for one, other in zip(results, wanted, strict=True))
    pairs = [pair for pair in zip(results, exact, strict=True) if pair[0] is not None]
    return [float(np.max(error_u(*pair))) for pair in pairs]


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


def test_a_tensor_on_a_gpu_comes_back_over_the_same_memory(monkeypatch):
    taken = []
    cupy = SimpleNamespace(from_dlpack=lambda tensor: taken.append(tensor) or "array")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    detached = SimpleNamespace(is_cuda=True)
    assert bridge.from_tensor(SimpleNamespace(detach=lambda: detached)) == "array"
    assert taken == [detached]


def test_results_of_a_peer_stay_where_they_are(monkeypatch):
    results = (object(), object(), None, None)
    found = peers_on_gpu.contender.Contender(lambda: None, None, lambda: results, None, "note")
    monkeypatch.setattr(peers_on_gpu, "prepare", lambda *_: found)
    ready = contenders.prepare(None, "torch_eager", Arrays(*[None] * 4), EPS)
    assert list(ready.passes) == ["forward"] and tuple(ready.results()) == results


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("name", "package"), [("torch_eager", "torch"), ("jax", "jax")])
def test_only_the_direction_that_is_wanted_is_run(name, package, direction):
    pytest.importorskip(package)
    found = contender(name, problem("float32"), [direction])
    assert [bool(one) for one in (found.forward, found.backward)] == [direction == one for one in DIRECTIONS]
    assert [one is not None for one in found.results()] == [direction == "forward"] + [
        direction == "backward"
    ] * 3


def test_what_a_peer_writes_is_reported_beside_its_results_in_the_dtype_of_gamma():
    torch = pytest.importorskip("torch")
    from layernorm_backward.peers_on_gpu import passes

    kept = [torch.ones(2) for _ in range(4)]
    gamma = np.ones(2, np.float16)
    found = passes.contender(lambda: kept[:1], lambda: kept[1:], "fake", gamma, DIRECTIONS, cuda=False)
    assert [one.dtype for one in found.written()] == [np.float32] * 4
    assert [one.dtype for one in found.results()] == [np.float32] * 2 + [np.float16] * 2


def test_a_backward_pass_that_fails_does_not_lose_the_forward_pass():
    pytest.importorskip("torch")
    from layernorm_backward.peers_on_gpu import passes

    def prepare(directions):
        gamma = np.ones(2, np.float32)
        return passes.contender(lambda: (None,), lambda: 1 / 0, "fake", gamma, directions, cuda=False)

    with pytest.raises(ZeroDivisionError):
        prepare(DIRECTIONS)
    assert prepare(["forward"]).backward is None


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

    def quickly(function, *, options, **how):
        assert set(options) <= set(torch._inductor.list_options())
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


@pytest.mark.filterwarnings("ignore")
def test_a_compilation_that_fails_when_tuned_is_done_without(compiled_at_once, monkeypatch):
    import torch

    compile = torch.compile

    def failing(function, *, options, **how):
        compiled = compile(function, options=options, **how)

        def call(*given):
            if options:
                raise RuntimeError("no choice fits\non the chip")
            return compiled(*given)

        return call

    given = problem("float32")
    tuned = contender("torch_compile", given)
    assert "options={'coordinate_descent_tuning': True}" in tuned.note
    monkeypatch.setattr(torch, "compile", failing)
    assert max(errors("torch_compile", given)) < LIMIT_U
    assert "not tuned (RuntimeError: no choice fits on the chip)" in contender("torch_compile", given).note


def test_jax_compiles_nothing_twice(caplog):
    jax = pytest.importorskip("jax")
    given = problem("float32", 7, 33)
    counts = []
    for _ in range(2):
        caplog.clear()
        with jax.log_compiles():
            contender("jax", given)
        counts.append(sum("Finished XLA compilation" in record.message for record in caplog.records))
    assert counts[0] >= 4 and counts[1] == 0


def test_jax_is_timed_at_its_fastest_in_each_direction(monkeypatch):
    pytest.importorskip("jax")
    from layernorm_backward.peers_on_gpu import jax_vjp

    given = problem("float32")
    for fastest in ("saved", "recomputed"):
        seconds = iter([1e-6, 2e-6] if fastest == "saved" else [2e-6, 1e-6])
        monkeypatch.setattr(jax_vjp, "_seconds", lambda _, seconds=seconds: next(seconds))
        found = contender("jax", given)
        assert f"backward: its vjp, {fastest} (by the host's clock: saved " in found.note
        assert "forward: y only, nothing saved" in found.note
    compiled = jax_vjp._compiled(EPS)
    ran = []

    def keeping(*_):
        ran.append("keeping")

    monkeypatch.setattr(jax_vjp, "_compiled", lambda _: compiled._replace(keeping=keeping))
    contender("jax", given, ["forward"]).forward()
    assert not ran


@pytest.mark.parametrize("platform", ["gpu", "cuda", "cpu"])
def test_jax_takes_a_gpu_by_either_name_and_copies_nothing(monkeypatch, platform):
    jax = pytest.importorskip("jax")
    from layernorm_backward.peers_on_gpu import jax_vjp

    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    monkeypatch.setattr(jax_vjp, "on_host", lambda _: False)
    monkeypatch.setattr(jax_vjp, "on_device", lambda array: ("shared", array))
    given = problem("float32")
    if platform == "cpu":
        with pytest.raises(ValueError, match="JAX has no GPU here, only cpu"):
            contender("jax", given)
        return
    monkeypatch.setattr(jax, "device_put", None)
    assert [one[0] for one in contender("jax", given).results()] == ["shared"] * 4


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


def test_what_else_pytorch_refuses_beside_mixed_dtypes_is_not_said_to_be_gamma(monkeypatch):
    torch = pytest.importorskip("torch")

    def full(*_):
        raise RuntimeError("CUDA out of memory")

    fake = SimpleNamespace(default=full)
    monkeypatch.setattr(torch.ops.aten, "native_layer_norm", fake)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        contender("torch_eager", problem("bfloat16", gamma_dtype="float32"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_tutorials_scheme_is_right_by_tritons_interpreter(dtype):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", __file__, "triton_tutorial", dtype]
    surroundings = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    alone, both = map(json.loads, run.stdout.splitlines()[-2:])
    assert max(alone) < LIMIT_U and max(both) < LIMIT_U


class Graphs:
    """Stands in for torch.cuda: what is run within `graph` is the graph, and a replay runs it again."""

    NAMES = ("CUDAGraph", "Stream", "current_stream", "stream", "graph", "set_stream")

    def __init__(self):
        self.said = []
        self.set_stream = lambda stream: self.said.append("restored" if stream is self else "lost")
        self.CUDAGraph = lambda: self
        self.Stream = lambda: self
        self.current_stream = lambda: self
        self.stream = lambda _: nullcontext()

    def wait_stream(self, _):
        self.said.append("wait")

    @contextmanager
    def graph(self, _, stream, capture_error_mode):
        self.said.append(f"capture {capture_error_mode}")
        yield

    def replay(self):
        self.said.append("replay")


def test_a_capture_records_and_warms_up_first_and_a_replay_is_what_results_show(monkeypatch):
    torch = pytest.importorskip("torch")
    from layernorm_backward.peers_on_gpu import passes

    graphs, count = Graphs(), iter(range(100))
    for name in Graphs.NAMES:
        monkeypatch.setattr(torch.cuda, name, getattr(graphs, name))

    def passed(results):
        graphs.said.append(f"run {results}")
        return tuple(torch.full((2,), float(next(count))) for _ in range(results))

    found = passes.contender(
        lambda: passed(1),
        lambda: passed(3),
        "fake",
        np.ones(2, np.float16),
        DIRECTIONS,
        record=lambda: graphs.said.append("record"),
        cuda=True,
    )
    graphs.said.clear()
    replay = found.captured(found.backward)
    warm = ["run 3"] * passes.WARM
    assert graphs.said == ["wait", "record", *warm, "wait", "capture thread_local", "run 3"]
    captured = [one.tolist() for one in found.results()]
    found.backward()
    assert [one.tolist() for one in found.results()][1:] != captured[1:]
    replay()
    assert graphs.said[-1] == "replay" and [one.tolist() for one in found.results()] == captured
    assert [one.dtype.name for one in found.results()] == ["float32", "float32", "float16", "float16"]


def test_a_capture_that_fails_gives_the_stream_back_and_keeps_its_graph(monkeypatch):
    torch = pytest.importorskip("torch")
    from layernorm_backward.peers_on_gpu import passes

    graphs, runs = Graphs(), iter(range(100))
    for name in Graphs.NAMES:
        monkeypatch.setattr(torch.cuda, name, getattr(graphs, name))
    monkeypatch.setattr(passes, "_FAILED", [])

    def run():
        if next(runs) > passes.WARM:
            raise RuntimeError("operation not permitted when stream is capturing")
        return (torch.zeros(2),)

    found = passes.contender(run, None, "fake", np.ones(2, np.float32), DIRECTIONS, cuda=True)
    with pytest.raises(RuntimeError, match="not permitted"):
        found.captured(found.forward)
    assert graphs.said[-1] == "restored" and [graphs] == passes._FAILED


def main():
    """Write the errors of the backward pass alone, whose memory no forward pass has had, and those of both
    passes; with more rows than the tutorial has groups.
    """
    name, dtype = sys.argv[1:]
    found: Problem = problem(dtype, 70, 8200)
    for directions in (["backward"], DIRECTIONS):
        print(json.dumps(errors(name, found, directions)))


if __name__ == "__main__":
    main()
