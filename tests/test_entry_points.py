"""An entry point of another package that leads to no Kernel is told in one line, and exit code 2."""

from importlib.metadata import EntryPoint

import pytest

from layernorm_backward import kernels
from layernorm_backward.__main__ import main

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
