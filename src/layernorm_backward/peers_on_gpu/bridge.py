"""Arrays as PyTorch's tensors over the same memory, and whatever a peer returns as NumPy arrays on the host.

bfloat16 crosses as the integers of its bits, since neither DLPack nor `__cuda_array_interface__` has it from
NumPy's side.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import dtype_of

_BFLOAT16 = dtype_of("bfloat16")


def on_host(array: Any) -> bool:
    """Whether it is NumPy's, rather than on a device."""
    return isinstance(array, np.ndarray)


def tensor(array: Any) -> Any:
    """A tensor that shares the memory of a NumPy or CuPy array; the array must outlive its use."""
    import torch

    plain = array.view(np.int16) if array.dtype == _BFLOAT16 else array
    shared = torch.from_numpy(plain) if on_host(array) else torch.as_tensor(plain, device="cuda")
    if shared.data_ptr() != address(array):
        raise ValueError("PyTorch has made a copy of an array that it should share")
    return shared.view(torch.bfloat16) if array.dtype == _BFLOAT16 else shared


def address(array: Any) -> int:
    """Where a NumPy or CuPy array begins in memory."""
    return array.ctypes.data if on_host(array) else array.data.ptr


def from_tensor(tensor: Any) -> NDArray:
    """A copy of a tensor, on the host."""
    import torch

    there = tensor.detach()
    if there.dtype == torch.bfloat16:
        return there.view(torch.int16).cpu().numpy().copy().view(_BFLOAT16)
    return there.cpu().numpy().copy()


def to_host(array: Any) -> NDArray:
    """The array itself if it is NumPy's, else a copy on the host."""
    if on_host(array):
        return array
    if array.dtype == _BFLOAT16:
        return array.view(np.int16).get().view(_BFLOAT16)
    return array.get()
