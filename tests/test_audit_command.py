"""The command `audit`: what it takes, what it prints, its exit codes, and the page that shows it."""

import csv
import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from audit_small import failed
from layernorm_backward.__main__ import main
from layernorm_backward.audit import STANDARD, memory, report, sweep
from layernorm_backward.audit.target import load
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.host import installed
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.studies import config
from layernorm_backward.timing import sizing
from layernorm_backward.untrusted import watch
from workspace import ROOT

QUICK = ["--rows", "8", "--hidden", "32"]


def test_exit_code_0_says_that_all_passed(capsys):
    assert main(["audit", "recentred", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert "FAILED" not in out
    assert re.search(r"(\d+) of \1 passed", out)
    assert "recentred float32" in err  # progress


def test_exit_code_1_says_that_something_failed_and_what_it_means(tmp_path, capsys):
    out = tmp_path / "found.csv"
    assert main(["audit", "compact", *QUICK, "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert re.search(r"FAILED +dx_slope +(0.9|1.0).*95 % interval", said)
    assert re.search(
        r"^- .*dx_slope.*:\s+error grows with mean/std: .*centre the row twice$", said, flags=re.DOTALL | re.M
    )
    assert max(map(len, said.splitlines())) <= report.WIDTH
    assert "FAILED  edge_constant_rows" in said
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [*SCHEMAS["audit"].columns, "gamma_dtype"]
    assert {row["gamma_dtype"] for row in rows} == {"float32"}
    assert {row["passed"] for row in rows} == {"True", "False"}


SPOILT = ["sys.stdout = io.StringIO()", "sys.stdout.close()", "os.close(1)", "print('noise')"]
SPOILT += ["sys.stderr.close()", "os.close(2)"]


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("words", [["audit"], ["bench", "--seconds", "3", "--kernel"]])
def test_a_report_is_printed_whatever_a_kernel_does_to_the_output(words, spoil, tmp_path):
    (tmp_path / "theirs.py").write_text(f"import io, os, sys\n{MODULE}\n{spoil}\n")
    words = [sys.executable, "-m", "layernorm_backward", *words, "theirs:PAIR", *QUICK[:4]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr
    noise = "noise\n" if "noise" in spoil else ""
    assert done.stdout.startswith(f"{noise}theirs:PAIR: ")


@pytest.mark.parametrize("spoil", ["sys.stderr.close()", "os.close(2)"])
@pytest.mark.parametrize("words", [["audit"], ["bench", "--kernel"]])
def test_an_error_is_told_whatever_a_kernel_does_to_its_output(words, spoil, tmp_path):
    (tmp_path / "theirs.py").write_text(f"import os, sys\n{spoil}\n")
    words = [sys.executable, "-m", "layernorm_backward", *words, "theirs:PAIR", *QUICK[:4]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = "error: theirs has no 'PAIR'; it has: nothing that fits\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_reader_who_leaves_takes_nothing_away(tmp_path):
    """As `head` does: the table is written, and the exit code stays."""
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "layernorm_backward", "audit", "compact", *QUICK, "--out", "found.csv"]
    done = subprocess.run(words, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, "Error" in done.stderr) == (1, False), done.stderr
    assert (tmp_path / "found.csv").exists()


MIXED = """
import numpy as np
from layernorm_backward.kernels import recentred
def forward(x, gamma, beta, eps):
    if gamma.dtype != np.float32: raise TypeError("gamma has to be float32")
    return recentred.forward(x, gamma, beta, eps)
def backward(dy, saved): return recentred.backward(dy, saved)
def halved(dy, saved):
    dx, dgamma, dbeta = backward(dy, saved)
    return dx, dgamma.astype(dx.dtype).astype(np.float32), dbeta
"""


@pytest.mark.parametrize(
    ("pair", "wrong"),
    [
        ("forward,backward", set()),
        ("forward,halved", {"eps_obeyed", "long_sums", "dgamma_error"}),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gamma_in_float32_beside_16_bits_is_audited_as_such(pair, wrong, dtype, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.py").write_text(MIXED)
    words = ["--dtype", dtype, "--gamma-dtype", "float32", "--out", "found.csv"]
    code = main(["audit", f"./mixed.py:{pair}", *QUICK, *words])
    with (tmp_path / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    failed = {row["property"] for row in rows if row["passed"] == "False"}
    assert (code, failed >= wrong, bool(failed)) == (bool(wrong), True, bool(wrong)), failed
    assert {row["gamma_dtype"] for row in rows} == {"float32"}


def test_gamma_that_is_not_allowed_beside_x_is_told_before_anything_runs(capsys):
    assert main(["audit", "recentred", "--dtype", "float16", "float64", "--gamma-dtype", "float32"]) == 2
    said = "error: gamma_dtype is float32 beside float64; allowed: float64\n"
    assert capsys.readouterr().err == said


MODULE = """
import numpy as np
from layernorm_backward.kernels.recentred import KERNEL, backward, forward
PAIR = (forward, backward)
NUMBER = 5
class Norm: forward, backward = staticmethod(forward), staticmethod(backward)
def short(x): return x
def wide(x, gamma, beta, eps):
    y, saved = forward(x, gamma, beta, eps)
    return y.astype("float64"), saved
def two(dy, saved): return backward(dy, saved)[:2]
def one(x, gamma, beta, eps): return x
def masked(dy, saved): return tuple(map(np.ma.masked_array, backward(dy, saved)))
def turned(dy, saved): return backward(dy, saved)[0].T, *backward(dy, saved)[1:]
def raises(dy, saved):
    return dy[99]
def many(dy, saved):
    return backward(dy, saved) if len(dy) < 5 else raises(dy[:1], saved)
class Panic(BaseException): pass
def panics(dy, saved):
    if len(dy) == 3: return backward(dy, saved)
    raise Panic("unwrap")
def halves(dy, saved):
    if dy.dtype == "float16": raise TypeError("no halves")
    return backward(dy, saved)
def closes(dy, saved):
    if len(dy) != 3: raise GeneratorExit('shut')
    return backward(dy, saved)
def leaves(dy, saved):
    return backward(dy, saved) if len(dy) == 3 else exit("gone")
def deaf(x, gamma, beta, eps): return forward(x, gamma, beta, 1)
"""


@pytest.mark.parametrize(
    "target",
    [
        "theirs:KERNEL",
        "theirs:PAIR",
        "theirs:forward,backward",
        "theirs:forward, backward",
        "./theirs.py:PAIR",
        "theirs:Norm.forward,Norm.backward",
    ],
)
def test_a_kernel_and_a_pair_are_found_in_a_module_and_in_a_file(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    assert failed(load(target)) == set()
    sys.modules.pop("theirs")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:KERNEL", "nowhere cannot be imported: it raised ModuleNotFoundError"),
        (
            "./nowhere.py:KERNEL",
            "./nowhere.py is no file; allowed: a dotted module, or a file that ends in .py",
        ),
        ("no_such_kernel", "no kernel is called 'no_such_kernel'; there are: reference,"),
        ("theirs", "or name your own as theirs:forward,backward for theirs.py"),
        ("./theirs.py", "or name your own as ./theirs.py:forward,backward for theirs.py"),
        ("theirs:KERNAL", "theirs has no 'KERNAL'; it has: KERNEL, backward, forward, PAIR"),
        ("theirs:Norm.forward,Norm.reverse", "theirs has no 'Norm.reverse'; it has: KERNEL,"),
        (
            "theirs:NUMBER",
            "NUMBER is of type int; expected: a Kernel, or a pair of functions forward(x, gamma, beta, eps)",
        ),
        ("theirs:short,backward", "forward raised TypeError: short() takes 1 positional argument"),
        ("theirs:wide,backward", "y is an array (3, 16) of float64; expected: an array (3, 16) of float32"),
        ("theirs:", "'theirs:' is not MODULE:NAME"),
        ("./theirs:PAIR", "./theirs is no file"),
        (
            "broken:PAIR",
            "broken cannot be imported: it raised ZeroDivisionError: division by zero (broken.py:1)",
        ),
        ("leaves:PAIR", "leaves cannot be imported: it raised SystemExit: 7 (leaves.py:1)"),
        ("stops:PAIR", "stops cannot be imported: it raised GeneratorExit: 7 (stops.py:1)"),
        ("theirs:one,backward", "forward returned an array (3, 16) of float32; expected: y, saved"),
        ("theirs:forward,masked", "dx is a MaskedArray (3, 16) of float32; expected: an array (3, 16)"),
        ("theirs:forward,turned", "dx is an array (16, 3) of float32; expected: an array (3, 16) of float32"),
        ("theirs:forward,raises", "out of bounds for axis 0 with size 3 (theirs.py:16)"),
        ("theirs:forward,two", "backward returned a tuple of length 2; expected: dx, dgamma, dbeta"),
    ],
)
def test_exit_code_2_says_why_it_could_not_be_run(target, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaves.py").write_text("raise SystemExit(7)")
    (tmp_path / "stops.py").write_text("raise GeneratorExit(7)")
    assert main(["audit", target, *QUICK]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    sys.modules.pop("theirs", None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--eps", "0"], "eps is 0.0; allowed: finite and > 0"),
        (["--rows", "0"], "rows is 0; allowed: at least 1"),
        (["--seed", "-1"], "seed is -1; allowed: at least 0"),
        (["--rows", str(10**9)], "a third of the memory; allowed here: --rows up to "),
        (["--hidden", str(10**21)], "a third of the memory; allowed here: --rows 1 and --hidden up to "),
        (["--out", "nowhere/found.csv"], "--out nowhere/found.csv cannot be written: No such file"),
        (["--out", "theirs.py"], "--out theirs.py; allowed: a name that ends in .csv"),
        (["--out", "."], "--out . cannot be written: Is a directory"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_measured(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "recentred", *QUICK, *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_dtype_is_told_in_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "recentred", "--dtype", "float8"])
    assert re.fullmatch(r"error: .*'float8' .*float64, .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("word", ["0", "inf", "nan", "soon"])
def test_a_limit_that_is_none_is_told_in_one_line(word, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "recentred", "--limit-s", word])
    said = f"error: argument --limit-s: {word}; allowed: finite and > 0; see --help\n"
    assert capsys.readouterr().err == said


def test_a_target_after_the_dtypes_is_told_where_it_belongs(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "--dtype", "float32", "recentred"])
    assert "'recentred' is no dtype; allowed: float64, " in (said := capsys.readouterr().err)
    assert "; put MODULE:NAME before --dtype" in said


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(28, "No space left on device"), 2, "cannot be written: No space left on device"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
    ],
)
def test_a_table_that_cannot_be_finished_leaves_the_old_one(error, code, said, tmp_path, monkeypatch, capsys):
    out = tmp_path / "found.csv"
    out.write_text("old")

    def half(table, path, **options):
        path.write_text("half")
        raise error

    monkeypatch.setattr("pandas.DataFrame.to_csv", half)
    assert main(["audit", "recentred", *QUICK, "--out", str(out)]) == code
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["found.csv"]
    assert out.read_text() == "old"


def test_what_raises_during_the_audit_is_shown_with_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    assert main(["audit", "theirs:forward,many", *QUICK]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "raised IndexError: index 99 is out of bounds for axis 0 with size 1 (theirs.py:16)" in said
    assert "could not be run, for the reason above" in said
    sys.modules.pop("theirs")


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("leaves", "SystemExit: gone"),
        ("closes", "GeneratorExit: shut"),
        ("panics", "Panic: unwrap (theirs.py:"),
    ],
)
def test_a_function_that_leaves_the_program_has_failed(name, raised, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    assert main(["audit", f"theirs:forward,{name}", *QUICK]) == 1
    said = capsys.readouterr().out
    lines = [line.split()[:2] for line in said.splitlines()]
    for name in ("gradient_check", "repeatable", "dx_error", "edge_one_row"):
        assert ["FAILED", name] in lines
    assert f"raised {raised}" in " ".join(said.split())
    sys.modules.pop("theirs")


def test_a_dtype_that_cannot_be_run_is_told_after_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    words = ["theirs:forward,halves", *QUICK, "--dtype", "float16", "float32", "--out", "found.csv"]
    assert main(["audit", *words]) == 2
    out, err = capsys.readouterr()
    assert re.search(r"theirs:forward,halves: float32, .*(\d\d) of \1 passed", out, flags=re.DOTALL)
    assert "error: theirs:forward,halves on float16 arrays: backward raised TypeError: no halves" in err
    with (tmp_path / "found.csv").open() as file:
        assert {row["dtype"] for row in csv.DictReader(file)} == {"float32"}
    sys.modules.pop("theirs")


def test_a_file_may_be_called_as_a_module_is_and_lie_below_a_colon(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "a:b").mkdir()
    file = tmp_path / "a:b" / "json.py"
    functions = "from layernorm_backward.kernels.recentred import backward, forward\n"
    file.write_text(f"import numpy\nnumpy.seterr(all='raise')\n{functions}def _own(): pass\n")
    modules, told = dict(sys.modules), np.geterr()
    assert load(f"{file}:forward,backward").source == f"{file}:forward,backward"
    assert sys.modules["json"] is modules["json"] and np.geterr() == told
    with pytest.raises(ValueError, match=re.escape(f"{file} has no 'grad'; it has: backward, forward") + "$"):
        load(f"{file}:forward,grad")
    sys.modules.pop("audited_json", None)


def test_a_dtype_that_is_named_twice_is_audited_once_and_reports_are_set_apart(monkeypatch, capsys):
    unprinted = []
    monkeypatch.setattr(watch, "update", lambda **told: unprinted.append(told.get("found", "-")))
    assert main(["audit", "recentred", *QUICK, "--dtype", "float32", "float64", "float32"]) == 0
    first, *others = capsys.readouterr().out.split("\n\n")
    assert first.startswith("recentred: float32, ")
    assert [other.partition(",")[0] for other in others] == ["recentred: float64"]
    assert unprinted[-1] == "" and unprinted.count("") == 2  # what is printed is not told again


def test_where_no_dtype_can_be_run_there_is_no_table(narrow, tmp_path, capsys):
    out = tmp_path / "found.csv"
    assert main(["audit", narrow, "--dtype", "float16", "--out", str(out)]) == 2
    assert "Traceback" not in capsys.readouterr().err and not out.exists()


def test_the_largest_audit_that_is_allowed_is_within_the_limit(monkeypatch):
    monkeypatch.setattr(sizing, "memory_limit", lambda: 10**9)
    dtypes = ("float32", "bfloat16")
    with pytest.raises(ValueError, match=r"--rows up to (\d+)$") as refused:
        memory.require_memory(replace(STANDARD, rows=10**6), dtypes)
    rows = int(str(refused.value).rpartition(" ")[2])
    memory.require_memory(replace(STANDARD, rows=rows), dtypes)
    with pytest.raises(ValueError, match=f"--rows up to {rows}$"):
        memory.require_memory(replace(STANDARD, rows=rows + 1), dtypes)
    memory.require_memory(replace(STANDARD, rows=rows + 1), dtypes[:1])  # one of them takes less


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_the_memory_that_is_required_is_that_of_the_arrays_that_are_kept(dtype):
    setting = replace(STANDARD, rows=128, hidden=32)
    problem, exact = sweep.posed(dtype, 1.0, setting)
    kept = (problem.x, problem.dy, *exact.y, *exact.dx)
    arrays_bytes = sum(array.nbytes for array in kept) * len(setting.kappas(dtype))
    assert memory.element_bytes(setting, dtype) * problem.x.size == arrays_bytes


def test_memory_that_runs_out_all_the_same_is_told_in_one_line(monkeypatch, capsys):
    def full(*arguments):
        raise MemoryError

    monkeypatch.setattr(sweep, "posed", full)
    assert main(["audit", "recentred", *QUICK]) == 2
    said = capsys.readouterr().err.rpartition("\r")[2].strip()
    assert said == "error: out of memory with --rows 8 --hidden 32; allowed here: less"


@pytest.mark.parametrize("target", ["numba_fused", "theirs:deaf,backward"])
@pytest.mark.parametrize(("eps", "kept"), [("1e-50", "0.0"), ("1e50", "inf")])
def test_an_eps_that_the_dtype_cannot_hold_is_refused(target, eps, kept, tmp_path, monkeypatch, capsys):
    """Whatever the kernel does with it: such a result would be held against it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    assert main(["audit", target, "--eps", eps]) == 2
    said = f"which is {kept} in float32, the dtype of the sums; allowed: finite and > 0 there\n"
    assert capsys.readouterr().err.endswith(said)
    sys.modules.pop("theirs", None)


def test_a_dtype_that_a_kernel_does_not_take_is_told(narrow, capsys):
    assert main(["audit", narrow, "--dtype", "float16"]) == 2
    assert "narrow cannot run here in float16: not so narrow" in capsys.readouterr().err


def test_the_entry_point_that_is_audited_is_told(narrow, capsys):
    assert main(["audit", narrow, *QUICK]) == 1  # it keeps a plain mean
    said = "narrow: the entry point theirs:NARROW in the group layernorm_backward.kernels\n"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("name", "package", "command"), [("torch", "torch", "make peers"), ("cupy_compact", "cupy", "make cuda")]
)
def test_what_is_not_installed_is_told_with_the_command_that_installs_it(
    name, package, command, monkeypatch, capsys
):
    there = installed.is_there
    monkeypatch.setattr(installed, "is_there", lambda asked: asked != package and there(asked))
    assert main(["audit", name, *QUICK]) == 2
    assert f"not installed: {package}; `{command}` installs it\n" in capsys.readouterr().err


def test_a_kernel_may_require_a_file_of_its_own_and_is_told_what_is_missing(tmp_path, monkeypatch, capsys):
    """A file has no version; the parent of a dotted name may be missing too."""
    for name, required in (("needy", "theirs"), ("lacking", "nowhere.inside")):
        kernel = f"KERNEL = replace(theirs.KERNEL, requires=({required!r},))"
        (tmp_path / f"{name}.py").write_text(f"from dataclasses import replace\nimport theirs\n{kernel}\n")
    (tmp_path / "theirs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["audit", "needy:KERNEL", *QUICK, "--out", str(tmp_path / "found.csv")]) in (0, 1)
    with (tmp_path / "found.csv").open() as lines:
        assert {row["version"] for row in csv.DictReader(lines)} == {""}
    assert main(["audit", "lacking:KERNEL", *QUICK]) == 2
    assert "not installed: nowhere.inside\n" in capsys.readouterr().err
    for name in ("theirs", "needy", "lacking"):
        sys.modules.pop(name, None)


def test_a_fault_of_the_audit_is_not_one_of_the_kernel(monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("of ours")

    monkeypatch.setattr("layernorm_backward.audit.command.report.text", broken)
    assert main(["audit", "recentred", *QUICK]) == 2
    assert "RuntimeError: of ours" in capsys.readouterr().err


def test_rows_too_short_to_judge_are_refused(capsys):
    assert main(["audit", "recentred", "--hidden", "8"]) == 2
    assert "hidden is 8; allowed: at least 16" in capsys.readouterr().err


PAGE = (ROOT / "docs" / "check-your-own.md").read_text(encoding="utf-8")


def test_the_page_says_who_passes_out():
    said = "If your functions take `out`, one call writes its results there (`into_out`); `bench` always does"
    assert said in " ".join(PAGE.split())


def test_the_page_is_right_as_it_is_written(tmp_path):
    """Its file and its commands, in an empty folder, print what the page shows."""
    name, code = re.search(r"`(\w+\.py)`:\n+```python\n(.*?)```", PAGE, flags=re.DOTALL).groups()
    (tmp_path / name).write_text(code)
    command = re.search(r"^    (python -m layernorm_backward audit .*)$", PAGE, flags=re.MULTILINE)[1]
    words = command.replace("python", sys.executable, 1).split()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    shown = re.search(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    assert [line for line in shown.splitlines() if line not in done.stdout.splitlines()] == []
    mended = code.replace(*re.search(r"replace `(.*?)` by `(.*?)`", PAGE.replace("\n", " ")).groups())
    assert mended != code
    (tmp_path / name).write_text(mended)
    again = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout


def test_the_recipe_of_the_page_for_16_bits_leaves_float64_as_it_is(tmp_path, monkeypatch):
    """As it is written, for all arrays at the start, and for results at the end."""
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    code = code.replace(*re.search(r"replace `(.*?)` by `(.*?)`", PAGE.replace("\n", " ")).groups())
    kind = re.search(r"`\.astype\((np\.result_type\(x, .*?)\)`", PAGE)[1]
    wide = f"""
def wide_forward(x, gamma, beta, eps):
    kind = {kind}
    y, saved = forward(x.astype(kind), gamma.astype(kind), beta.astype(kind), eps)
    return y.astype(x.dtype), saved
def wide_backward(dy, saved):
    kind = {kind.replace("(x,", "(dy,")}
    return tuple(part.astype(dy.dtype) for part in backward(dy.astype(kind), saved))
"""
    (tmp_path / "widened.py").write_text(code + wide)
    kernel = load("widened:wide_forward,wide_backward")
    for dtype in DTYPE_NAMES:
        assert failed(kernel, dtype) == set()
    sys.modules.pop("widened")


@pytest.mark.parametrize("name", ["audit", "audit_peers"])
def test_the_paper_audits_as_the_command_does(name):
    """But that of other packages edge cases of many row lengths are left to the study `full`."""
    run = importlib.import_module(f"layernorm_backward.experiments.{name}").run
    own = {"gamma_dtype": None, "without": ()}  # the tables are of gamma in x's dtype
    alike = {key: value for key, value in vars(STANDARD).items() if key not in own}
    assert vars(STANDARD) == alike | own
    found = config.load(ROOT / f"config/paper/{name}.yaml", run)
    assert alike.items() <= found.items()
    assert all("widths" in case for case in found.get("without", ()))
    assert not config.load(ROOT / f"config/full/{name}.yaml", run).get("without")
