"""The columns of every table: one entry a stem, keys first. Programs read these; the paper cites them.

A kind is str, int, float or bool. A float may be empty (not measured), a str may be empty; an int or a
bool may be empty only in a row whose `reason` says why nothing was measured.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["str", "int", "float", "bool"]


@dataclass(frozen=True)
class Schema:
    """Keys identify a row and are never empty; values are what was measured."""

    keys: dict[str, Kind]
    values: dict[str, Kind]

    @property
    def columns(self) -> dict[str, Kind]:
        return self.keys | self.values


def _columns(text: str) -> dict[str, Kind]:
    """Parse "name other:int": a column without a kind holds str."""
    pairs = (item.partition(":") for item in text.split())
    return {name: kind or "str" for name, _, kind in pairs}


def _schema(keys: str, values: str) -> Schema:
    return Schema(_columns(keys), _columns(values))


_TIMES = "median_s:float p20_s:float p80_s:float repeats:int"

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
        "distinct_values:int kappa:float bound:float representable:bool reason",
    ),
    "variance_time": _schema(
        "algorithm dtype accumulator rows:int hidden:int",
        f"{_TIMES} two_pass_ratio:float two_pass_ratio_low:float two_pass_ratio_high:float reason",
    ),
    "backward_error": _schema(
        "kernel dtype kappa:float upstream hidden:int quantity",
        "kappa_g:float error_u_median:float error_u_max:float bound_u:float reason",
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
    "edge_cases": _schema("kernel case dtype", "passed:bool value:float reason"),
    "ceiling_cpu": _schema(
        "operation dtype bytes:int threads:int", f"{_TIMES} gb_per_s:float gflop_per_s:float reason"
    ),
    "timing_cpu": _schema(
        "kernel direction dtype gamma_dtype shape threads:int",
        f"rows:int hidden:int {_TIMES} useful_gb_per_s:float roof_operation roof_fraction:float "
        "roof_fraction_low:float roof_fraction_high:float compact_ratio:float compact_ratio_low:float "
        "compact_ratio_high:float residency saved_bytes:int saved_extra_bytes:int saved_arrays:int "
        "saved_scalars:int error_u_max:float reason",
    ),
    "traffic_cpu": _schema(
        "kernel direction dtype rows:int hidden:int",
        "operations_per_element:float accesses_per_element:float counted_operations_per_element:float "
        "counted_accesses_per_element:float reductions:int modelled_bytes:float measured_bytes:float "
        "minimum_bytes:float method reason",
    ),
    "traffic_steps": _schema(
        "kernel direction step:int",
        "name reads:float cached:float writes:float operations:float row_sums:int",
    ),
    "scaling_points": _schema(
        "kernel direction axis rows:int hidden:int dtype", f"{_TIMES} peak_bytes:float reason"
    ),
    "scaling": _schema(
        "kernel direction axis quantity",
        "exponent:float exponent_low:float exponent_high:float points:int reason",
    ),
    "claims": _schema("claim", "origin source says value condition verdict reason scope section strict:bool"),
}
