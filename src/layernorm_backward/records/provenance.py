"""The origin of a table: a hash of the code that computed it, and of files from which it was made.

The hash of code covers the contents of all modules that an entry module imports, directly or not, or runs by
name in another process. Of the kernels it covers only those named, of the schemas only the table's own, and
of another package's kernel the whole package. It depends on no file time and no commit, so edits elsewhere do
not change it. Modules are read, not imported, since the workflow computes these hashes at every start.
"""

import ast
import hashlib
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from layernorm_backward import constants
from layernorm_backward.host import installed
from layernorm_backward.kernels import homes, module_of
from layernorm_backward.records import package_files, schemas

PACKAGE = "layernorm_backward"
ROOT = Path(__file__).parents[1]


def code_hash(module: str, kernels: Iterable[str] = ()) -> str:
    """Hex digest over the source of `module`, all that it uses, and the kernels of these names."""
    named = {name: module_of(name) for name in kernels}
    digest = hashlib.sha256()
    for name in sorted(modules_used(module, *named.values())):
        digest.update(name.encode() + b"\0" + _content(name, module, named))
        for source in _sources(name):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    for home in sorted({home for home in named.values() if not _ours(home)}):
        package = home.partition(".")[0]
        digest.update(home.encode() + b"\0" + installed.of_import(package).encode())
        for path in package_files.files(package):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def content_hash(*paths: str | Path) -> str:
    """Hex digest over the contents of those of the files that exist, in this order."""
    digest = hashlib.sha256()
    for path in filter(Path.is_file, map(Path, paths)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _content(name: str, module: str, kernels: Collection[str]) -> bytes:
    """The source of a module; of the schemas only that of the table that `module` makes, of the homes of
    kernels only those of `kernels`."""
    stem = module.rpartition(".")[2]
    if name == schemas.__name__ and stem in schemas.SCHEMAS:
        return repr(schemas.SCHEMAS[stem]).encode()
    if name == homes.__name__:
        return repr([homes.HOMES.get(kernel) for kernel in sorted(kernels)]).encode()
    return _path(name).read_bytes()


def modules_used(*entries: str) -> set[str]:
    """The package's modules that `entries` import, directly or not, themselves included."""
    found: set[str] = set()
    todo = list(entries)
    while todo:
        name = todo.pop()
        if name not in found and _ours(name):
            found.add(name)
            todo.extend(imports(name))
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """The package's modules that `module` imports, or names in a string, to run them in another process."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return frozenset(name for name in names if _ours(name) and _exists(name))


def constant(module: str, name: str) -> tuple[str, ...]:
    """A module's constant tuple of strings (`NEEDS`, `TABLES`), read without importing the module."""
    value = constants.constant(_path(module), name)
    if value is not None and not isinstance(value, tuple):
        raise ValueError(f"{module}: {name} = {value!r}; allowed: a tuple of strings")
    return value or ()


def title(module: str) -> str:
    """The first line of a module's docstring, read without importing the module; ValueError without one."""
    path = _path(module)
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path}: no docstring; needed: one whose first line says what it measures or draws")
    return docstring.splitlines()[0]


def _sources(module: str) -> list[Path]:
    """The CUDA sources of a package of kernels."""
    if _file(module).exists():
        return []
    folder = _init(module).parent
    return sorted([*folder.glob("*.cuh"), *folder.glob("device/*.cuh")])


def _exists(module: str) -> bool:
    return _file(module).exists() or _init(module).exists()


def _path(module: str) -> Path:
    return _file(module) if _file(module).exists() else _init(module)


def _file(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py") if module != PACKAGE else _init(module)


def _init(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")[1:], "__init__.py")
