"""Layer norms of other packages, each at work in a process of its own, timed in turn with our kernels.

A process of its own has its own allocator settings and threads, and none of ours. x and dy lie in memory that
all processes share (`memory`); a pipe carries what to run and what it took (`protocol`, `worker`, `client`).
Each process times its own calls; while one works, the others wait for their pipe.
"""
