"""The kernel and what it is compared with, each correct before it is timed, or the reason why it is not."""

from collections.abc import Callable
from typing import NamedTuple

from layernorm_backward.audit.setting import told
from layernorm_backward.bench.data import Data
from layernorm_backward.bench.prepare import Ready, TooSlowError, needs, ready
from layernorm_backward.bench.schedule import fitting_rows, room
from layernorm_backward.bench.setting import BASELINES, Deadline, Setting
from layernorm_backward.kernels import KERNELS, Kernel, available

LIMIT_U = {2: 8.0, 4: 100.0, 8: 100.0}  # by bytes of a number
SUM_LIMIT_U = 0.1  # a row more: what a running sum over the rows shows is below a fifth of it
OWN_SHARE = 1 / 3  # of the seconds left, for the kernel's first run over all rows
BASELINE_SHARE = 1 / 2  # for a baseline's, of the seconds that KEPT_RUNS of the kernel leave
KEPT_RUNS = 3  # in each direction


class WrongError(ValueError):
    """Results that are too far off to be timed."""


class Contenders(NamedTuple):
    """Calls by name, the kernel first, and the reason for each baseline that there is none."""

    ready: dict[str, Ready]
    left_out: dict[str, str]


def line_up(
    kernel: Kernel, setting: Setting, data: Data, deadline: Deadline, tick: Callable[[str], None]
) -> Contenders:
    """ValueError where the kernel itself cannot be timed, WrongError where it is wrong."""
    tick(kernel.name)
    own = _own(kernel, setting, data, deadline)
    found, taken = Contenders({kernel.name: own}, {}), 0.0
    kept_s = KEPT_RUNS * sum(own.seconds[direction] for direction in setting.directions)
    for name in baselines(kernel.name):
        tick(name)
        baseline = KERNELS[name]
        reason = available(baseline) or baseline.unsupported.get(setting.dtype, "")
        try:
            if reason:
                raise ValueError(reason)
            needed = needs(baseline, data.arrays)
            if taken + needed.most > room(setting):
                raise ValueError(f"it takes {needed.most / 1e9:.3g} GB more, too much here")
            found.ready[name] = ready(baseline, data, (deadline.left() - kept_s) * BASELINE_SHARE)
            require_right(name, found.ready[name], setting)
            taken += needed.kept
        except Exception as error:
            found.ready.pop(name, None)
            found.left_out[name] = str(error) if isinstance(error, ValueError) else told(error)
    return found


def baselines(name: str) -> list[str]:
    """Those that are registered, but for the kernel itself."""
    return [baseline for baseline in BASELINES if baseline in KERNELS and baseline != name]


def require_right(name: str, found: Ready, setting: Setting) -> None:
    """WrongError where an error is over the limit."""
    for result, error in found.errors_u.items():
        limit = LIMIT_U[setting.itemsize]
        if result in ("dgamma", "dbeta") and setting.itemsize > 2:
            limit += SUM_LIMIT_U * setting.rows
        if not error <= limit:
            raise WrongError(f"{name} is wrong: {result} has an error of {error:.3g} u, over {limit:.3g} u")


def _own(kernel: Kernel, setting: Setting, data: Data, deadline: Deadline) -> Ready:
    try:
        needed = needs(kernel, data.arrays)
        if needed.most > room(setting):
            fits = fitting_rows(setting, needed)
            more = f"{needed.most / 1e9:.3g} GB beside the arrays"
            raise ValueError(f"{kernel.name} takes {more}; allowed here: --rows up to {fits}")
        found = ready(kernel, data, deadline.left() * OWN_SHARE)
    except TooSlowError as error:
        allowed_s = deadline.left() * OWN_SHARE
        fewer = max(1, int(0.8 * setting.rows * allowed_s / error.seconds))
        raise ValueError(
            f"{kernel.name}: {error}, over the {allowed_s:.2g} s that {setting.seconds:g} s leave for it; "
            f"allowed: about --rows {fewer}, or more --seconds"
        ) from None
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{kernel.name} {told(error)}") from None
    require_right(kernel.name, found, setting)
    return found
