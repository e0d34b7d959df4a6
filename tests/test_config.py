"""A config file is the arguments of `run`: every fault is told with file, key and what is allowed."""

import importlib
import typing

import pytest
import yaml
from typing_extensions import TypedDict

from layernorm_backward import experiments
from layernorm_backward.__main__ import main
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName
from layernorm_backward.kernels import KERNELS, missing
from layernorm_backward.records.provenance import constant
from layernorm_backward.studies import config, per_dtype
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
        (
            "mode: fast",
            "mode: fa\x07st",
            r"line 5: not valid YAML: the character '\x07' is not allowed",
        ),
        ("seed: 1", "? [seed]\n: 1", "line 6: not valid YAML: a key must be a word or a number"),
        ("seed: 1", "{a: b}: 1", "line 6: not valid YAML: a key must be a word or a number"),
        ("seed: 1", "2020-01-01: 1", "line 6: not valid YAML: a key must be a word or a number"),
        ("seed: 1", "seed: 2020-13-01", "not valid YAML: month must be in 1..12"),
        ("seed: 1", "seed: !much 1", "line 6: not valid YAML: could not determine a constructor"),
        ("seed: 1", "seed: &a [*a]", "holds a value that holds itself"),
        ("seed: 1", f"seed: {'[' * 2000}", "not valid YAML"),
    ],
)
def test_a_fault_is_reported_with_file_key_and_what_is_allowed(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(caught.value).startswith(f"{tmp_path / 'variance.yaml'}: ")
    assert message in str(caught.value)


def test_every_fault_of_a_file_is_reported_at_once(tmp_path):
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, GOOD.replace("seed: 1", "sed: 1").replace("float32", "float31"))
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["dtypes.0", "seed", "sed"]


def test_a_mapping_that_is_empty_lacks_every_dtype():
    said = "limits: nothing for float32; needed: float32, which stand under dtypes"
    assert per_dtype.lacking({"dtypes": ["float32"], "limits": {}}) == [said]


class First(TypedDict):
    one: int


class Second(TypedDict):
    two: int


def of_two(*, shape: First | Second) -> None:
    """An experiment that takes either of two mappings."""


def test_the_keys_that_are_allowed_are_those_of_the_mapping_that_is_meant(tmp_path):
    path = tmp_path / "of_two.yaml"
    path.write_text("shape: {three: 3}\n", encoding="utf-8")
    with pytest.raises(config.ConfigError) as refused:
        config.load(path, of_two)
    for allowed in ("one", "two"):
        assert f"{path}: shape.three: unknown key; allowed: {allowed}" in str(refused.value).splitlines()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(config.ConfigError, match=r"variance\.yaml: there is no such file"):
        config.load(tmp_path / "variance.yaml", run)


def test_a_folder_is_no_missing_file(tmp_path):
    with pytest.raises(config.ConfigError, match=f"^{tmp_path}: is a folder; allowed: a YAML file$"):
        config.load(tmp_path, run)


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


def untyped(*, seed) -> None:
    """An experiment whose argument has no type."""


@pytest.mark.parametrize(
    ("faulty", "needs", "message"),
    [
        (untyped, (), "untyped: the argument seed has no type; needed: "),
        (
            run,
            ("scaling_points", "variance"),
            "run: no argument variance; needed: one for each table in NEEDS",
        ),
    ],
)
def test_a_run_that_takes_something_else_is_reported_by_argument(tmp_path, faulty, needs, message):
    path = tmp_path / "variance.yaml"
    path.write_text("seed: 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{__name__}.{message}"):
        config.load(path, faulty, needs)


def test_the_names_of_dtypes_are_those_that_configs_may_use():
    assert typing.get_args(DtypeName) == DTYPE_NAMES


def test_configs_name_kernels_where_their_code_is_looked_for():
    """A table is made again when the code of the kernels under `kernels` has changed."""
    singular = [path for path in ROOT.glob("config/*/*.yaml") if "kernel" in yaml.safe_load(path.read_text())]
    assert singular == []


CONFIGS = sorted(path.relative_to(ROOT) for path in ROOT.glob("config/*/*.yaml"))


def of_experiment(path):
    name = experiments.module_name(path.stem)
    return config.load(path, importlib.import_module(name).run, constant(name, "NEEDS"))


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_every_config_can_be_used(path):
    assert of_experiment(ROOT / path)


def changed(tmp_path, key, value):
    """The smoke config `key` begins with, with another value at the rest of it."""
    stem, *inner, last = key.split(".")
    values = yaml.safe_load((ROOT / f"config/smoke/{stem}.yaml").read_text(encoding="utf-8"))
    place = values
    for part in inner:
        place = place[int(part) if part.isdigit() else part]
    place[last] = value
    path = tmp_path / f"{stem}.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


SET = "timing_cpu.sets.published"
SIZES = "timing_cpu.sets.working_sets.sizes"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("eps.hidden", 0, "hidden: Input should be greater than or equal to 1, found 0"),
        ("eps.rows", 0, "rows: Input should be greater than or equal to 1, found 0"),
        ("eps.seed", -1, "seed: Input should be greater than or equal to 0, found -1"),
        ("eps.eps", [0.0], "eps.0: Input should be greater than 0"),
        ("backward_error.eps", 0.0, "eps: Input should be greater than 0"),
        ("eps_placement.eps", [-1.0], "eps.0: Input should be greater than or equal to 0"),
        ("eps.dtypes", [], "dtypes: List should have at least 1 item"),
        ("eps.dtypes", ["float32"] * 2, "dtypes: 'float32' stands twice; allowed: once"),
        ("eps.kernels", [], "kernels: List should have at least 1 item"),
        ("eps.kernels", ["compact"] * 2, "kernels: 'compact' stands twice; allowed: once"),
        ("backward_error.kappas", [], "kappas: List should have at least 1 item"),
        ("backward_error.kappas", [0.5], "kappas.0: Input should be greater than or equal to 1"),
        ("backward_error.kappas", [float("nan")], "kappas.0: Input should be a finite number"),
        ("backward_error.kappas", [3, 3.0], "kappas: 3.0 stands twice"),
        ("backward_error.upstreams", [], "upstreams: List should have at least 1 item"),
        ("backward_error.hidden_sweep", [0], "hidden_sweep.0: Input should be greater than or equal to 1"),
        ("variance.gaussian_offsets", [], "gaussian_offsets: List should have at least 1 item"),
        ("variance.gaussian_offsets", [float("inf")], "gaussian_offsets.0: Input should be a finite number"),
        ("variance.algorithms", ["naiv"], "algorithms: unknown 'naiv'; allowed: naive, "),
        ("mean_path.algorithms", ["naiv"], "algorithms: unknown 'naiv'; allowed: naive, "),
        ("mean_path.sweeps.0.hidden", [0], "sweeps.0.hidden.0: Input should be greater than or equal to 1"),
        ("scaling_points.directions", ["both"], "directions.0: Input should be 'forward' or 'backward'"),
        ("tolerance.confidence", 95, "confidence: Input should be less than 1"),
        ("tolerance.ways", ["naiv"], "ways: unknown 'naiv'; allowed: naive, "),
        ("derivation.shapes", [[1, 0, 2]], "shapes.0.1: Input should be greater than or equal to 1"),
        ("derivation.derivations", ["guess"], "derivations: unknown 'guess'; allowed: "),
        ("derivation.precision_bits", 1, "precision_bits: Input should be greater than or equal to 106"),
        ("derivation.precision_bits", 10**12, "precision_bits: Input should be less than or equal to 1024"),
        ("derivation.prove_hidden", [8], "prove_hidden.0: Input should be less than or equal to 5, found 8"),
        ("slopes.fewest", 1, "fewest: Input should be greater than or equal to 2, found 1"),
        ("gradient_check.methods", ["guess"], "methods: unknown 'guess'; allowed: "),
        ("gradient_check.large_method", "guess", "large_method: unknown 'guess'; allowed: "),
        (
            "gradient_check.published_kernels.guess",
            [[1, 2, 3]],
            "published_kernels: unknown 'guess'; allowed",
        ),
        ("mutation.draws", [[0, []]], "draws.0.1: "),
        ("mutation.checks", ["guess"], "checks: unknown 'guess'; allowed: "),
        ("summation.schemes", ["guess"], "schemes: unknown 'guess'; allowed: running, "),
        ("summation.seeds", [1], "seeds: 1 entries; allowed: 4, one for each of rows"),
        ("audit_peers.peers", ["guess"], "peers: unknown 'guess'; allowed: "),
        ("audit_peers.without", ["guess"], "without: unknown 'guess'; allowed: "),
        ("variance_time.budget_s", -1, "budget_s: Input should be greater than or equal to 0"),
        ("variance_time.budget_s", float("inf"), "budget_s: Input should be a finite number"),
        ("variance_time.repeats", 0, "repeats: Input should be greater than or equal to 1"),
        ("variance_time.at_least", 0, "at_least: Input should be greater than or equal to 1"),
        ("variance_time.at_least", 10**6, "at_least: 1000000; allowed: up to "),
        ("timing_cpu.rounds", 9, "at_least: 2; allowed: 9 or more, the rounds"),
        ("spells.hidden", [0], "hidden.0: Input should be greater than or equal to 1"),
        ("spells.bands", [1.4, 1.2], "bands: 1.2 after 1.4; allowed: each above the one before"),
        ("spells.loop_rounds", {"update": 3}, "loop_rounds.multiply_add: Field required"),
        ("spells.kernels", ["fastest"], "kernels: unknown kernel 'fastest'; allowed: "),
        ("spells.loop_rounds.update", 0, "loop_rounds.update: Input should be greater than or equal to 1"),
        ("spells.loop_rounds.add", 1, "loop_rounds.add: unknown key; allowed: update, multiply_add"),
        ("spells.bands", [1.0], "bands.0: Input should be greater than 1, found 1.0"),
        ("spells.bands", [1.1, float("inf")], "bands.1: Input should be a finite number"),
        ("handover.bands_ns", [80.0, 40.0], "bands_ns: 40.0 after 80.0; allowed: each above the one before"),
        ("handover.bands_ns", [], "bands_ns: List should have at least 1 item"),
        ("handover.bands_ns", [0.0], "bands_ns.0: Input should be greater than 0"),
        ("handover.turns", 0, "turns: Input should be greater than or equal to 1"),
        ("handover.loop_rounds", 0, "loop_rounds: Input should be greater than or equal to 1"),
        ("handover.rest_s", -1.0, "rest_s: Input should be greater than or equal to 0"),
        ("spells.working_set", -5, "working_set: Input should be greater than or equal to 1, found -5"),
        ("spells.threads", [0], "threads.0: Input should be greater than or equal to 1, found 0"),
        ("kernel_costs.error_rows", 0, "error_rows: Input should be greater than or equal to 1"),
        ("kernel_costs.error_limit_u", 0, "error_limit_u: Input should be greater than 0"),
        ("kernel_costs.sweeps", [], "sweeps: List should have at least 1 item"),
        ("kernel_costs.sweeps.0.threads", [0], "sweeps.0.threads.0: Input should be greater than or equal"),
        (
            "kernel_costs.sweeps.0.thread",
            [1],
            "sweeps.0.thread: unknown key; allowed: working_sets, dtypes, hidden, directions, threads",
        ),
        ("timing_cpu.error_elements", 0, "error_elements: Input should be greater than or equal to 1"),
        ("timing_cpu.threaded", ["compat"], "threaded: unknown 'compat'; allowed: reference, compact"),
        ("timing_cpu.sets", {}, "sets: Dictionary should have at least 1 item"),
        (
            f"{SET}.thread",
            [1],
            "d.thread: unknown key; allowed: kernels, directions, sizes, dtypes, gamma_dtypes, threads",
        ),
        (f"{SET}.threads", [0], "sets.published.threads.0: Input should be greater than or equal to 1"),
        (f"{SET}.kernels", ["compat"], "sets: published: kernels: unknown 'compat'; allowed: reference, "),
        (f"{SET}.directions", [], "sets.published.directions: List should have at least 1 item"),
        (f"{SET}.sizes", [[0, 1, 2]], "sets.published.sizes.0.0: Input should be greater than or equal"),
        (f"{SIZES}.hidden", [0], "sizes.hidden.0: Input should be greater than or equal to 1"),
        (f"{SIZES}.working_set", -5, "sizes.working_set: Input should be greater than or"),
        (f"{SIZES}.hidden", 5, "sizes.hidden: Input should be a valid array, found 5"),
        (
            f"{SIZES}.working_set",
            "in_cach",
            "sizes.working_set: Input should be 'beyond_cache' or 'in_cache'",
        ),
        (f"{SIZES}.thread", [1], "sizes.thread: unknown key; allowed: hidden, working_set"),
        ("peers_cpu.kernels", ["compact", "recentred"], "kernels: Value should have at most 1 item"),
        ("peers_cpu.sets.resident.kernels", ["guess"], "resident: kernels: unknown 'guess'; allowed: torch_"),
        ("peers_cpu.error_limit_u.float32", -1, "error_limit_u.float32: Input should be greater than 0"),
        ("peers_cpu.sums_limit_u", {"float64": 1}, "sums_limit_u: nothing for float32; needed: "),
        (
            "kernel_costs.kappas",
            {"float32": 10.0},
            "kappas: nothing for bfloat16; needed: float32, bfloat16, which stand under dtypes",
        ),
        ("kernel_costs.kappas", {}, "kappas: Dictionary should have at least 1 item"),
        ("timing_gpu.error_limit_u", {"float32": 64}, "error_limit_u: nothing for bfloat16; needed: "),
        ("checks_gpu.limits_u", {"float64": 8}, "limits_u: nothing for float32, float16, bfloat16; needed: "),
        ("scaling_points.fixed", {"rows": 16}, "fixed: nothing for hidden; needed: each axis under axes"),
        ("backward_error_gpu.rows", -4, "rows: -4; allowed: whole numbers, at least 1"),
        ("backward_error_gpu.rows", 2.5, "rows: Input should be a valid integer"),
        ("backward_error_gpu.seed", -1, "seed: -1; allowed: whole numbers, at least 0"),
        ("backward_error_gpu.eps", 0, "eps: 0.0; allowed: numbers, above 0"),
        ("backward_error_gpu.kernels", [], "kernels: []; allowed: one entry or more, each once"),
        ("backward_error_gpu.peers", ["zzz"], "peers.0: 'zzz'; allowed: torch_eager, torch_compile, jax, "),
        ("backward_error_gpu.kappas", [0.5], "kappas.0: 0.5; allowed: numbers, at least 1"),
        ("backward_error_gpu.kappas", [float("nan")], "kappas.0: nan; allowed: numbers, at least 1"),
        ("backward_error_gpu.hidden_sweep", [64, 64], "hidden_sweep: [64, 64]; allowed: each entry once"),
        ("ceiling_gpu.budget_s", float("inf"), "budget_s: inf; allowed: numbers, at least 0"),
        ("ceiling_gpu.sizes", [0], "sizes.0: 0; allowed: whole numbers, at least 1"),
        ("checks_gpu.tools", ["lint"], "tools.0: Input should be 'memcheck', 'racecheck', 'initcheck' or "),
        ("checks_gpu.large", [["float32", 0, 4]], "large.0.1: 0; allowed: whole numbers, at least 1"),
        ("checks_gpu.limits_u.float32", -1, "limits_u.float32: -1.0; allowed: numbers, above 0"),
        ("maps_gpu.filled", 1.5, "filled: 1.5; allowed: numbers, above 0, at most 1"),
        ("maps_gpu.rests.forward", [[0, 1]], "rests.forward.0.0: 0.0; allowed: numbers, above 0, at most 1"),
        ("timing_gpu.variants", ["zzz"], "variants.0: 'zzz'; allowed: cuda_uncentred"),
        ("traffic_gpu.directions", ["both"], "directions.0: Input should be 'forward' or 'backward'"),
        ("scaling.decades", 0, "decades: Input should be greater than 0"),
        ("scaling_points.axes.rows", [0], "axes.rows.0: Input should be greater than or equal to 1"),
        ("scaling.above", 0.5, "above: Input should be greater than or equal to 1, found 0.5"),
        ("ceiling_cpu.working_sets", [100], "working_sets.0: Input should be greater than or equal to 4096"),
        ("ceiling_cpu.memory_limit_bytes", 100, "bytes: Input should be greater than or equal to 6144"),
        ("mutation.more_draws", {"oursfloat": []}, "more_draws: unknown 'oursfloat'; allowed: torch_gradc"),
        ("mutation_cover.together", {"any": ["ours"]}, "together: 'any' is taken; allowed: none of torch_g"),
        ("mutation_cover.together", {"ours": ["ours"]}, "together: 'ours' is taken; allowed: none of "),
        ("tightness.data", ["gausian"], "data.0: Input should be 'gaussian' or 'outlier', found 'gausian'"),
        ("summation.upstreams", {"shifted": ["dx"]}, "shifted.0: Input should be 'dbeta' or 'dgamma'"),
        ("summation.upstreams", {"shifd": ["dbeta"]}, "upstreams: unknown 'shifd'; allowed: normal, shifted"),
        (
            "summation.accumulators",
            {"float32": ["float8"]},
            "float32.0: Input should be 'storage', 'float64'",
        ),
        ("summation.accumulators", {}, "accumulators: Dictionary should have at least 1 item"),
        (
            "representation.upstreams",
            {"gausian": ["shifted"]},
            "upstreams: unknown 'gausian'; allowed: ladder",
        ),
        ("variance_time.algorithms", ["welford"], "algorithms: no two_pass; it must be among them"),
        ("traffic_cpu.schemes", ["nope"], "schemes: unknown 'nope'; allowed: separate, fused"),
        ("traffic_steps.kernels", ["cuda_fused"], "kernels: unknown 'cuda_fused'; allowed: reference, comp"),
        ("traffic_steps.schemes", ["nope"], "schemes: unknown 'nope'; allowed: separate, fused"),
        (
            "mean_path.sweeps.0.spreads",
            [0, 0.1],
            "sweeps.0: spreads [0.0, 0.1] for shifted; allowed: [0], others where upstreams is [aligned]",
        ),
        ("audit.hidden", 4, "hidden: Input should be greater than or equal to 16, found 4"),
        ("audit_peers.hidden", 4, "hidden: Input should be greater than or equal to 16, found 4"),
        ("model.sentences", 9999, "sentences: Input should be less than or equal to 28, found 9999"),
        ("model_error.sentences", 0, "sentences: Input should be greater than or equal to 1, found 0"),
        ("model_error.offset_layers", [999], "offset_layers.0: Input should be less than 13, found 999"),
    ],
)
def test_an_argument_of_an_experiment_that_cannot_be_is_reported(tmp_path, key, value, message):
    path = changed(tmp_path, key, value)
    with pytest.raises(config.ConfigError) as caught:
        of_experiment(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [(f"{SET}.sizes", [[0, 1, 2]]), (f"{SIZES}.hidden", [0]), (f"{SIZES}.working_set", -5)],
)
def test_one_wrong_value_is_one_fault_whatever_else_might_stand_there(tmp_path, key, value):
    with pytest.raises(config.ConfigError) as caught:
        of_experiment(changed(tmp_path, key, value))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.skipif(not missing(KERNELS["cuda_fused"]), reason="cuda_fused can run here")
@pytest.mark.parametrize("stem", ["backward_error", "cancellation", "edge_cases", "eps", "tolerance"])
def test_a_kernel_that_cannot_run_here_is_reported_with_the_reason(tmp_path, stem):
    path = changed(tmp_path, f"{stem}.kernels", ["compact", "cuda_fused"])
    said = f"kernels: kernel 'cuda_fused' cannot run here: {missing(KERNELS['cuda_fused'])}"
    with pytest.raises(config.ConfigError) as caught:
        of_experiment(path)
    assert str(caught.value) == f"{path}: {said}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("backward_error.hidden_sweep", []),
        ("compile_time.compilations", 0),
        ("summation.reversed_rows", 0),
        ("variance_time.budget_s", 0),
        ("mean_path.sweeps.0.spreads", [0]),
    ],
)
def test_nothing_at_all_is_allowed_where_it_means_something(tmp_path, key, value):
    assert of_experiment(changed(tmp_path, key, value))
