"""Conversion of arrays to PyTorch tensors that share their memory, and of a peer's results back to arrays.

On a GPU nothing is copied: results are CuPy arrays over the peer's memory, through DLPack, bfloat16 included.
Otherwise bfloat16 is passed as 16-bit integers, as NumPy and `__cuda_array_interface__` do not have it.
"""

from typing import Any

import numpy as np

from layernorm_backward.dtypes import dtype_of

_BFLOAT16 = dtype_of("bfloat16")


def on_host(array: Any) -> bool:
    """Whether it is a NumPy array, rather than one on a device."""
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
    """The address of the first byte of a NumPy or CuPy array."""
    return array.ctypes.data if on_host(array) else array.data.ptr


def from_tensor(tensor: Any) -> Any:
    """A CuPy array that shares the memory of a tensor on a GPU; a NumPy copy of one on the host."""
    there = tensor.detach()
    if there.is_cuda:
        return on_device(there)
    import torch

    if there.dtype == torch.bfloat16:
        return there.view(torch.int16).numpy().copy().view(_BFLOAT16)
    return there.numpy().copy()


def on_device(array: Any) -> Any:
    """A CuPy array that shares the memory of any package's array on a GPU, and keeps that memory alive."""
    import cupy

    return cupy.from_dlpack(array)
