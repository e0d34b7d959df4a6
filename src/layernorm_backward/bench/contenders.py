"""The kernel and its baselines, each checked before it is timed, or the reason why it is not timed."""

import math
from collections.abc import Callable
from typing import NamedTuple

from layernorm_backward.bench.checked import WrongError
from layernorm_backward.bench.data import Data
from layernorm_backward.bench.limits import limit_u
from layernorm_backward.bench.prepare import Ready, needs, ready
from layernorm_backward.bench.schedule import available_bytes, fitting_rows
from layernorm_backward.bench.setting import Deadline, Setting
from layernorm_backward.bench.time_limit import TooSlowError
from layernorm_backward.bench_options import BASELINES
from layernorm_backward.kernels import KERNELS, Kernel, missing
from layernorm_backward.timing.pace import untimed
from layernorm_backward.untrusted.raised import told

OWN_RUNS = 4, 5  # that the seconds left must hold before all rows are run: for one direction, for all
BASELINE_SHARE = 1 / 2  # for a baseline's, of the seconds that KEPT_RUNS and the last check leave
BRIEF_S = 0.5  # for the runs after the first, whatever is left
KEPT_RUNS = 3  # in each direction
LARGER = 2.0  # times what the runs take, for the seconds that are advised


class Contenders(NamedTuple):
    """Calls by name, the kernel first, and the reason for each baseline that there is none."""

    ready: dict[str, Ready]
    left_out: dict[str, str]


def prepare_all(
    kernel: Kernel, setting: Setting, data: Data, deadline: Deadline, tick: Callable[[str], None]
) -> Contenders:
    """ValueError where the kernel itself cannot be timed, WrongError where it is wrong."""
    tick(kernel.name)
    own = _own(kernel, setting, data, deadline)
    found = Contenders({kernel.name: own}, {})
    looking_s = own.check_s - own.seconds["both"]
    kept_s = own.check_s + KEPT_RUNS * sum(own.seconds[direction] for direction in setting.directions)
    for name in baselines(kernel.name):
        tick(name)
        try:
            baseline = KERNELS[name]
            if reason := missing(baseline) or baseline.unsupported.get(setting.dtype, ""):
                raise ValueError(reason)
            needed = needs(baseline, data.arrays)
            deadline.note(f"first calls of {name}")
            if needed > available_bytes():
                raise ValueError(f"it takes {needed / 1e9:.3g} GB more, too much here")
            limit_s = (deadline.left() - kept_s) * BASELINE_SHARE - looking_s
            found.ready[name] = ready(baseline, data, limit_s)
            require_correct(name, found.ready[name], setting)
            deadline.note(f"running {name}")
        except Exception as error:
            found.ready.pop(name, None)
            why = deadline.told() if isinstance(error, TooSlowError) else ""
            found.left_out[name] = (str(error) if isinstance(error, ValueError) else told(error)) + why
    return found


def baselines(name: str) -> list[str]:
    """Those that are registered, but for the kernel itself."""
    return [baseline for baseline in BASELINES if baseline in KERNELS and baseline != name]


def require_correct(name: str, found: Ready, setting: Setting) -> None:
    """WrongError where an error is over the limit."""
    for result, error in found.errors_u.items():
        limit = limit_u(result, setting, found.rounded)
        if not error <= limit:
            raise WrongError(f"{name} is wrong: {result} has an error of {error:.3g} u, over {limit:.3g} u")


def own_runs(setting: Setting) -> int:
    """Runs of the kernel that the seconds left must hold."""
    return OWN_RUNS[len(setting.directions) > 1]


def too_slow(kernel: Kernel, error: TooSlowError, setting: Setting, deadline: Deadline) -> ValueError:
    """What is said of a kernel whose runs take longer than there is time, with what would do."""
    rows = f"about --rows {error.rows}, or " if error.rows else ""
    seconds = math.ceil(deadline.spent_s() + LARGER * own_runs(setting) * error.seconds)
    return ValueError(f"{kernel.name}: {error}{deadline.told()}; allowed: {rows}--seconds {seconds}")


def _own(kernel: Kernel, setting: Setting, data: Data, deadline: Deadline) -> Ready:
    runs = own_runs(setting)
    try:
        needed = needs(kernel, data.arrays, deadline.left() / runs)
        if needed > available_bytes():
            fits = fitting_rows(setting, needed)
            more = f"{needed / 1e9:.3g} GB beside the arrays"
            raise ValueError(f"{kernel.name} takes {more}; allowed here: --rows up to {fits}")
        deadline.note(f"first calls of {kernel.name}")
        found = ready(kernel, data, deadline.left() / runs)
        _require_time(found, setting, deadline)
    except TooSlowError as error:
        raise too_slow(kernel, error, setting, deadline) from None
    require_correct(kernel.name, found, setting)
    found = _run_again(kernel.name, found, setting)
    deadline.note(f"running {kernel.name}")
    return found


def _require_time(found: Ready, setting: Setting, deadline: Deadline) -> None:
    """TooSlowError where the runs to come would take more than the time that is left."""
    timed = [found.seconds[direction] for direction in setting.directions]
    needed_s = 2 * found.check_s + sum((1 + untimed(its)) * its for its in timed)
    if needed_s > max(deadline.left(), BRIEF_S):
        runs = own_runs(setting)
        raise TooSlowError(max(found.check_s, needed_s / runs), deadline.left() / runs, 0)


def _run_again(name: str, found: Ready, setting: Setting) -> Ready:
    """With the larger of the errors of two backward passes on the same saved; WrongError as for the first."""
    again_u = found.gradients_u()
    again = found._replace(errors_u=again_u)
    require_correct(f"a second backward of {name} on the same saved", again, setting)
    return found._replace(errors_u={key: max(u, again_u.get(key, u)) for key, u in found.errors_u.items()})


def require_still_correct(name: str, found: Ready, setting: Setting) -> None:
    """WrongError where one more run, after those that were timed, is wrong."""
    again = found._replace(errors_u=found.errors_again_u())
    require_correct(f"a run of {name} after the timed ones", again, setting)
