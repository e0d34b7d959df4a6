"""The CUDA C++ kernels: their sources, which threads work on which rows, and what runs them.

*.cuh                  the kernels; they include "primitives.cuh", of which there are two:
device/, host/         what a GPU does and C++ has no words for, on a GPU, and emulated on a CPU
maps.py                the table of maps: how the threads of a block, or of a cluster, share a row
plan.py                the map, the grid and the ring of a launch, by device, N and D
machine.py             what a launcher needs of a device
device.py              an NVIDIA GPU, by CuPy; the sources compiled by NVRTC
emulation.py           the host emulation; the sources compiled by g++
"""
