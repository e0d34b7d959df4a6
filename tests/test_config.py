"""A config file is the arguments of `run`: every fault is told with file, key and what is allowed."""

import typing

import pytest
import yaml

from layernorm_backward import config
from layernorm_backward.__main__ import main
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName
from layernorm_backward.kernels import KERNELS
from workspace import ROOT

GOOD = """\
kernels: [compact, recentred]
dtypes: [float32, bfloat16]
shapes: [[4, 8, 16], [1, 1, 64]]
offsets: [0, 1e4, -1e-5, 2.5e+14]
mode: fast
seed: 1
"""


def run(
    *,
    kernels: list[str],
    dtypes: list[DtypeName],
    shapes: list[tuple[int, int, int]],
    offsets: list[float],
    mode: typing.Literal["fast", "slow"],
    seed: int,
    scaling_points: object,
) -> None:
    """An experiment that takes one table besides its config."""


def load(tmp_path, text):
    path = tmp_path / "variance.yaml"
    path.write_text(text, encoding="utf-8")
    return config.load(path, run, ("scaling_points",))


def test_a_good_file_gives_the_arguments_in_their_types(tmp_path):
    arguments = load(tmp_path, GOOD)
    assert arguments == {
        "kernels": ["compact", "recentred"],
        "dtypes": ["float32", "bfloat16"],
        "shapes": [(4, 8, 16), (1, 1, 64)],
        "offsets": [0.0, 1e4, -1e-5, 2.5e14],
        "mode": "fast",
        "seed": 1,
    }
    assert all(type(offset) is float for offset in arguments["offsets"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed: 1", "sed: 1", "sed: unknown key; allowed: kernels, dtypes, shapes, offsets, mode, seed"),
        ("seed: 1\n", "", "seed: the key is missing; needed: kernels, dtypes"),
        ("seed: 1", "seed: many", "seed: Input should be a valid integer, found 'many'"),
        ("seed: 1", "seed: 1.5", "seed: Input should be a valid integer, found 1.5"),
        ("seed: 1", "seed: true", "seed: Input should be a valid integer, found True"),
        ("seed: 1", "seed: 1\nseed: 2", "line 7: not valid YAML: the key 'seed' stands twice"),
        ("seed: 1", "seed: 1\nyes: 2", "true: unknown key"),
        ("1e4", "'1e4'", "offsets.1: Input should be a valid number, found '1e4'"),
        ("[compact, recentred]", "compact", "kernels: Input should be a valid array, found 'compact'"),
        ("recentred", "recentered", f"kernels: unknown kernel 'recentered'; allowed: {', '.join(KERNELS)}"),
        ("bfloat16", "float8", "dtypes.1: Input should be 'float64', 'float32', 'float16' or 'bfloat16'"),
        ("[4, 8, 16]", "[4, 8]", "shapes.0.2: Field required, found [4, 8]"),
        ("[4, 8, 16]", "[4, 8, x]", "shapes.0.2: Input should be a valid integer, found 'x'"),
        ("mode: fast", "mode: quick", "mode: Input should be 'fast' or 'slow', found 'quick'"),
        (GOOD, "- 1\n", "must hold keys and values, holds list"),
        (GOOD, "", "must hold keys and values, holds NoneType"),
        ("[compact, recentred]", "[compact", "line 2: not valid YAML"),
    ],
)
def test_a_fault_is_told_with_file_key_and_what_is_allowed(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(caught.value).startswith(f"{tmp_path / 'variance.yaml'}: ")
    assert message in str(caught.value)


def test_every_fault_of_a_file_is_told_at_once(tmp_path):
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, GOOD.replace("seed: 1", "sed: 1").replace("float32", "float31"))
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["dtypes.0", "seed", "sed"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(config.ConfigError, match=r"variance\.yaml: there is no such file"):
        config.load(tmp_path / "variance.yaml", run)


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "variance.yaml"
    path.write_bytes(b"seed: \xff\xfe")
    with pytest.raises(config.ConfigError, match=r"variance\.yaml: not UTF-8 text"):
        config.load(path, run)


def test_a_table_that_the_experiment_takes_is_no_key(tmp_path):
    with pytest.raises(config.ConfigError, match="scaling_points: unknown key"):
        load(tmp_path, GOOD + "scaling_points: x\n")


def test_the_command_line_tells_a_fault_in_one_line_and_fails(tmp_path, capsys):
    path = tmp_path / "variance.yaml"
    path.write_text("nonsense: 1\n", encoding="utf-8")
    assert main(["variance", str(path), str(tmp_path / "variance.csv")]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"error: {path}: ")
    assert f"{path}: nonsense: unknown key; allowed: " in message


def test_the_names_of_dtypes_are_those_that_configs_may_use():
    assert typing.get_args(DtypeName) == DTYPE_NAMES


def test_configs_name_kernels_where_their_code_is_looked_for():
    """A table is made again when the code of the kernels under `kernels` has changed."""
    singular = [path for path in ROOT.glob("config/*/*.yaml") if "kernel" in yaml.safe_load(path.read_text())]
    assert singular == []
