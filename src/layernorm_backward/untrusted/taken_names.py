"""Names reserved in tables and legends, which no kernel of another package may have."""

_STREAMS = ("copy", "triad")  # with which the names of all streams begin
TAKEN = (
    *("torch", "torch_mixed", "jax", "jax_stable", "flax", "flax_stable"),  # peers on a CPU
    *("torch_eager", "torch_compile", "triton_tutorial", "liger", "quack"),  # on a GPU, and jax as above
    "cuda_uncentred",  # a variant
    *("separate", "fused"),  # schemes of the traffic model
)


def is_taken(name: str) -> bool:
    """Whether a stream, a peer, a variant or a scheme has this name."""
    return name in TAKEN or name.partition("_")[0] in _STREAMS
