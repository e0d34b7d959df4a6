"""The provenance record: what it holds, and how caches are counted."""

import math
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

from layernorm_backward import machine
from layernorm_backward.host import macos
from layernorm_backward.records import record
from layernorm_backward.records.provenance import code_hash


def test_the_record_names_processor_memory_versions_and_load():
    record = machine.describe()
    assert record["cpu"] and record["os"]
    assert record["cores_usable"] >= 1
    assert record["memory_bytes"] > 1 << 28
    assert record["python"] == platform.python_version()
    assert record["numpy"] == version("numpy")
    assert record["load_1min"] >= 0


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(machine, "PACKAGES", ("no-such-package-here",))
    assert machine.describe()["no-such-package-here"] == ""


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Puts lines in the place of what the system tells of its processor."""

    def tell(lines):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{lines}\n")
        monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "cpuinfo")

    return tell


@pytest.mark.skipif(sys.platform == "darwin", reason="this system has no file of flags")
@pytest.mark.parametrize(
    ("told", "vectors"),
    [
        ("flags\t: sse2 avx avx2 avx512f", "AVX-512"),
        ("flags\t: sse2 avx avx2", "AVX2"),
        ("Features\t: fp asimd", "Advanced SIMD"),
        ("flags\t: sse2", ""),
        ("nothing", ""),
    ],
)
def test_the_widest_vector_instructions_that_are_shown_are_told(cpuinfo, told, vectors):
    cpuinfo(told)
    assert machine.describe()["vectors"] == vectors


@pytest.mark.skipif(sys.platform == "darwin", reason="this system has no such file")
@pytest.mark.parametrize(
    ("told", "design"),
    [
        (
            "cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: EPYC\nstepping\t: 0",
            "family 25, model 1, stepping 0",
        ),
        ("CPU implementer\t: 0x41", ""),
    ],
)
def test_a_design_is_told_by_the_numbers_of_its_processor(cpuinfo, told, design):
    cpuinfo(told)
    assert machine.describe()["design"] == design


@pytest.mark.skipif(sys.platform == "darwin", reason="this system has no such file")
@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("model name\t: Xeon\nCPU part\t: 0x1", "Xeon"),
        (
            "CPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c",
            "aarch64, implementer 0x41, variant 0x3, part 0xd0c",
        ),
        ("nothing", "generic"),
    ],
)
def test_a_processor_without_a_name_is_told_by_its_numbers(cpuinfo, monkeypatch, told, name):
    cpuinfo(told)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(platform, "processor", lambda: "generic")
    assert machine.cpu_model() == name


def _cache(folder, core, index, **files):
    here = folder / f"cpu{core}" / "cache" / f"index{index}"
    here.mkdir(parents=True)
    for name, text in files.items():
        (here / name).write_text(f"{text}\n")


def _two_pairs_of_cores(folder):
    for core in range(4):
        pair = "0-1" if core < 2 else "2-3"
        _cache(folder, core, 0, level=1, type="Data", size="32K", shared_cpu_list=core)
        _cache(folder, core, 1, level=1, type="Instruction", size="64K", shared_cpu_list=core)
        _cache(folder, core, 2, level=2, type="Unified", size="1M", shared_cpu_list=core)
        _cache(folder, core, 3, level=3, type="Unified", size="8M", shared_cpu_list=pair)


def test_a_shared_cache_is_counted_once_and_every_last_level_cache_is_added(tmp_path):
    _two_pairs_of_cores(tmp_path)
    sizes = {"l1d": 32 << 10, "l2": 1 << 20}
    assert machine._linux_caches(tmp_path, range(4)) == sizes | {"last_level": 16 << 20}
    assert machine._linux_caches(tmp_path, [1]) == sizes | {"last_level": 8 << 20}


def perflevel(level, l1d, l2, cores, sharing):
    keys = ("l1dcachesize", "l2cachesize", "physicalcpu", "cpusperl2")
    return {f"hw.perflevel{level}.{key}": n for key, n in zip(keys, (l1d, l2, cores, sharing), strict=True)}


MACS = {
    "two kinds of cores": (
        {"hw.nperflevels": 2, "hw.l1dcachesize": 64 << 10, "hw.l2cachesize": 4 << 20}
        | perflevel(0, 128 << 10, 12 << 20, 6, 4)
        | perflevel(1, 64 << 10, 4 << 20, 2, 4),
        {"l1d": 128 << 10, "l2": 12 << 20, "last_level": 28 << 20},
    ),
    "an L3": (
        {"hw.nperflevels": 1, "hw.l3cachesize": 12 << 20} | perflevel(0, 32 << 10, 256 << 10, 6, 1),
        {"l1d": 32 << 10, "l2": 256 << 10, "last_level": 12 << 20},
    ),
    "no levels": (
        {"hw.l1dcachesize": 32 << 10, "hw.l2cachesize": 3 << 20},
        {"l1d": 32 << 10, "l2": 3 << 20, "last_level": 3 << 20},
    ),
    "nothing": ({}, {"l1d": 0, "l2": 0, "last_level": 0}),
}


@pytest.mark.parametrize("told", MACS)
def test_on_a_mac_caches_are_those_of_the_fast_cores_and_the_last_level_of_all(monkeypatch, told):
    keys, caches = MACS[told]
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(macos, "sysctl", lambda name: str(keys.get(name, "")))
    assert machine.cache_bytes() == caches


def test_a_system_that_tells_nothing_about_caches_gives_none(tmp_path):
    assert machine._linux_caches(tmp_path, [0]) == {}


@pytest.mark.parametrize(("cores", "told"), [({0}, "0"), ({8, 0, 1, 2, 3}, "0-3,8"), ({1, 3, 4}, "1,3-4")])
def test_the_cores_of_a_process_are_told_as_ranges(monkeypatch, cores, told):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores, raising=False)
    assert machine.affinity() == told


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_all_threads_are_those_of_the_cores_that_a_process_may_use():
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{one}])\n"
    code += "from layernorm_backward.timing.timed import thread_counts, too_many\n"
    code += "print(thread_counts([1, 'all']), too_many(2))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1] 1 cores are usable here, not 2\n"


def test_the_packages_that_a_table_requires_are_in_its_record(monkeypatch):
    installed = {"torch": "2.13.0", "jax": "0.10.2"}
    monkeypatch.setattr("layernorm_backward.host.installed.of_import", lambda name: installed.get(name, ""))
    found = record.record({}, "smoke", record.begin("layernorm_backward.experiments.audit_peers"))["machine"]
    assert installed.items() <= found.items() and "flax" not in found


def test_a_record_tells_the_state_at_the_start_and_of_a_gpu_nothing_of_its_host(monkeypatch):
    started = record.begin("layernorm_backward.experiments.eps", device={"gpu": "some GPU"})
    date = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    known = started._replace(date=date, load_1min=-1.0, waited_s=4.5, required={"torch": "2.13.0"})
    for now, waited_s in ((7.0, 2.5), (4.0, 0.0), (math.nan, None)):
        monkeypatch.setattr(record.clock, "run_queue_s", lambda now=now: now)
        found = record.record({}, "smoke", known)
        assert found["waited_s"] == waited_s
    assert found["date"] == "2026-01-02T03:04:05+00:00" and found["load_1min_before"] == -1.0
    assert found["machine"] == {"gpu": "some GPU"}


def test_the_code_in_a_record_is_that_of_its_kernels():
    module, kernels = "layernorm_backward.experiments.eps", ["compact"]
    code = record.begin(module, kernels).code_hash
    assert code == code_hash(module, kernels) != code_hash(module)


def test_a_clock_that_is_set_back_changes_no_duration():
    started = record.begin("layernorm_backward.experiments.eps")
    late = started._replace(date=started.date + timedelta(hours=1))
    found = record.record({}, "smoke", late)
    assert 0 <= found["duration_s"] < 60
