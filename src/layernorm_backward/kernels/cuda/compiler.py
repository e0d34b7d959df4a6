"""Compiles the CUDA sources by NVRTC, through CuPy; no device is needed.

It does not use `cupy.RawModule`, which adds -ftz=true, so that subnormal float32 numbers become 0, and whose
cache ignores changes of the headers.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from layernorm_backward.kernels.cuda.kept import kept
from layernorm_backward.kernels.cuda.machine import SOURCES, Program

OPTIONS = ("--std=c++17",)


class Compiled(NamedTuple):
    """Machine code for one architecture, and the name in it for each program's text."""

    cubin: bytes
    names: dict[str, str]


def compiled(programs: Iterable[Program], arch: str, sources: Path = SOURCES) -> Compiled:
    """Machine code for an architecture such as sm_90, from the cache on disk where it is there.

    Raises RuntimeError with the compiler's messages.
    """
    programs = tuple(dict.fromkeys(programs))
    headers = [*sources.glob("*.cuh"), *(sources / "device").glob("*.cuh")]
    parts = (programs, arch, OPTIONS, version())

    def make(path: Path) -> None:
        cubin, names = _compile(programs, arch, headers)
        path.write_bytes(json.dumps(names).encode() + b"\n" + cubin)

    names, _, cubin = kept(".cubin", parts, headers, make).read_bytes().partition(b"\n")
    return Compiled(cubin, json.loads(names))


def version() -> tuple[int, int]:
    """NVRTC's."""
    from cupy.cuda import nvrtc

    return nvrtc.getVersion()


def _compile(programs: Iterable[Program], arch: str, headers: list[Path]) -> tuple[bytes, dict[str, str]]:
    from cupy.cuda import nvrtc

    text = "".join(f'#include "{source}.cuh"\n' for source in dict.fromkeys(one.source for one in programs))
    contents, names = [path.read_bytes() for path in headers], [path.name.encode() for path in headers]
    handle = nvrtc.createProgram(text, "programs.cu", contents, names)
    try:
        for program in programs:
            nvrtc.addNameExpression(handle, program.text)
        nvrtc.compileProgram(handle, (*OPTIONS, f"-arch={arch}"))
        lowered = {program.text: _text(nvrtc.getLoweredName(handle, program.text)) for program in programs}
        return nvrtc.getCUBIN(handle) + b"\0", lowered  # CuPy leaves the last byte out
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}\n{nvrtc.getProgramLog(handle)}") from None
    finally:
        nvrtc.destroyProgram(handle)


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
