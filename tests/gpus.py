"""The hardware parameters, for plans, of two GPUs: one with clusters and one without."""

from layernorm_backward.kernels.cuda.plan import Hardware

H200 = Hardware(multiprocessors=132, shared_bytes=228 << 10, hopper=True)
A100 = Hardware(multiprocessors=108, shared_bytes=164 << 10, hopper=False)
