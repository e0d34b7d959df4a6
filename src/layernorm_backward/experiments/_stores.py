"""Plans with ordinary and with non-temporal stores, and a pass followed by a read of its result."""

from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.stopwatch import Call

STORES = {"ordinary": False, "non_temporal": True}  # -> Plan.stream


def plans(plan: Plan) -> dict[str, Plan]:
    """The plan with each kind of store."""
    return {name: plan._replace(stream=stream) for name, stream in STORES.items()}


def followed(call: Call, read: Call) -> Call:
    """A call that runs both, one after the other."""

    def both() -> None:
        call()
        read()

    return both
