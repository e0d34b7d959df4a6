"""A command whose process ends or hangs is told, with where it was and what it had found."""

import signal
import subprocess
import sys

import psutil
import pytest

from test_interrupted import wait_for

RUN = """
import ctypes, os, signal, sys, time
from layernorm_backward.untrusted import watch
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have it ignored in the background
def run():
    watch.update(step="a step", function="backward", found="so far", **{limit})
    open("started", "w").close()
    {do}
sys.exit(watch.watched(run))
"""
WHERE = "in a step, backward\n"


def ended(folder, do, limit="{}", interrupt=False):
    """How a process ends in which `do` is run: exit code, stdout, stderr."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-c", RUN.format(do=do, limit=limit)]
    with subprocess.Popen(words, cwd=folder, **pipes) as run:
        try:
            if interrupt:
                wait_for((folder / "started").exists)
                run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=300)
            return run.returncode, out, err
        finally:
            run.kill()


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("ctypes.string_at(0)", "the process was terminated by SIGSEGV"),
        ("os._exit(0)", "the process exited with code 0"),
    ],
)
def test_a_process_that_is_ended_tells_where_and_what_was_found(tmp_path, do, said):
    code, out, err = ended(tmp_path, do)
    assert (code, out) == (2, "so far\n")
    assert err.endswith(f"\nerror: {said} {WHERE}")
    assert ("Segmentation fault" in err) == ("SIGSEGV" in said)  # with the place in the code


def test_a_process_that_is_ended_after_its_command_tells_that(tmp_path):
    do = "import atexit; atexit.register(ctypes.string_at, 0); return 0"
    code, _, err = ended(tmp_path, do)
    assert code == 2 and err.endswith("\nerror: the process was terminated by SIGSEGV at its end\n")


def test_a_call_that_hangs_is_ended_at_the_limit(tmp_path):
    assert ended(tmp_path, "time.sleep(3600)", "dict(limit_s='0.3')") == (
        2,
        "so far\n",
        f"\nerror: exceeded the limit of 0.3 s {WHERE}",
    )


def test_ctrl_c_tells_where_and_what_was_found(tmp_path):
    code, out, err = ended(tmp_path, "time.sleep(3600)", interrupt=True)
    assert (code, out, err) == (130, "so far\n", f"\nerror: interrupted {WHERE}")


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_command_that_comes_back_has_its_own_exit_code(tmp_path, code):
    assert ended(tmp_path, f"return {code}") == (code, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_command_leaves_no_process_that_hangs(tmp_path):
    do = "open('pid', 'w').write(str(os.getpid())); time.sleep(3600)"
    words = [sys.executable, "-c", RUN.format(do=do, limit="{}")]
    with subprocess.Popen(words, cwd=tmp_path) as run:
        wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        run.kill()
    wait_for(lambda: is_gone(int((tmp_path / "pid").read_text())))


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # until its new parent looks at it
    except psutil.NoSuchProcess:
        return True
