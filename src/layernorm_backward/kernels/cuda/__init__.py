"""The CUDA C++ kernels: their sources, which threads work on which rows, and what runs them.

*.cuh                  the kernels; they include "primitives.cuh", of which there are two:
device/, host/         what a GPU does and C++ has no words for, on a GPU, and emulated on a CPU
plan.py                the table of maps: which threads of which blocks work on a row
machine.py             what a launcher needs of a device
device.py              an NVIDIA GPU, by CuPy; the sources compiled by NVRTC
emulation.py           the host emulation; the sources compiled by g++
"""
