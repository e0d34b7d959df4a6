"""The CUDA C++ kernels: their sources, the maps of threads to rows, and the machines that run them.

*.cuh                  the kernels; they include "primitives.cuh", which has two versions:
device/, host/         the GPU operations that C++ lacks, on a GPU, and emulated on a CPU
maps.py                the table of maps: how the threads of a block, or of a cluster, share a row
plan.py                the map, the grid and the ring of a launch, by device, N and D
machine.py             the interface of a device
device.py              an NVIDIA GPU, by CuPy; the sources compiled by NVRTC
emulation.py           the host emulation; the sources compiled by g++
"""
