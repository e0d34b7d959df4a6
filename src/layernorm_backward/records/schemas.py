"""The columns of every table: one entry per stem, keys first. Programs read these; the paper cites them.

A kind is str, int, float or bool. A float may be empty (not measured), a str may be empty; an int or a
bool may be empty only in a row whose `reason` says why nothing was measured.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["str", "int", "float", "bool"]


@dataclass(frozen=True)
class Schema:
    """Keys identify a row and are never empty; values are what was measured.

    repeats: the largest relative difference (of the larger number) when the table is measured again with the
    same versions and configuration. 0: none, on any machine; None: the table depends on the machine.
    """

    keys: dict[str, Kind]
    values: dict[str, Kind]
    repeats: float | None = 0.0

    @property
    def columns(self) -> dict[str, Kind]:
        return self.keys | self.values


def _columns(text: str) -> dict[str, Kind]:
    """Parse "name other:int": a column without a kind holds str. ValueError for another kind."""
    pairs = [item.partition(":") for item in text.split()]
    for name, _, kind in pairs:
        if kind and kind not in get_args(Kind):
            raise ValueError(f"column {name}: unknown kind {kind!r}; allowed: {', '.join(get_args(Kind))}")
    return {name: kind or "str" for name, _, kind in pairs}


def _schema(keys: str, values: str, repeats: float | None = 0.0) -> Schema:
    names = [item.partition(":")[0] for item in f"{keys} {values}".split()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"columns {', '.join(twice)}: stand twice in one schema; allowed: once")
    return Schema(_columns(keys), _columns(values), repeats)


def _interval(name: str) -> str:
    """The columns of a ratio with its interval."""
    return f"{name}:float {name}_low:float {name}_high:float"


_LOGARITHMS = 1e-9  # fits to logarithms, whose last bit depends on the library
_PRODUCTS = 1e-2  # matrix products, whose order of sums depends on the library; medians over few rows


_TIMES = "median_s:float p20_s:float p80_s:float repeats:int"
_ERRORS = "kappa_g:float error_u_median:float error_u_max:float bound_u:float bound_ratio_max:float reason"
_AUDIT = _schema(
    "kernel dtype property",
    "value:float value_low:float value_high:float limit:float passed:bool version note reason",
    repeats=_LOGARITHMS,
)

SCHEMAS: dict[str, Schema] = {
    "derivation": _schema("derivation shape gamma_kind quantity", "rel_error:float proved:bool reason"),
    "gradient_check": _schema(
        "kernel method step:float shape quantity scope seed:int",
        "rel_error:float max_element_error:float max_norm_error:float max_abs_error:float tolerance:float "
        "evaluations:int reason",
    ),
    "variance": _schema(
        "algorithm dtype accumulator data offset:float hidden:int",
        "computed:float rel_error_median:float rel_error_max:float representation_error:float "
        "distinct_values:int kappa:float bound:float bound_ratio_max:float representable:bool reason",
    ),
    "variance_time": _schema(
        "algorithm dtype accumulator rows:int hidden:int",
        f"{_TIMES} {_interval('two_pass_ratio')} reason",
        repeats=None,
    ),
    "backward_error": _schema(
        "kernel dtype kappa:float upstream hidden:int quantity",
        _ERRORS,
    ),
    "mean_path": _schema(
        "algorithm dtype accumulator data kappa:float upstream spread:float hidden:int quantity",
        "rows:int kappa_g:float error_u_median:float error_u_median_low:float error_u_median_high:float "
        "error_u_max:float identity_u_median:float identity_u_max:float residual_u_max:float "
        "remainder_u_max:float bound_u:float bound_ratio_median:float bound_ratio_max:float bounded_rows:int "
        "violations:int reason",
    ),
    "tightness": _schema(
        "algorithm dtype accumulator quantity",
        "cells:int rows:int bounded_rows:int violations:int ratio_median:float ratio_max:float reason",
    ),
    "slopes": _schema(
        "source kernel dtype accumulator upstream quantity property",
        "kappa:float points:int fitted_low:float fitted_high:float value:float value_low:float "
        "value_high:float expected:float deviation:float reason",
        repeats=_LOGARITHMS,
    ),
    "saved_statistics": _schema(
        "saved dtype forward backward kappa:float",
        "dx_error_u_median:float dx_error_u_max:float dgamma_error_u:float eta_u_max:float eta_bound_u:float "
        "eta_bound_ratio_max:float saved_extra_bytes:int reason",
    ),
    "representation": _schema(
        "data upstream dtype accumulator offset:float hidden:int algorithm quantity",
        "distinct_values:int kappa:float representation_error:float error_max:float representable:bool "
        "reason",
    ),
    "summation": _schema(
        "scheme quantity dtype accumulator upstream rows:int",
        "sums:int rel_error_median:float rel_error_max:float computed_share_median:float "
        "condition_median:float bound:float bound_ratio_max:float exact_share:float order_change:float "
        "growth:float growth_low:float growth_high:float reason",
    ),
    "cancellation": _schema(
        "kernel dtype spread:float hidden:int",
        "kappa_g:float error_u_median:float error_u_max:float absolute_error_u_max:float reason",
    ),
    "division_order": _schema(
        "division upstream std:float share:float hidden:int",
        "rows:int representable_rows:int finite_rows:int reason",
    ),
    "eps": _schema(
        "kernel dtype eps:float row_kind quantity",
        "error_u_max:float finite:bool eps_in_dtype:float reason",
    ),
    "eps_placement": _schema(
        "placement dtype upstream eps:float variance:float",
        "eps_used:float eps_share:float y_change:float dx_change:float dgamma_change:float "
        "dx_first_order:float y_from_inside:float dx_from_inside:float dgamma_from_inside:float "
        "dx_gain:float finite:bool reason",
    ),
    "mutation": _schema(
        "mutant check setting data",
        "caught:bool caught_draws:int draws:int rel_error:float error_over_tolerance:float evaluations:int "
        "executed:bool package_caught_draws:float reason",
    ),
    "mutation_cover": _schema(
        "check setting member:int", "data killed:int added:int mutants:int smallest:bool survivors"
    ),
    "spot_check": _schema(
        "mutant check drawn:int",
        "local:bool caught:bool caught_samples:int samples:int wrong_share:float expected_share:float reason",
    ),
    "tolerance": _schema(
        "rule dtype kappa:float std:float property",
        "value:float value_low:float value_high:float cases:int passed:bool reason",
    ),
    "audit": _AUDIT,
    "audit_peers": _AUDIT,
    "model": _schema(
        "layer:int name dtype upstream",
        "rows:int hidden:int kappa_median:float kappa_max:float kappa_special_max:float offset_q05:float "
        "offset_median:float offset_q95:float offset_max:float outlier_median:float outlier_max:float "
        "kappa_g_median:float kappa_g_max:float reason",
        repeats=_PRODUCTS,
    ),
    "model_error": _schema(
        "algorithm dtype accumulator upstream layer:int offset:float",
        "rows:int kappa_median:float dx_error_u_median:float dx_error_u_max:float dgamma_error_u:float "
        "bound_u:float bound_ratio_max:float reason",
        repeats=_PRODUCTS,
    ),
    "edge_cases": _schema("kernel case dtype", "passed:bool value:float reason"),
    "ceiling_cpu": _schema(
        "operation dtype bytes:int threads:int",
        f"{_TIMES} gb_per_s:float gflop_per_s:float note reason",
        repeats=None,
    ),
    "timing_cpu": _schema(
        "kernel direction dtype gamma_dtype shape threads:int",
        f"rows:int hidden:int bytes:int residency {_TIMES} useful_gb_per_s:float roof_operation "
        f"roof_gb_per_s:float {_interval('roof_fraction')} differs:bool noise:float "
        f"{_interval('pages_fraction')} {_interval('compact_ratio')} {_interval('overcached_ratio')} "
        f"{_interval('numpy_blocked_ratio')} saved_bytes:int saved_extra_bytes:int "
        "saved_arrays:int saved_scalars:int error_u_max:float note reason",
        repeats=None,
    ),
    "peers_cpu": _schema(
        "kernel setting direction dtype gamma_dtype shape threads:int",
        f"rows:int hidden:int bytes:int residency {_TIMES} useful_gb_per_s:float roof_operation "
        f"roof_gb_per_s:float {_interval('roof_fraction')} {_interval('ours_ratio')} differs:bool "
        "noise:float cores_busy:float idle_share:float page_faults:float error_u_max:float "
        "sums_difference_u:float version note reason",
        repeats=None,
    ),
    "kernel_costs": _schema(
        "variant direction dtype hidden:int threads:int working_set",
        "rows:int bytes:int residency group:int ahead:int stream:bool chunks:int block:int recentre:bool "
        f"{_TIMES} {_interval('cost')} noise:float differs:bool error_u_max:float kappa:float "
        "kappa_error_u_max:float bits_equal:bool note reason",
        repeats=None,
    ),
    "stores": _schema(
        "then direction dtype hidden:int threads:int working_set",
        f"rows:int bytes:int residency stream:bool {_TIMES} {_interval('ratio')} noise:float differs:bool "
        "error_u_max:float note reason",
        repeats=None,
    ),
    "page_offset": _schema(
        "place:int direction dtype hidden:int threads:int working_set",
        f"rows:int bytes:int residency stream:bool {_TIMES} {_interval('ratio')} roof_operation "
        f"{_interval('roof_ratio')} noise:float differs:bool error_u_max:float note reason",
        repeats=None,
    ),
    "roof_steps": _schema(
        "step direction dtype hidden:int threads:int working_set",
        f"rows:int bytes:int residency ahead:int {_TIMES} roof_operation roof_gb_per_s:float "
        f"{_interval('roof_fraction')} {_interval('added')} noise:float differs:bool note reason",
        repeats=None,
    ),
    "spells": _schema(
        "kernel direction dtype hidden:int threads:int band:int",
        "update_from:float update_below:float rows:int bytes:int residency repeats:int roof_operation "
        f"{_interval('roof_fraction')} "
        "kernel_slowdown:float roof_slowdown:float update_slowdown:float multiply_add_slowdown:float "
        "kernel_correlation:float roof_correlation:float multiply_add_correlation:float note reason",
        repeats=None,
    ),
    "handover": _schema(
        "direction dtype hidden:int threads:int working_set band:int",
        "latency_from_ns:float latency_below_ns:float rows:int bytes:int residency repeats:int "
        "latency_ns:float handed_ratio:float roof_operation roof_gb_per_s:float "
        f"{_interval('roof_fraction')} {_interval('stores_ratio')} error_u_max:float note reason",
        repeats=None,
    ),
    "compile_time": _schema("kernel dtype direction cache", f"{_TIMES} reason", repeats=None),
    "traffic_cpu": _schema(
        "kernel direction dtype rows:int hidden:int",
        "operations_per_element:float accesses_per_element:float counted_operations_per_element:float "
        "counted_accesses_per_element:float reductions:int stores minimum_bytes:float modelled_bytes:float "
        "measured_bytes:float measured_over_minimum:float method counter reason",
        repeats=None,
    ),
    "traffic_steps": _schema(
        "kernel direction step:int",
        "name reads:float cached:float writes:float kept:float operations:float row_sums:int",
    ),
    "scaling_points": _schema(
        "kernel direction axis rows:int hidden:int dtype",
        f"{_TIMES} overhead_s:float peak_bytes:float extra_bytes:float extra_share:float chunks:float reason",
        repeats=None,
    ),
    "scaling": _schema(
        "kernel direction axis quantity",
        "exponent:float exponent_low:float exponent_high:float points:int reason",
        repeats=None,
    ),
    "checks_gpu": _schema(
        "kernel check dtype gamma_dtype rows:int hidden:int",
        "passed:bool value:float limit:float reason",
        repeats=None,
    ),
    "ceiling_gpu": _schema(
        "operation dtype bytes:int threads:int",
        f"{_TIMES} gb_per_s:float gflop_per_s:float reason",
        repeats=None,
    ),
    "timing_gpu": _schema(
        "kernel direction dtype gamma_dtype rows:int hidden:int threads:int",
        f"bytes:int residency method {_TIMES} useful_gb_per_s:float roof_operation roof_gb_per_s:float "
        f"{_interval('roof_fraction')} {_interval('ours_ratio')} saved_bytes:float "
        "saved_extra_bytes:float error_u_max:float sums_error_u:float version note reason",
        repeats=None,
    ),
    "maps_gpu": _schema(
        "direction dtype gamma_dtype rows:int hidden:int way",
        "threads:int blocks:int cluster:int team:int chunks:int rows_at_once:int ring:bool rest_share:float "
        f"rest_rounds:int residency {_TIMES} useful_gb_per_s:float roof_operation roof_gb_per_s:float "
        f"{_interval('roof_fraction')} {_interval('table_ratio')} error_u_max:float reason",
        repeats=None,
    ),
    "backward_error_gpu": _schema(
        "kernel dtype kappa:float upstream hidden:int quantity",
        _ERRORS,
        repeats=None,
    ),
    "traffic_gpu": _schema(
        "kernel direction dtype rows:int hidden:int",
        "accesses_per_element:float minimum_bytes:float modelled_bytes:float measured_bytes:float "
        "measured_over_minimum:float launches:float method reason",
        repeats=None,
    ),
    "bench": _schema(
        "kernel direction dtype gamma_dtype rows:int hidden:int threads:int against",
        f"{_TIMES} useful_gb_per_s:float against_median_s:float against_gb_per_s:float {_interval('ratio')} "
        "noise:float differs:bool waited_share:float bytes:int residency y_error_u:float dx_error_u:float "
        "dgamma_error_u:float dbeta_error_u:float reason",
        repeats=None,
    ),
    "comparison": _schema(
        "table",
        "archive rows:int unmatched_rows:int cells:int equal:int beyond:int largest_difference:float "
        "allowed_difference:float passed:bool reason",
        repeats=None,
    ),
    "claims": _schema(
        "claim", "origin source says value condition verdict reason scope section strict:bool", repeats=None
    ),
}
