"""The command that runs a campaign on a GPU: its arguments, and the few packages that it needs."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from emulated import needs_compiler
from gpu_study import CONFIG, written
from layernorm_backward.__main__ import main
from layernorm_backward.experiments import timing_gpu
from layernorm_backward.gpu import command, deadline
from layernorm_backward.records.provenance import code_hash
from layernorm_backward.studies import study
from workspace import ROOT

NO_DEVICE = "no CUDA device here"


def test_without_a_device_the_command_says_why(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "device_missing", lambda: NO_DEVICE)
    monkeypatch.setattr(command, "remedy", lambda packages: f"; needs {', '.join(packages)}")
    assert main(["gpu", "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"error: {NO_DEVICE}; needs cupy\n"
    assert not (tmp_path / "out").exists()


def test_an_invalid_configuration_is_reported_without_a_device(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "device_missing", lambda: NO_DEVICE)
    assert main(["gpu", "--out", str(tmp_path / "out"), "--config", str(tmp_path / "papre")]) == 1
    assert "papre/checks_gpu.yaml: there is no such file" in capsys.readouterr().err
    study = written(tmp_path / "tiny")
    values = CONFIG["timing_gpu"] | {"sets": {"a": {"kernels": ["cuda_fussed"]}}}
    (study / "timing_gpu.yaml").write_text(json.dumps(values), encoding="utf-8")
    assert main(["gpu", "--out", str(tmp_path / "out"), "--config", str(study)]) == 1
    assert NO_DEVICE not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--out"),
        (["--out", "x", "--minutes", "0"], "0: allowed: a number above 0"),
        (["--out", "x", "--minutes", "abc"], "abc: allowed: a number above 0"),
        (["--out", "x", "--resume", "--anew"], "not allowed with"),
        (["--out", "x", "--only", "timing_cpu"], "invalid choice"),
    ],
)
def test_invalid_arguments_are_reported(words, message, capsys):
    with pytest.raises(SystemExit):
        main(["gpu", *words])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kernels": ["cuda_fussed"]},
            "b: kernels: 'cuda_fussed'; allowed: cuda_fused, cuda_uncentred, torch_eager",
        ),
        ({"directions": ["sideways"]}, "allowed: forward, backward"),
        ({"dtypes": ["int8"]}, "allowed: float64, float32, float16, bfloat16"),
        ({"rows": [0]}, "b: rows: 0; allowed: whole numbers, at least 1"),
        ({"hidden": [64, "wide"]}, "b: hidden: 'wide'; allowed: whole numbers, at least 1"),
        ({"hidden": 64}, "b: hidden: 64; allowed: a list with one entry or more"),
        ({"gamma_dtypes": []}, r"b: gamma_dtypes: \[\]; allowed: a list with one entry or more"),
        ({"array_bytes": 5}, "and rows or array_bytes"),
        ({"colour": 5}, "sets: b: has"),
    ],
)
def test_an_invalid_set_is_reported(change, message):
    config = json.loads(json.dumps(CONFIG["timing_gpu"]))
    config["sets"]["b"] |= change
    with pytest.raises(ValueError, match=message):
        timing_gpu.cells(**config)


@pytest.mark.parametrize(
    ("one", "message"),
    [(3, "sets: b: 3; allowed: keys and values"), (True, "b: array_bytes: True; allowed: whole numbers")],
)
def test_a_set_without_keys_or_with_a_size_that_is_none_is_reported(one, message):
    config = json.loads(json.dumps(CONFIG["timing_gpu"]))
    whole = config["sets"]["b"]
    del whole["rows"]
    config["sets"]["b"] = whole | {"array_bytes": one} if one is True else one
    with pytest.raises(ValueError, match=message):
        timing_gpu.cells(**config)


def test_a_bad_set_is_reported_with_its_file_before_anything_is_measured(tmp_path):
    config = json.loads(json.dumps(CONFIG["timing_gpu"]))
    config["sets"]["b"]["hidden"] = [0]
    path = tmp_path / "timing_gpu.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{path}: sets: b: hidden: 0; allowed: ")):
        command._wanted(tmp_path, ["timing_gpu"])


def test_a_limit_that_is_missing_is_reported_with_file_key_and_dtype(tmp_path):
    path = tmp_path / "timing_gpu.yaml"
    path.write_text(json.dumps(CONFIG["timing_gpu"] | {"error_limit_u": {"float64": 1}}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"timing_gpu\.yaml: error_limit_u: nothing for float32.*; needed: "):
        command._config(path, timing_gpu)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("repeats", 0, "whole numbers, at least 1"),
        ("at_least", 2.5, "whole numbers, at least 1"),
        ("seed", -1, "whole numbers, at least 0"),
        ("eps", -1e-5, "numbers, above 0"),
        ("budget_s", "long", "numbers, at least 0"),
    ],
)
def test_a_number_that_cannot_be_is_reported_before_anything_is_measured(tmp_path, key, value, allowed):
    path = tmp_path / "timing_gpu.yaml"
    path.write_text(json.dumps(CONFIG["timing_gpu"] | {key: value}), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{path}: {key}: {value!r}; allowed: {allowed}")):
        command._config(path, timing_gpu)


@pytest.mark.parametrize("stem", command.STEMS)
def test_a_key_that_is_unknown_or_missing_is_reported_with_its_file(tmp_path, stem):
    path, values = tmp_path / f"{stem}.yaml", dict(CONFIG[stem])
    lost = next(iter(values))
    del values[lost]
    path.write_text(json.dumps(values | {"repeets": 3}), encoding="utf-8")
    told = rf"{re.escape(str(path))}: repeets: unknown; allowed: .*\n{re.escape(str(path))}: {lost}: missing"
    with pytest.raises(ValueError, match=told):
        command._config(path, command._experiment(stem))


def test_the_code_of_a_variant_is_that_of_its_kernel():
    """An edit of a kernel that only a variant names had left the times of the variant up to date."""
    values = {"kernels": ["cuda_separate"], "variants": ["cuda_uncentred"]}
    both = code_hash(timing_gpu.__name__, ["cuda_fused", "cuda_separate"])
    assert command._made_by(timing_gpu, values)["code_hash"] == both
    assert code_hash(timing_gpu.__name__, ["cuda_separate"]) != both


def test_the_minutes_count_from_the_start_of_the_process(monkeypatch, tmp_path):
    ends = []
    monkeypatch.setattr(command, "device_missing", lambda: "")
    monkeypatch.setattr(command, "Gpu", lambda: None)
    monkeypatch.setattr(deadline, "monotonic", lambda: 0.0)
    monkeypatch.setattr(command, "run", lambda *given, **_: ends.append(given[3].left()) or 0)
    assert command.main(["--out", str(tmp_path), "--minutes", "2"], spent_s=5.0) == 0
    assert main(["gpu", "--out", str(tmp_path), "--minutes", "2"]) == 0
    assert ends[0] == 115.0
    assert 100 < ends[1] < 120


MAY = ("numpy", "pandas", "PyYAML", "ml_dtypes", "cupy-cuda13x")


def with_requirements(names):
    """Those of the distributions that are installed, and what they need."""
    found = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        needed = (one for one in metadata.requires(name) or () if "extra ==" not in one)
        todo += [one for one in (re.match(r"[\w.-]+", text)[0] for text in needed) if one not in found]
    return found.values()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Runs Python with our package and the few that the command may import, and no other."""
    folder = tmp_path_factory.mktemp("packages")
    for distribution in with_requirements(MAY):
        for top in {file.parts[0] for file in distribution.files if file.parts[0] not in ("..", "nvidia")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", folder)))

    def run(*words):
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, "-S", *words], capture_output=True, text=True, check=False, env=environment
        )

    assert "No module named 'pydantic'" in run("-c", "import pydantic").stderr
    return run


def test_the_command_starts_with_few_packages(bare):
    done = bare("-m", "layernorm_backward", "gpu", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--resume" in done.stdout


def test_the_command_knows_every_experiment_on_a_device():
    stems = [path.stem for path in Path(command.__file__).parents[1].glob("experiments/[!_]*.py")]
    assert {*command.STEMS, *command.ON_DEMAND} == {stem for stem in stems if study.on_device(stem)}


def test_what_the_command_runs_imports_few_packages(bare):
    stems = ", ".join(f"layernorm_backward.experiments.{stem}" for stem in command.STEMS)
    done = bare("-c", f"import layernorm_backward.gpu.command, layernorm_backward.gpu.one_pass, {stems}")
    assert (done.returncode, done.stderr) == (0, "")


CAMPAIGN = """
import sys
from host_board import HostBoard
from layernorm_backward.gpu import command
command.Gpu, command.device_missing = HostBoard, lambda: ""
sys.exit(command.main(sys.argv[1:]))
"""


@needs_compiler
def test_a_campaign_runs_with_few_packages(bare, tmp_path):
    study = written(tmp_path / "tiny")
    done = bare("-c", CAMPAIGN, "--out", str(tmp_path / "out"), "--config", str(study))
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (tmp_path / "out" / "tables").glob("*.csv")} == set(command.STEMS)
