"""Where no folder for compiled code can be written to, a temporary one is named, once and in one line."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from layernorm_backward import numba_cache
from layernorm_backward.__main__ import main
from layernorm_backward.kernels.cuda.kept import kept


def test_a_temporary_folder_takes_the_place_of_one_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    (taken := tmp_path / "file").touch()
    monkeypatch.setattr(numba_cache, "_IN_TREE", taken / "__pycache__")
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(taken))
    numba_cache.ensure()
    assert Path(os.environ["NUMBA_CACHE_DIR"]).is_dir()
    said = capsys.readouterr().err
    assert said.startswith("warning: no folder for compiled code can be written to") and said.count("\n") == 1
    numba_cache.ensure()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "code"), [(["check", "smoke"], 1), (["audit", "recentred"], 2), (["bench", "--help"], 2)]
)
def test_where_nothing_can_be_written_to_a_command_says_so_in_one_line(
    tmp_path, monkeypatch, capsys, words, code
):
    (taken := tmp_path / "file").touch()
    monkeypatch.setattr(numba_cache, "_IN_TREE", taken / "__pycache__")
    for name in ("XDG_CACHE_HOME", numba_cache.VARIABLE):
        monkeypatch.setenv(name, str(taken))
    monkeypatch.setattr(tempfile, "tempdir", str(taken))
    assert main(words) == code
    said = "error: no folder for compiled code can be written to, nor one for temporary files"
    assert capsys.readouterr().err == f"{said}: NUMBA_CACHE_DIR names one\n"


def test_a_cache_that_cuda_code_cannot_be_kept_in_is_named(tmp_path, monkeypatch):
    (taken := tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    said = f"{taken}/layernorm_backward cannot be written to; XDG_CACHE_HOME names another folder"
    with pytest.raises(OSError, match=re.escape(said)):
        kept(".so", "parts", [], lambda path: path.touch())


def test_a_folder_that_can_be_written_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "there"))
    numba_cache.ensure()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "there")
    assert capsys.readouterr().err == ""


def test_a_library_user_without_a_folder_to_write_to_gets_a_temporary_one(tmp_path):
    """Numba has been imported before, and a container's user has no home."""
    (tmp_path / "file").touch()
    taken = str(tmp_path / "file" / "nowhere")
    code = f"""
import sys
from pathlib import Path
import numba
from layernorm_backward import numba_cache
numba_cache._IN_TREE = Path({taken!r})
import layernorm_backward.kernels.numba_fused
@numba.njit(cache=True)
def twice(x): return 2 * x
print(twice(4), Path(numba.config.CACHE_DIR).is_dir(), any(Path(numba.config.CACHE_DIR).rglob("*.nbi")))
"""
    (tmp_path / "mine.py").write_text(code)
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment |= {"HOME": taken, "XDG_CACHE_HOME": taken}
    done = subprocess.run(
        [sys.executable, "mine.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "8 True True\n", done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("warning: no folder for compiled code")
