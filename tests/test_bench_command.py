"""The command `bench`: options, messages, exit codes, its table, kernels from outside, and its page."""

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numba
import pytest

from layernorm_backward import kernels, machine
from layernorm_backward.__main__ import main
from layernorm_backward.bench import schedule
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.records import tables
from layernorm_backward.timing.timed import too_many
from workspace import ROOT

SIZE = ["--rows", "16", "--hidden", "24", "--threads", "1", "--seconds", "600"]


@pytest.fixture(autouse=True)
def in_no_hurry(naps, monkeypatch):
    """Seconds are those of computing and of naps, of which there are enough; bench repeats little."""
    monkeypatch.setattr(schedule, "MOST_REPEATS", 3)


def test_time_roof_and_baselines_are_printed_and_written(tmp_path, capsys):
    out = tmp_path / "mine.csv"
    options = ["--direction", "all", "--out", str(out)]
    assert main(["bench", "--kernel", "recentred", *SIZE, *options]) == 0
    said, progress = capsys.readouterr()
    assert "recentred: 16 rows of 24 float32, gamma float32, 1 thread\n" in said
    for word in ("forward", "backward", "both", "GB/s", "(roof)", "compact", "numpy_blocked", "numba_fused"):
        assert word in said
    assert re.search(r"within it; larger than it from --rows \d+ on", said)
    assert "recentred float32" in progress
    table = tables.read(out, stem="bench")
    assert len(table) == 12 and set(table["reason"]) == {""}
    meta = tables.read_meta(out)
    assert meta["config"]["kernel"] == "recentred" and meta["machine"]["cpu"] and meta["code_hash"]


MODULE = """
from time import sleep
from layernorm_backward.kernels import Kernel
from layernorm_backward.kernels.recentred import backward, forward
KERNEL = Kernel("outside", "cpu", forward, backward, 1e-5, "theirs")
COPY = Kernel("numba_fused", "cpu", forward, backward, 1e-5, "theirs")
DEVICE = Kernel("device", "cuda", forward, backward, 1e-5, "theirs")
NARROW = Kernel("narrow", "cpu", forward, backward, 1e-5, "theirs", unsupported={"float32": "only doubles"})
def slow(x, gamma, beta, eps):
    sleep(0.15)
    return forward(x, gamma, beta, eps)
slow_calls = 0
def slower(x, gamma, beta, eps):
    global slow_calls
    slow_calls += 1
    sleep(0.6)
    return forward(x, gamma, beta, eps)
def plain(x, gamma, beta, eps):
    return forward(x, gamma, beta, eps)
def mixed(x, gamma, beta, eps):
    assert gamma.dtype == "float32", f"gamma is {gamma.dtype}"
    return forward(x, gamma, beta, eps)
def wrong(dy, saved):
    dx, dgamma, dbeta = backward(dy, saved)
    return 2 * dx, dgamma, dbeta
def raises(dy, saved):
    return dy[99]
def consumes(dy, saved):
    found = backward(dy, saved)
    saved.rstd[...] *= 0.5
    return found
def writes(dy, saved):
    found = backward(dy, saved)
    dy *= 2
    return found
def infinite(dy, saved):
    dx, dgamma, dbeta = backward(dy, saved)
    return dx + dx.dtype.type("inf"), dgamma, dbeta
def few(dy, saved):
    if len(dy) > 5:
        raise ValueError("only five rows")
    return backward(dy, saved)
def floats(dy, saved, out=None):
    dx, dgamma, dbeta = backward(dy, saved, out)
    return (dx, dgamma, dbeta) if out is None else (dx, float(dgamma[0]), dbeta)
def narrow(dy, saved, out=None):
    dx, dgamma, dbeta = backward(dy, saved, out)
    return (dx, dgamma, dbeta) if out is None else (dx, dgamma[1:], dbeta)
def y_elsewhere(x, gamma, beta, eps, out=None):
    return forward(x, gamma, beta, eps)
def elsewhere(dy, saved, out=None):
    return backward(dy, saved)
def no_dgamma(dy, saved, out=None):
    dx, dgamma, dbeta = backward(dy, saved, out)
    found = dx, dgamma.copy(), dbeta
    dgamma[...] = 0
    return found
calls = 0
def tires(dy, saved, error):
    global calls
    calls += 1
    if calls > 8:
        raise error
    return backward(dy, saved)
def stops(dy, saved):
    return tires(dy, saved, RuntimeError("tired"))
def exits(dy, saved):
    return tires(dy, saved, SystemExit(3))
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(MODULE)
    (tmp_path / "kept.meta.json").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("theirs", None)


def test_a_kernel_of_an_entry_point_is_timed(theirs, monkeypatch, capsys):
    points = dict(kernels._points()) | {"outside": EntryPoint("outside", "theirs:KERNEL", kernels.GROUP)}
    monkeypatch.setattr(kernels, "_points", lambda: points)
    assert isinstance(KERNELS["outside"], Kernel)
    assert main(["bench", "--kernel", "outside", *SIZE, "--out", "out.csv"]) == 0
    assert capsys.readouterr().out.startswith("outside: ")
    assert set(tables.read(Path("out.csv"), stem="bench")["kernel"]) == {"outside"}


@pytest.mark.parametrize("words", [["bench", "--kernel"], ["audit"]], ids=lambda words: words[0])
def test_a_table_lands_where_it_was_asked_for_though_the_kernel_leaves_the_folder(words, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "leaves.py").write_text(f"import os\nos.chdir('elsewhere')\n{MODULE}")
    options = SIZE if words[0] == "bench" else SIZE[:4]
    run = [sys.executable, "-m", "layernorm_backward", *words, "leaves:KERNEL", *options, "--out", "out.csv"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").exists() and not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("gamma_dtype", "code", "said"),
    [
        ("float32", 0, "16 rows of 24 float16, gamma float32"),
        ("float16", 2, "AssertionError: gamma is float16"),
    ],
)
def test_a_kernel_that_takes_float32_parameters_only_is_timed_with_them(
    theirs, gamma_dtype, code, said, capsys
):
    words = ["--dtype", "float16", "--gamma-dtype", gamma_dtype]
    assert main(["bench", "--kernel", "theirs:mixed,backward", *SIZE, *words]) == code
    assert said in "".join(capsys.readouterr())


def test_a_kernel_that_calls_itself_what_another_is_called_is_another_one(theirs, capsys):
    assert main(["bench", "--kernel", "theirs:COPY", *SIZE]) == 0
    said = capsys.readouterr().out
    assert said.startswith("theirs:COPY: ") and "\n  numba_fused " in said


@pytest.mark.parametrize("target", ["theirs:KERNEL", "theirs:plain,backward", "./theirs.py:forward,backward"])
def test_what_the_audit_takes_is_timed(theirs, target, capsys):
    assert main(["bench", "--kernel", target, *SIZE]) == 0
    assert "triad" in capsys.readouterr().out


def test_wrong_results_end_with_exit_code_1(theirs, capsys):
    assert main(["bench", "--kernel", "theirs:forward,wrong", *SIZE]) == 1
    assert re.search(
        r"error: .* is wrong: dx has an error of .* u, over 100 u; not timed; `audit theirs:forward,wrong`",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "consumes",
            "a second backward of theirs:forward,consumes on the same saved is wrong: dx has an error",
        ),
        ("writes", "theirs:forward,writes writes to dy, of which it may only read; not timed"),
        ("infinite", "dx has an error of inf u"),
    ],
)
def test_what_must_not_be_timed_ends_with_exit_code_1_and_one_line(theirs, name, said, capsys):
    assert main(["bench", "--kernel", f"theirs:forward,{name}", *SIZE]) == 1
    err = capsys.readouterr().err.rpartition("\r")[2].strip()
    assert said in err and "\n" not in err


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("y_elsewhere,backward", "is wrong: y has an error of "),
        ("forward,elsewhere", "is wrong: dx has an error of "),
        ("forward,no_dgamma", "is wrong: dgamma has an error of "),
    ],
)
def test_results_are_what_stands_in_out_and_not_what_is_returned(theirs, pair, said, capsys):
    """A kernel with `out` is timed writing there."""
    assert main(["bench", "--kernel", f"theirs:{pair}", *SIZE]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("dtype", "hint"), [("float32", ""), ("float16", " --dtype float16")])
def test_the_audit_that_is_named_is_of_the_same_dtype(theirs, dtype, hint, capsys):
    assert main(["bench", "--kernel", "theirs:forward,wrong", *SIZE, "--dtype", dtype]) == 1
    assert f"`audit theirs:forward,wrong{hint}` says more" in capsys.readouterr().err


def test_the_audit_that_is_named_has_gamma_in_the_same_dtype(theirs, capsys):
    words = ["--dtype", "float16", "--gamma-dtype", "float32"]
    assert main(["bench", "--kernel", "theirs:forward,wrong", *SIZE, *words]) == 1
    assert f"`audit theirs:forward,wrong {' '.join(words)}` says more\n" in capsys.readouterr().err


def test_the_help_tells_the_dtype_that_gamma_has_where_none_is_given(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    assert "dtype of gamma and beta (that of x)" in " ".join(capsys.readouterr().out.split())


def test_what_is_imported_counts_and_is_told(theirs, monkeypatch, capsys):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24)
    words = ["--kernel", "theirs:slow,backward", *SIZE, "--seconds", "0.1"]
    assert main(["bench", *words]) == 2
    said = (
        r"no time is left for it \(of 0\.1 s, importing and a first call took .*\); allowed: --seconds \d+\n"
    )
    assert re.search(said, capsys.readouterr().err)


def test_calls_that_take_longer_than_there_is_time_are_not_repeated(theirs, capsys):
    """But once, since the first one may compile."""
    assert main(["bench", "--kernel", "theirs:slower,backward", *SIZE, "--seconds", "0.4"]) == 2
    said = r"slower,backward: one run, .*, takes about 0\.[67]\d* s, .*; allowed: --seconds \d+\n"
    assert re.search(said, capsys.readouterr().err)
    assert sys.modules["theirs"].slow_calls == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("\n    update(limit_s=_read('limit_s')[:-3])\n    sleep(999)", "exceeded the limit of 1 s"),
        ("_exit(3)", "exited with code 3"),
    ],
)
def test_a_first_call_that_does_not_come_back_is_told(body, said, tmp_path):
    """It may take as long as --seconds and --limit-s say: of these 1234 s, one waits no more than the 1."""
    imports = "from os import _exit\nfrom time import sleep\n"
    imports += "from layernorm_backward.kernels.recentred import forward\n"
    imports += "from layernorm_backward.untrusted.watch import _read, update\n"
    (tmp_path / "hangs.py").write_text(f"{imports}def backward(dy, saved): {body}\n")
    options = ["--kernel", "hangs:forward,backward", *SIZE, "--limit-s", "634"]
    words = [sys.executable, "-m", "layernorm_backward", "bench", *options]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{said} in hangs:forward,backward float32: trial call, backward\n" in done.stderr


def test_what_nobody_foresaw_does_not_say_that_results_are_wrong(monkeypatch, capsys):
    def draw(*arguments):
        raise RuntimeError("cannot cache function")

    monkeypatch.setattr("layernorm_backward.bench.draw", draw)
    assert main(["bench", "--kernel", "recentred", *SIZE]) == 2
    assert "RuntimeError: cannot cache function" in capsys.readouterr().err


def test_memory_that_does_not_suffice_is_told_in_one_line(monkeypatch, capsys):
    def draw(*arguments):
        raise MemoryError

    monkeypatch.setattr("layernorm_backward.bench.draw", draw)
    assert main(["bench", "--kernel", "recentred", *SIZE]) == 2
    said = capsys.readouterr().err.rpartition("\r")[2].strip()
    assert said == "error: out of memory with --rows 16 --hidden 24; allowed here: less"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kernel", "fast"], "no kernel is called 'fast'; there are: reference, compact,"),
        (["--kernel", "theirs:DEVICE"], "theirs:DEVICE runs on cuda; bench times kernels on the CPU"),
        (["--kernel", "theirs:NARROW"], "theirs:NARROW cannot run here in float32: only doubles"),
        (
            ["--kernel", "theirs:forward,raises"],
            "theirs:forward,raises on float32 arrays: backward raised IndexError",
        ),
        (
            ["--kernel", "theirs:forward,stops"],
            "forward,stops: backward raised RuntimeError: tired (theirs.py:",
        ),
        (["--kernel", "theirs:forward,exits"], "forward,exits: backward raised SystemExit: 3 (theirs.py:"),
        (
            ["--kernel", "theirs:forward,few"],
            "theirs:forward,few: backward raised ValueError: only five rows (theirs.py:",
        ),
        (
            ["--kernel", "theirs:forward,floats"],
            "floats: dgamma is a float; expected: an array (24,) of float32",
        ),
        (["--kernel", "theirs:forward,narrow"], "theirs:forward,narrow: dgamma is an array (23,) of float32"),
        (["--rows", "0"], "rows is 0; allowed: at least 1"),
        (["--hidden", "0"], "hidden is 0; allowed: at least 1"),
        (["--threads", "0"], "threads is 0; allowed: 1 to"),
        (["--threads", "many"], "threads is 'many'; allowed: 1 to"),
        (["--seconds", "0"], "seconds is 0; allowed: finite and > 0"),
        (["--seed", "-1"], "seed is -1; allowed: at least 0"),
        (["--gamma-dtype", "float64"], "gamma_dtype is float64 beside float32; allowed: float32"),
        (["--dtype", "bfloat16", "--gamma-dtype", "float16"], "allowed: bfloat16 or float32"),
        (["--rows", str(10**12)], "a third of the memory; allowed here: --rows up to"),
        (["--hidden", "2"], "hidden is 2; allowed: 1, or at least 5"),
        (["--rows", "1", "--hidden", "10000000"], "a row of 10000000 is too long for exact results"),
        (["--out", "nowhere/t.csv"], "--out nowhere/t.csv cannot be written: No such file"),
        (["--out", "t.txt"], "--out t.txt; allowed: a name that ends in .csv"),
        (["--out", "kept.csv"], "--out kept.meta.json cannot be written: Is a directory"),
    ],
)
def test_what_cannot_be_run_ends_with_exit_code_2_and_one_line(theirs, options, said, capsys):
    words = ["bench", "--kernel", "recentred", *SIZE, *options]
    assert main(words) == 2
    err = capsys.readouterr().err.rpartition("\r")[2].strip()
    assert said in err and "\n" not in err


def test_what_holds_numba_to_fewer_threads_or_none_of_its_code_is_named(monkeypatch, capsys):
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)
    assert main(["bench", "--kernel", "recentred", *SIZE, "--threads", "2"]) == 2
    assert capsys.readouterr().err == "error: threads is 2; allowed: 1 to 1 (NUMBA_NUM_THREADS), or all\n"
    assert too_many(2) == "NUMBA_NUM_THREADS is 1, not 2" and too_many(1) == ""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert main(["bench", "--kernel", "recentred", *SIZE]) == 2
    said = "NUMBA_DISABLE_JIT is set; unset it: the roof and our kernels are compiled"
    assert capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.parametrize("option", ["--dtype", "--direction"])
def test_an_unknown_choice_is_told_in_one_line(option, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "--kernel", "recentred", *SIZE, option, "sideways"])
    assert re.fullmatch(r"error: .*'sideways' .*\n", capsys.readouterr().err)


def test_a_bad_option_is_told_before_what_takes_long_to_import():
    code = "import sys; from layernorm_backward import bench_options; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "scipy", "sympy", "pandas"} & set(done.stdout.split())


PAGE = (ROOT / "docs" / "time-your-own.md").read_text(encoding="utf-8")


def test_the_page_is_right_as_it_is_written(tmp_path, monkeypatch, capsys):
    """Its file is timed by its command, on few rows, and prints lines of the same form."""
    monkeypatch.chdir(tmp_path)
    name, code = re.search(r"`(\w+\.py)`:\n+```python\n(.*?)```", PAGE, flags=re.DOTALL).groups()
    (tmp_path / name).write_text(code)
    command = re.search(r"^    python -m layernorm_backward (bench .*)$", PAGE, flags=re.MULTILINE)[1]
    assert main([*re.sub(r"--rows \d+", "--rows 64", command).split(), "--threads", "1"]) == 0
    printed = _first_words(capsys.readouterr().out)
    assert _first_words(re.search(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[1]) == printed
    sys.modules.pop(name.removesuffix(".py"))


def test_the_kernel_of_the_page_is_one_as_it_is_written(tmp_path, monkeypatch, capsys):
    """At the end of its file, in the package that the page names, under the entry point that it shows."""
    name, value = re.search(r'^    (\w+) = "(\S+)"$', PAGE, flags=re.MULTILINE).groups()
    package, module = value.partition(":")[0].split(".")
    (tmp_path / package).mkdir()
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    (tmp_path / package / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    points = dict(kernels._points()) | {name: EntryPoint(name, value, kernels.GROUP)}
    monkeypatch.setattr(kernels, "_points", lambda: points)
    assert main(["bench", "--kernel", name, *SIZE]) == 0
    assert main(["bench", "--kernel", name, *SIZE, "--dtype", "bfloat16"]) == 2
    said = f"{name} cannot run here in bfloat16: it would sum in 16 bits"
    assert said in capsys.readouterr().err


def _first_words(said: str) -> list[str]:
    """One a line; lines that depend on the machine are left out or made equal."""
    lines = (line.split() for line in said.splitlines() if "other processes ran" not in line)
    return [words[0].removesuffix("_nt") for words in lines if words]
