"""The machine code of the CUDA kernels, as NVIDIA's tools list it; no device is needed.

`make cuda` installs the wheels of the compiler and of the tools; see `missing`.
"""

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from layernorm_backward.kernels.cuda.compiler import compiled
from layernorm_backward.kernels.cuda.machine import SOURCES, Program
from layernorm_backward.kernels.cuda.plan import SYSTEM

COMPILER = ("cupy-cuda13x", "nvidia-cuda-nvrtc")  # wheels
TOOLS = ("cuobjdump", "nvdisasm")  # the wheel of each is nvidia-cuda-<name>
UNBOUNDED = 1024  # threads of a block without __launch_bounds__
# Opcodes: atomic operations on memory; arithmetic in double.
ATOMICS = ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "UBLKRED")
DOUBLES = ("DADD", "DMUL", "DFMA", "DSETP")
_RESOURCES = re.compile(r"Function (\S+):\n\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")
_SECTION = re.compile(r"^\s+\.section\s+\.(text|nv\.info)\.([^,\s]+),", re.MULTILINE)
_OPCODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", re.MULTILINE)
_FACT = r"EIATTR_{}\b.*?\.word\s+(0x[0-9a-f]+)"


class InspectionError(RuntimeError):
    """A tool that is missing or fails."""


class MachineCode(NamedTuple):
    """One compiled kernel: its resources, its largest number of threads, and its opcodes."""

    registers: int  # of a thread
    stack_bytes: int  # of a thread
    shared_bytes: int  # static, of a block
    threads: int  # of a block
    cluster: int  # blocks
    order: tuple[str, ...]  # of the opcodes as they are listed, with their modifiers: LDG.E.EF.128
    opcodes: Counter[str]  # how often each occurs

    def count(self, *starts: str) -> int:
        """Instructions of these opcodes, whatever modifiers follow: LDG counts LDG.E.EF.128, too."""
        beginnings = tuple(f"{start}." for start in starts)
        return sum(number for opcode, number in self.opcodes.items() if f"{opcode}.".startswith(beginnings))


def missing() -> str:
    """Empty where machine code can be inspected here, else the reason why not."""
    absent = [wheel for wheel in COMPILER if _files(wheel) is None]
    absent += [f"nvidia-cuda-{tool}" for tool in TOOLS if not _tool(tool)]
    return f"not installed: {', '.join(absent)} (make cuda)" if absent else ""


def inspect(programs: Sequence[Program], arch: str, sources: Path = SOURCES) -> dict[Program, MachineCode]:
    """The machine code of programs for an architecture: sm_90. RuntimeError where they do not compile."""
    reason = missing()
    if reason:
        raise InspectionError(reason)
    cubin, names = compiled(programs, arch, sources)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "programs.cubin")
        path.write_bytes(cubin)
        resources = _RESOURCES.findall(_run("cuobjdump", "-res-usage", path))
        _, *parts = _SECTION.split(_run("nvdisasm", path))
    numbers = {name: tuple(map(int, found)) for name, *found in resources}
    sections = {(parts[i], parts[i + 1]): parts[i + 2] for i in range(0, len(parts), 3)}
    reserved = SYSTEM if int(arch.removeprefix("sm_")) >= 90 else 0  # from there on cuobjdump counts it
    codes = {}
    for program in programs:
        name = names[program.text]
        registers, stack, shared = numbers[name]
        facts = sections["nv.info", name]
        order = tuple(_OPCODE.findall(sections["text", name]))
        codes[program] = MachineCode(
            registers=registers,
            stack_bytes=stack,
            shared_bytes=max(0, shared - reserved),
            threads=_first_word("MAX_THREADS", facts, UNBOUNDED),
            cluster=_first_word("CTA_PER_CLUSTER", facts, 1),
            order=order,
            opcodes=Counter(order),
        )
    return codes


def _first_word(fact: str, facts: str, default: int) -> int:
    """The first number of one of the attributes of a kernel in a cubin."""
    found = re.search(_FACT.format(fact), facts, re.DOTALL)
    return int(found[1], base=16) if found else default


def _run(tool: str, *arguments: str | Path) -> str:
    done = subprocess.run([str(_tool(tool)), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InspectionError(f"{tool}: {done.stderr}")
    return done.stdout


def _tool(name: str) -> str | None:
    """The path of a tool: from its wheel, else from PATH."""
    files = _files(f"nvidia-cuda-{name}") or ()
    found = next((str(file.locate()) for file in files if file.name == name), None)
    return found or shutil.which(name)


def _files(wheel: str) -> list[metadata.PackagePath] | None:
    """The files of an installed distribution."""
    try:
        return metadata.files(wheel) or []
    except metadata.PackageNotFoundError:
        return None
