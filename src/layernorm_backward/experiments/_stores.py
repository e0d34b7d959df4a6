"""Either kind of store: plans of a pass with each, and the pass with a reading of its result behind it."""

from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.stopwatch import Call

STORES = {"ordinary": False, "non_temporal": True}  # -> Plan.stream


def plans(plan: Plan) -> dict[str, Plan]:
    """The plan with each kind of store."""
    return {name: plan._replace(stream=stream) for name, stream in STORES.items()}


def followed(call: Call, read: Call) -> Call:
    """Both calls, one after the other."""

    def both() -> None:
        call()
        read()

    return both
