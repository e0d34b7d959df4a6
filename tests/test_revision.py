"""The commit that tables are recorded with: the one told, else this checkout's, and whether it was edited."""

import os
import subprocess
import sys

import pytest

from layernorm_backward.records import revision

TOLD = "0123456789ab"


def git(folder, *words):
    named = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.delenv(revision.VARIABLE, raising=False)


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one commit, a file in src, an archived table and a file that is ignored."""
    for name in ("src/one.py", "results/archive/here/one.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("one\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_clean_checkout_has_its_commit(checkout):
    (checkout / "notes.txt").write_text("not measured with")
    (checkout / "src" / "run.log").write_text("ignored")
    found = revision.commit(checkout)
    assert len(found) == 12 and set(found) <= set("0123456789abcdef")


def test_a_table_that_was_promoted_is_not_told(checkout):
    clean = revision.commit(checkout)
    (checkout / "results" / "archive" / "here" / "one.csv").write_text("two\n")
    assert revision.commit(checkout) == clean
    git(checkout, "rm", "-q", "-f", "results/archive/here/one.csv")
    assert revision.commit(checkout) == clean


@pytest.mark.parametrize("name", ["src/one.py", "src/two.py", "config/paper/new.yaml", "paper/new.md"])
def test_an_edit_and_a_new_file_that_results_hang_on_are_told(checkout, name):
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed")
    assert revision.commit(checkout).endswith("+changes")


def test_the_commit_that_is_told_is_before_that_of_a_checkout(checkout, monkeypatch):
    monkeypatch.setenv(revision.VARIABLE, TOLD)
    assert revision.commit(checkout) == TOLD
    (checkout / "src" / "one.py").write_text("edited")
    assert revision.commit(checkout) == TOLD
    monkeypatch.setenv(revision.VARIABLE, "")
    assert revision.commit(checkout).endswith("+changes")


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_the_repository_of_a_hook_that_runs_this_is_not_asked(checkout, tmp_path_factory, monkeypatch, name):
    other, expected = tmp_path_factory.mktemp("other"), revision.commit(checkout)
    git(other, "init", "-q")
    monkeypatch.setenv(name, str(other / {"GIT_WORK_TREE": "."}.get(name, ".git")))
    assert revision.commit(checkout) == expected != ""


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 on this system")
def test_a_folder_whose_name_is_not_utf_8_has_its_commit(checkout):
    folder = checkout.rename(checkout.with_name(os.fsdecode(b"not-\xff")))
    assert len(revision.commit(folder)) == 12


def test_a_copy_within_another_checkout_has_not_its_commit(checkout, monkeypatch):
    copy = checkout / "copy"
    copy.mkdir()
    assert revision.commit(copy) == ""
    for told in (TOLD, TOLD + "cdef" * 7):  # a hash in short, and whole
        monkeypatch.setenv(revision.VARIABLE, told)
        assert revision.commit(copy) == TOLD


def test_a_copy_outside_of_any_checkout_has_the_commit_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv(revision.VARIABLE, TOLD)
    assert revision.commit(tmp_path) == TOLD
    monkeypatch.setattr(revision, "_git", lambda *_: (_ for _ in ()).throw(FileNotFoundError("git")))
    assert revision.commit(tmp_path) == TOLD


def test_a_checkout_of_another_user_has_its_commit(checkout, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert len(revision.commit(checkout)) == 12


def test_what_is_told_beside_a_commit_is_kept(checkout, monkeypatch):
    monkeypatch.setenv(revision.VARIABLE, f"{TOLD}+changes")
    assert revision.commit(checkout) == f"{TOLD}+changes"


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 on this system")
def test_a_folder_whose_name_is_not_ascii_has_its_commit_without_utf_8(checkout):
    folder = checkout.rename(checkout.with_name("größe"))
    code = "from layernorm_backward.records import revision as r; print(r.commit(r.Path.cwd()))"
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    said = {"env": environment, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, **said)
    assert done.stdout.strip() == revision.commit(folder), done.stderr


@pytest.mark.parametrize(
    ("recorded", "named"),
    [
        ("0123456789ab", "0123456"),
        ("0123456789ab+changes", "0123456+changes"),
        ("", "an unknown commit"),
    ],
)
def test_a_commit_is_named_by_seven_digits_and_whether_it_was_changed(recorded, named):
    assert revision.named(recorded) == named
