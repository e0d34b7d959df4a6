"""A peer for the tests, in NumPy; its option makes it correct, faulty, dying, hanging or refusing."""

import os
import time

import numpy as np

from layernorm_backward.kernels import KERNELS
from layernorm_backward.peers_at_work.worker import Pass


def prepare(work, x, dy, option):
    if option == "refuses":
        raise ValueError("no such pass here")
    if option == "dies":
        os._exit(3)
    if option == "hangs":
        time.sleep(3600)
    kernel = KERNELS["compact"]
    runs = []

    def call():
        runs.append(1)
        if option == "hangs":
            time.sleep(3600)
        if option == "dies_later" and len(runs) > 5:
            os._exit(4)
        y, saved = kernel.forward(x, work.gamma, work.beta, work.eps)
        dx, dgamma, dbeta = kernel.backward(dy, saved)
        dx = dx * 1.01 if option == "wrong" else dx
        if option == "wrong_last_row":
            dx[-1] *= 1.01
        dgamma = dgamma * 1.01 if option == "wrong_sums" else dgamma
        dgamma = dgamma * np.nan if option == "no_sums" else dgamma
        found = {"y": y, "dx": dx, "dgamma": dgamma, "dbeta": dbeta}
        wanted = {"forward": ("y",), "backward": ("dx", "dgamma", "dbeta"), "both": tuple(found)}
        return tuple(found[name] for name in wanted[work.direction])

    return Pass(call, tuple, f"numpy {np.__version__}")
