"""An entry point of another package that cannot be used is told in one line, and exit code 2."""

from importlib.metadata import EntryPoint, EntryPoints
from itertools import chain

import numpy as np
import pytest

from bench_small import SETTING
from layernorm_backward import kernels, peers_on_gpu
from layernorm_backward.__main__ import main
from layernorm_backward.audit.target import load
from layernorm_backward.bench import bench
from layernorm_backward.gpu import roofs, variants
from layernorm_backward.kernels.peers import PEERS
from layernorm_backward.timing import cell_roof
from layernorm_backward.traffic.schemes import SCHEMES
from layernorm_backward.untrusted.taken_names import TAKEN

BROKEN = {
    "gone": ("no_such_module:K", "raises ModuleNotFoundError: No module named 'no_such_module'"),
    "nameless": ("math:K", "raises AttributeError: module 'math' has no attribute 'K'"),
    "number": ("math:pi", "is of type float"),
}
COMMANDS = {"audit": ["audit"], "bench": ["bench", "--rows", "8", "--hidden", "16", "--kernel"]}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_broken_entry_point_is_told_in_one_line(command, name, monkeypatch, capsys):
    value, said = BROKEN[name]
    points = dict(kernels._points()) | {name: EntryPoint(name, value, kernels.GROUP)}
    monkeypatch.setattr(kernels, "_points", lambda: points)
    assert main([*COMMANDS[command], name]) == 2
    err = capsys.readouterr().err
    where = f"error: kernel {name!r}: its entry point {value} in the group {kernels.GROUP}"
    assert err == f"{where} {said}; allowed: MODULE:NAME of a Kernel\n"


@pytest.fixture
def installed(monkeypatch):
    """Other packages' entry points, by name and value, instead of those that are installed."""

    def install(*points):
        found = EntryPoints(EntryPoint(name, value, kernels.GROUP) for name, value in points)
        monkeypatch.setattr(kernels, "entry_points", lambda group: found.select(group=group))
        for cached in (kernels._claims, kernels._points):
            monkeypatch.setattr(kernels, cached.__name__, cached.__wrapped__)

    return install


def test_a_name_that_one_of_our_kernels_has_is_refused(installed, capsys):
    installed(("compact", "their_norm:KERNEL"))
    ours = f"{kernels.__name__}.published:COMPACT"
    assert main(["audit", "compact"]) == 2
    said = f"entry points in the group {kernels.GROUP} share this name: {ours}, their_norm:KERNEL"
    assert (
        capsys.readouterr().err
        == f"error: kernel 'compact': {said}; allowed: a name that no other kernel has\n"
    )
    assert kernels.KERNELS["recentred"].name == "recentred"


def test_an_entry_point_that_is_listed_twice_is_one(installed):
    twice = ("recentred_too", f"{kernels.__name__}.recentred:KERNEL")
    installed(twice, twice)
    assert list(kernels.KERNELS)[-1] == "recentred_too"
    with pytest.raises(ValueError, match="calls itself 'recentred'"):
        kernels.KERNELS["recentred_too"]


def test_a_module_that_has_numpy_raise_does_so_for_itself(installed, tmp_path, monkeypatch):
    text = "from layernorm_backward.kernels.recentred import KERNEL\nimport numpy\nnumpy.seterr(all='raise')"
    for name in ("raising", "raising_too"):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    installed(("theirs", "raising:KERNEL"))
    with np.errstate():
        before = np.geterr()
        with pytest.raises(ValueError, match="calls itself"):
            kernels.KERNELS["theirs"]
        load("raising_too:KERNEL")
        assert np.geterr() == before


def test_a_package_that_panics_is_told_as_one_that_raises(installed, tmp_path, monkeypatch, capsys):
    """As those in Rust do, with an exception that is no Exception."""
    (tmp_path / "panicking.py").write_text("class Panic(BaseException): pass\nraise Panic('unwrap')\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed(("theirs", "panicking:KERNEL"))
    assert main(["audit", "theirs"]) == 2
    assert "raises Panic: unwrap; allowed: MODULE:NAME of a Kernel\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("device='gpu'", "device is 'gpu'; allowed: cpu or cuda"),
        ("unsupported=('float16', 'bfloat16')", "unsupported is ('float16', 'bfloat16'); allowed: a mapping"),
        ("unsupported={'fp16': 'slow'}", "unsupported is {'fp16': 'slow'}; allowed: a mapping"),
        ("backward=None", "backward is None; allowed: a function"),
        ("default_eps='1e-5'", "default_eps is '1e-5'; allowed: finite and > 0"),
        ("default_eps=float('nan')", "default_eps is nan; allowed: finite and > 0"),
        ("default_eps=0", "default_eps is 0; allowed: finite and > 0"),
        ("requires='numpy'", "requires is 'numpy'; allowed: a tuple of import names"),
    ],
)
def test_a_kernel_that_says_what_does_not_exist_is_refused(
    installed, tmp_path, monkeypatch, capsys, given, said
):
    text = "from layernorm_backward.kernels import KERNELS, Kernel\nof = KERNELS['recentred']\n"
    kernel = f"dict(name='odd', device='cpu', forward=of.forward, backward=of.backward) | dict({given})"
    (tmp_path / "odd_norm.py").write_text(f"{text}KERNEL = Kernel(**{kernel})\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed(("odd", "odd_norm:KERNEL"))
    assert main(["audit", "odd"]) == 2
    err = capsys.readouterr().err
    assert f"kernel 'odd': {said}" in err and len(err.splitlines()) == 1


def test_a_name_that_two_share_leaves_out_that_baseline_only(installed, unhurried):
    installed(("compact", "their_norm:KERNEL"))
    found = bench(kernels.KERNELS["recentred"], SETTING, unhurried).set_index("against")
    assert "share this name" in found.loc["compact", "reason"]
    assert found.loc["numpy_blocked", "reason"] == ""


OTHERS = [
    *chain.from_iterable(cell_roof.ROOFS.values()),
    *roofs.OPERATIONS,
    *PEERS,
    *peers_on_gpu.PEERS,
    *variants.VARIANTS,
    *SCHEMES,
]


@pytest.mark.parametrize("name", sorted({*OTHERS, f"copy{cell_roof.AGAIN}"}))
def test_a_name_that_means_something_else_is_refused(installed, name):
    installed((name, "layernorm_backward.kernels.recentred:KERNEL"))
    where = "the entry point layernorm_backward.kernels.recentred:KERNEL in the group"
    said = f"kernel '{name}': {where} .* has the name of a stream, a peer, a variant or a scheme; allowed: "
    with pytest.raises(ValueError, match=said):
        kernels.KERNELS[name]
    with pytest.raises(ValueError, match=said):
        variants.kernel_of(name)


def test_no_name_is_taken_by_nothing():
    assert set(TAKEN) <= {*OTHERS}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_means_something_else_is_told_in_one_line(installed, command, capsys):
    installed(("torch", "layernorm_backward.kernels.recentred:KERNEL"))
    assert main([*COMMANDS[command], "torch"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: kernel 'torch': the entry point ") and len(err.splitlines()) == 1
