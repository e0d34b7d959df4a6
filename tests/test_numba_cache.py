"""Where no folder for compiled code can be written to, a temporary one is named, once and in one line."""

import os
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
