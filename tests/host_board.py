"""A board without a device: NumPy arrays, the host clock, the CUDA sources on the host emulation."""

from time import perf_counter

import numpy as np

from layernorm_backward.kernels.cuda.emulation import Emulation


class HostBoard:
    """As `layernorm_backward.gpu.board.Gpu`; a graph is the call itself."""

    def __init__(self, l2_bytes=1 << 16):
        self.machine = Emulation()
        self.xp = np
        self.l2_bytes = l2_bytes
        self.flushed = 0
        self.fault = ""

    def describe(self):
        return {"gpu": "none: emulated", "cpu": "emulated"}

    def state(self):
        return {"sm_mhz": "1980"}

    def compile(self, programs):
        return 0

    def array(self, values):
        return np.array(values)

    def numpy(self, array):
        return np.array(array)

    def release(self):
        pass

    def lost(self):
        return self.fault

    def synchronize(self):
        pass

    def mark(self):
        return perf_counter()

    def seconds(self, begin, end):
        return end - begin

    def flush(self):
        self.flushed += 1

    def captured(self, call):
        return call

    def copy(self, to, source):
        to[...] = source
