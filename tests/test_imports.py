"""The import graph: data flows one way, and so do imports."""

import graphlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

import layernorm_backward
from layernorm_backward.kernels import homes
from layernorm_backward.records import provenance, schemas
from layernorm_backward.records.provenance import (
    PACKAGE,
    ROOT,
    code_hash,
    content_hash,
    imports,
    modules_used,
)


def modules() -> list[str]:
    """Every module of the package, by its dotted name; a package by the name of its folder."""
    paths = (path.relative_to(ROOT.parent).with_suffix("") for path in ROOT.rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


def below(part: str) -> list[str]:
    """The modules of one part of the package."""
    return [name for name in modules() if name.startswith(f"{PACKAGE}.{part}")]


MAY_NOT_USE = {
    "host": ("kernels", "experiments", "figures", "paper", "records", "storage", "studies", "untrusted"),
    "storage": ("kernels", "experiments", "figures", "paper", "records", "studies", "untrusted"),
    "untrusted": ("audit", "bench", "experiments", "figures", "paper", "records", "studies"),
    "kernels": ("experiments", "figures", "paper", "records", "studies"),
    "timing": ("audit", "bench", "experiments", "figures", "paper"),
    "audit": ("bench", "experiments", "figures", "paper"),
    "bench": ("audit.command", "experiments", "figures", "paper"),
    "experiments": ("bench", "figures", "paper"),
    "figures": ("kernels", "experiments", "paper"),
    "paper": ("kernels", "experiments"),
}


@pytest.mark.parametrize("part", MAY_NOT_USE)
def test_imports_flow_one_way(part):
    assert len(below(part)) > 1
    wrong = {
        (module, used)
        for module in below(part)
        for used in modules_used(module)
        for other in MAY_NOT_USE[part]
        if used.startswith(f"{PACKAGE}.{other}")
    }
    assert wrong == set()


def test_the_package_says_what_each_of_its_folders_is_for():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    told = set(re.findall(r"[a-z_]+", layernorm_backward.__doc__))
    assert folders - told == set()


def test_a_table_hangs_on_the_modules_that_other_processes_run_for_it():
    assert f"{PACKAGE}.first_call" in modules_used(f"{PACKAGE}.experiments.compile_time")
    at_work = {f"{PACKAGE}.peers_at_work.{name}" for name in ("worker", "torch_calls", "jax_calls")}
    assert at_work <= modules_used(f"{PACKAGE}.experiments.peers_cpu")


def test_a_table_hangs_on_modules_that_are_imported_from_their_package():
    named = {f"{PACKAGE}.{name}" for name in ("oracle", "timing.sizing", "kernels.lanes", "roofs.in_cache")}
    assert named <= modules_used(f"{PACKAGE}.experiments.timing_cpu")


def test_a_table_hangs_on_its_own_schema_and_on_no_other(monkeypatch):
    eps, model = (f"{PACKAGE}.experiments.{name}" for name in ("eps", "model"))
    before = code_hash(eps), code_hash(model)
    monkeypatch.setitem(schemas.SCHEMAS, "eps", replace(schemas.SCHEMAS["eps"], repeats=0.5))
    assert code_hash(eps) != before[0] and code_hash(model) == before[1]


def test_of_the_homes_of_kernels_only_those_named_are_hashed(monkeypatch):
    timing = f"{PACKAGE}.experiments.timing_cpu"
    before = code_hash(timing, ["compact"]), code_hash(timing, ["recentred"])
    monkeypatch.setitem(homes.HOMES, "new", "new:KERNEL")
    monkeypatch.setitem(homes.HOMES, "compact", "published:OTHER")
    assert code_hash(timing, ["compact"]) != before[0] and code_hash(timing, ["recentred"]) == before[1]
    assert code_hash(timing, ["compact", "recentred"]) == code_hash(timing, ["recentred", "compact"])


def test_a_hash_of_files_hangs_on_where_each_ends_and_on_none_that_is_missing(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    hashes = set()
    for texts in (("ab", "c"), ("a", "bc")):
        for path, text in zip((one, two), texts, strict=True):
            path.write_text(text, encoding="utf-8")
        hashes.add(content_hash(one, two))
    assert len(hashes) == 2
    assert content_hash(one, tmp_path / "none", two) == content_hash(one, two)


@pytest.mark.parametrize("source", ["row.cuh", "device/primitives.cuh"])
def test_a_table_hangs_on_every_byte_that_is_compiled_for_a_gpu(monkeypatch, source):
    path, read = ROOT / "kernels/cuda" / source, Path.read_bytes
    before = code_hash(f"{PACKAGE}.oracle", ["cuda_fused"])
    monkeypatch.setattr(Path, "read_bytes", lambda it: read(it) + b" " * (it == path))
    assert path.exists() and code_hash(f"{PACKAGE}.oracle", ["cuda_fused"]) != before


def test_a_table_hangs_on_a_kernel_of_another_package(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(provenance, "module_of", lambda name: "kernels_of_others")
    hashes = set()
    for text in ("KERNEL = 1", "KERNEL = 2"):
        (tmp_path / "kernels_of_others.py").write_text(text, encoding="utf-8")
        hashes.add(code_hash(f"{PACKAGE}.oracle", ["theirs"]))
    assert len(hashes) == 2


INNER = ("core.py", "core.abi3.so", "norm.cu", "norm.cuh", "norm.ptx", "norm.c", "Makefile")


@pytest.mark.parametrize("package", ["my_package", f"{PACKAGE}_mine"])
def test_a_table_hangs_on_all_files_of_another_package_and_on_its_version(monkeypatch, tmp_path, package):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(provenance, "module_of", lambda name: f"{package}.norm")
    inner, told = tmp_path / package / "inner", tmp_path / f"{package}-1.dist-info"
    for folder in (inner, told):
        folder.mkdir(parents=True)
    inside = [tmp_path / package / "norm.py", *(inner / name for name in INNER)]
    files = [*inside, told / "METADATA"]
    for file in files:
        file.write_text(f"Name: {package}\nVersion: 1\n", encoding="utf-8")
    hashes = {code_hash(f"{PACKAGE}.oracle", ["theirs"])}
    for number, file in enumerate(files):
        file.write_text(f"Name: {package}\nVersion: 2.{number}\n", encoding="utf-8")
        hashes.add(code_hash(f"{PACKAGE}.oracle", ["theirs"]))
    assert len(hashes) == 1 + len(files)


def test_a_table_has_a_hash_where_the_package_of_a_kernel_is_no_more(monkeypatch):
    monkeypatch.setattr(provenance, "module_of", lambda name: "no_such_package.norm")
    assert len(code_hash(f"{PACKAGE}.oracle", ["theirs"])) == 16


def test_a_table_does_not_hang_on_what_python_compiles_of_another_package(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(provenance, "module_of", lambda name: "compiled_of_others.norm")
    cache = tmp_path / "compiled_of_others" / "__pycache__"
    cache.mkdir(parents=True)
    (cache.parent / "norm.py").write_text("KERNEL = 1", encoding="utf-8")
    before = code_hash(f"{PACKAGE}.oracle", ["theirs"])
    (cache / "norm.cpython-311.pyc").write_bytes(b"1")
    assert code_hash(f"{PACKAGE}.oracle", ["theirs"]) == before


def test_no_module_imports_itself_on_a_detour():
    graph = {name: imports(name) - {name, PACKAGE} for name in modules()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(modules()) - {PACKAGE} <= set(order)


@pytest.mark.parametrize("stem", ["studies.study", "studies.lock", "studies.summary"])
def test_what_the_workflow_imports_at_each_start_runs_no_measurement(stem):
    used = modules_used(f"{PACKAGE}.{stem}")
    named = {f"{PACKAGE}.kernels.homes"}
    assert not (used - named) & set(below("experiments.") + below("figures.") + below("kernels."))
