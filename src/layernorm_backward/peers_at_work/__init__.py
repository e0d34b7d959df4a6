"""Layer norms of other packages on the CPU, each in a process of its own, timed interleaved with our kernels.

A separate process has its own allocator settings and threads. x and dy are in memory that all processes share
(`memory`); requests and measured times go over a pipe (`protocol`, `worker`, `client`). Each process times
its own calls; while one runs, the others wait for requests.
"""
