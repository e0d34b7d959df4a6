"""Where no folder for compiled code can be written to, a temporary one is named, once and in one line."""

import os
import subprocess
import sys
from pathlib import Path

from layernorm_backward import numba_cache


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
