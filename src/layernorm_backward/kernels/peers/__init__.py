"""Layer norms of other packages, measured beside our kernels where those packages are installed.

Each is a Kernel that takes and returns NumPy arrays and uses the eps that it is given; `requires` names the
packages, which are imported when it runs. `make peers` installs them.
"""

from layernorm_backward.kernels import Kernel
from layernorm_backward.kernels.peers import flax_linen, jax_standardize, torch_native

PEERS: dict[str, Kernel] = {
    peer.name: peer
    for peer in (
        torch_native.KERNEL,
        torch_native.MIXED,
        jax_standardize.FAST,
        jax_standardize.STABLE,
        flax_linen.FAST,
        flax_linen.TWO_PASS,
    )
}
