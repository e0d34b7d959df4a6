"""Memory counters: the events of a machine, that only the call is counted, what is not believed."""

import errno
import math
import mmap
import os
import platform
import re
import struct

import pytest

from layernorm_backward import counters
from layernorm_backward.counters import perf_events
from layernorm_backward.counters.memory_controllers import Event, events

INTEL_FORMAT = {"event": "config:0-7", "umask": "config:8-15"}
CAS = {
    "cas_count_read": "event=0x05,umask=0xcf",
    "cas_count_read.scale": "6.103515625e-5",
    "cas_count_read.unit": "MiB",
    "cas_count_write": "event=0x05,umask=0xf0",
    "clockticks": "event=0x01",
}


def device(folder, name, number, cpumask, layout, listed=()):
    for part, files in (("format", layout), ("events", dict(listed))):
        (folder / name / part).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / part / file).write_text(text + "\n")
    (folder / name / "type").write_text(f"{number}\n")
    if cpumask:
        (folder / name / "cpumask").write_text(f"{cpumask}\n")
    return folder


def test_intel_servers_list_their_events_with_codes_scale_and_sockets(tmp_path):
    device(tmp_path, "uncore_imc_0", 13, "0,28-29", INTEL_FORMAT, CAS)
    device(
        tmp_path, "uncore_imc_free_running_0", 14, "0", INTEL_FORMAT, {"data_read": "event=0xff,umask=0x20"}
    )
    read, write = events(tmp_path)
    assert read == Event("uncore_imc_0", "cas_count_read", 13, 0xCF05, (0, 28, 29), 64.0)
    assert write == Event("uncore_imc_0", "cas_count_write", 13, 0xF005, (0, 28, 29), 64.0)


def test_both_halves_of_a_channel_and_desktop_events_are_found(tmp_path):
    halves = {
        f"cas_count_{way}_sch{n}": f"event=0x0{5 + n},umask=0xcf" for way in ("read", "write") for n in (0, 1)
    }
    device(tmp_path / "server", "uncore_imc_3", 20, "0", INTEL_FORMAT, halves)
    assert len(events(tmp_path / "server")) == 4
    desktop = {
        "data_reads": "event=0x1",
        "data_reads.scale": "2",
        "data_reads.unit": "KiB",
        "data_total": "event=0x3",
    }
    device(tmp_path / "desktop", "uncore_imc", 21, "", INTEL_FORMAT, desktop)
    assert events(tmp_path / "desktop") == [Event("uncore_imc", "data_reads", 21, 1, (0,), 2048.0)]


def test_amd_events_are_encoded_with_the_newer_controllers_first(tmp_path):
    layout = {"event": "config:0-7,32-35", "umask": "config:8-15"}
    device(tmp_path, "amd_df", 9, "0", layout)
    found = events(tmp_path)
    assert len(found) == 8
    assert {event.device for event in found} == {"amd_df"}
    assert [found[n].config for n in (0, 1, 4)] == [0x3807, 0x3847, 0x1_0000_3807]
    for n in (0, 1):
        device(tmp_path, f"amd_umc_{n}", 30 + n, "0", {"event": "config:0-7", "rdwrmask": "config:8-9"})
    assert [(event.type, event.config, event.bytes_per_count) for event in events(tmp_path)] == [
        (30, 0x0A, 64),
        (31, 0x0A, 64),
    ]


def test_a_machine_without_memory_controllers_names_what_it_has(tmp_path):
    device(tmp_path, "software", 1, "", {})
    device(tmp_path, "msr", 8, "", {})
    if platform.system() == "Linux":
        assert counters.missing(tmp_path).endswith("event sources of this machine (msr, software)")
        assert counters.missing(tmp_path / "nowhere").endswith("(none)")


def test_another_system_says_so(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert counters.missing() == "memory counters are read through Linux; this is Darwin"


@pytest.fixture
def intel(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    return device(tmp_path, "uncore_imc_0", 13, "0", INTEL_FORMAT, CAS)


@pytest.mark.parametrize(
    "code, said",
    [
        (errno.EACCES, r"no user read memory counters \(perf_event_paranoid is 2; allowed: 0, root\)"),
        (errno.EPERM, "no user read memory counters"),
        (
            errno.ENOENT,
            r"refuses the memory counters: \[Errno 2\] No such file or directory: 'uncore_imc_0/cas",
        ),
    ],
)
def test_a_refusal_of_the_kernel_is_a_reason(intel, monkeypatch, tmp_path, code, said):
    def refuse(event, core):
        raise OSError(code, os.strerror(code), f"{event.device}/{event.name}")

    monkeypatch.setattr(perf_events, "_open", refuse)
    monkeypatch.setattr(counters, "PARANOID", tmp_path / "paranoid")
    counters.PARANOID.write_text("2\n")
    assert re.search(said, counters.missing(intel))


def test_an_architecture_whose_call_is_unknown_is_a_reason(intel, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert counters.missing(intel).endswith("the number of perf_event_open is not known for riscv64")


class Controllers:
    """A kernel whose open events count, while they are on, what passes; each sees `share` of it."""

    def __init__(self, monkeypatch, share=0.5):
        self.opened, self.on, self.counts, self.share = [], False, {}, share
        monkeypatch.setattr(perf_events, "_open", self.open)
        monkeypatch.setattr(perf_events, "_switch", self.switch)
        monkeypatch.setattr(perf_events, "_read", self.counts.get)
        monkeypatch.setattr(os, "close", self.opened.remove)

    def open(self, event, core):
        self.opened.append(len(self.opened))
        return self.opened[-1]

    def switch(self, opened, request):
        self.on = {perf_events._ENABLE: True, perf_events._DISABLE: False}.get(request, self.on)
        if request == perf_events._RESET:
            self.counts.update(dict.fromkeys((number for number, _ in opened), 0))

    def moved(self, size):
        for number in self.opened if self.on else ():
            self.counts[number] += self.share * size / 64


def test_only_the_repeated_call_is_counted_and_the_events_are_closed(intel, monkeypatch):
    machine = Controllers(monkeypatch)
    with counters.memory_bytes(intel) as count:
        machine.moved(1e9)
        assert counters.per_call(count, lambda: machine.moved(6400), repeats=5) == 6400
        machine.moved(1e9)
        assert counters.per_call(count, lambda: machine.moved(640), repeats=2) == 640
        assert machine.opened
    assert not machine.opened


def test_a_call_that_fails_leaves_nothing_counting(intel, monkeypatch):
    machine = Controllers(monkeypatch)
    with pytest.raises(ZeroDivisionError), counters.memory_bytes(intel) as count:
        count(lambda: 1 / 0)
    assert not machine.on
    assert not machine.opened


def test_counters_that_miss_known_bytes_are_not_believed():
    assert counters.disbelief(1.08e9, 1e9, tolerance=0.1) == ""
    assert counters.disbelief(0.5e9, 1e9, 0.1).startswith("the counters give 0.50 times the bytes")
    assert counters.disbelief(float("nan"), 1e9, 0.1).startswith("the counters give nan times")


def test_events_that_took_turns_are_extrapolated(monkeypatch):
    monkeypatch.setattr(os, "read", lambda number, size: struct.pack("QQQ", 30, 100, 25))
    assert perf_events._read(3) == 120
    monkeypatch.setattr(os, "read", lambda number, size: struct.pack("QQQ", 30, 100, 0))
    assert math.isnan(perf_events._read(3))


@pytest.mark.skipif(platform.system() != "Linux", reason="perf_event_open is a call of Linux")
def test_this_kernel_counts_the_pages_that_a_call_touches():
    page_faults = Event("software", "page-faults", 1, 2, tuple(os.sched_getaffinity(0)), 1.0)
    pages = mmap.mmap(-1, 256 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)

    def touch():
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1

    try:
        with perf_events.counting([page_faults]) as count:
            assert count(touch) >= 256
    except (OSError, NotImplementedError) as refused:
        pytest.skip(f"the kernel lets this user count no events: {refused}")
