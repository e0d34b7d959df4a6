"""What a container leaves: memory and cores, as its control groups tell."""

from math import inf

import pytest

from layernorm_backward import machine
from layernorm_backward.host import cgroup

V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


def group(folder, names, limit, used, cached=0):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, (limit, used), strict=False):
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cached}\n", encoding="utf-8")


def available(tmp_path, own):
    groups = tmp_path / "cgroup"
    groups.write_text(own, encoding="utf-8")
    return cgroup.available(groups, tmp_path)


@pytest.mark.parametrize(("names", "root", "own"), [(V2, "", "0::/a/b\n"), (V1, "memory", "4:memory:/a/b\n")])
def test_a_group_leaves_its_limit_less_what_is_taken_and_cannot_be_given_back(tmp_path, names, root, own):
    group(tmp_path / root / "a/b", names, 1000, 300)
    assert available(tmp_path, own) == 700
    group(tmp_path / root / "a/b", names, 1000, 300, cached=200)
    assert available(tmp_path, own) == 900


def test_the_limits_of_the_groups_above_hold_as_well(tmp_path):
    group(tmp_path / "a/b", V2, 1000, 300)
    group(tmp_path / "a", V2, 900, 700)
    group(tmp_path, V2, "max", 5)
    assert available(tmp_path, "0::/a/b\n") == 200


def test_a_container_sees_its_own_group_at_the_top(tmp_path):
    group(tmp_path, V2, 1000, 300)
    assert available(tmp_path, "0::/outside/of/it\n") == 700
    group(tmp_path / "memory", V1, 1000, 400)
    assert available(tmp_path, "9:cpu,cpuacct:/x\n4:memory:/docker/id\n0::/\n") == 600


@pytest.mark.parametrize("limit", ["max", "", "much"])
def test_what_is_no_number_is_no_limit(tmp_path, limit):
    group(tmp_path, V2, limit, 300)
    assert available(tmp_path, "0::/\n") == inf


@pytest.mark.parametrize("own", ["", "0::/\n", "nonsense\n", "0::/../..\n", "4:cpu:/\n"])
def test_a_group_that_is_not_told_has_no_limit(tmp_path, own):
    assert available(tmp_path, own) == inf
    assert cgroup.available(tmp_path / "missing", tmp_path) == inf


def test_more_taken_than_allowed_leaves_nothing(tmp_path):
    group(tmp_path, V2, 100, 300)
    assert available(tmp_path, "0::/\n") == 0


def cores(tmp_path, own):
    groups = tmp_path / "cgroup"
    groups.write_text(own, encoding="utf-8")
    return cgroup.cores(groups, tmp_path)


def quota(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n", encoding="utf-8")


def test_a_quota_of_the_second_version_is_told_in_cores(tmp_path):
    quota(tmp_path / "a/b", cpu__max="250000 100000")
    assert cores(tmp_path, "0::/a/b\n") == 2.5


def test_the_quota_of_a_group_above_holds_as_well(tmp_path):
    quota(tmp_path / "a/b", cpu__max="max 100000")
    quota(tmp_path / "a", cpu__max="150000 100000")
    quota(tmp_path, cpu__max="400000 100000")
    assert cores(tmp_path, "0::/a/b\n") == 1.5


def test_a_quota_of_the_first_version_is_told_in_cores(tmp_path):
    quota(tmp_path / "cpu/x", cpu__cfs_quota_us=400000, cpu__cfs_period_us=100000)
    assert cores(tmp_path, "9:cpu,cpuacct:/x\n4:memory:/x\n") == 4


@pytest.mark.parametrize("told", ["", "max", "max 100000", "1 0", "much 100000", "1 2 3"])
def test_a_group_without_a_quota_limits_no_cores(tmp_path, told):
    quota(tmp_path, cpu__max=told)
    quota(tmp_path / "cpu", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    assert cores(tmp_path, "2:cpu:/\n0::/\n") == inf


@pytest.mark.parametrize(("left", "usable"), [(inf, 3), (8, 3), (2.5, 2), (0.3, 1)])
def test_usable_cores_are_those_of_the_mask_that_a_quota_keeps_busy(monkeypatch, left, usable):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: {0, 1, 7}, raising=False)
    monkeypatch.setattr(cgroup, "cores", lambda: left)
    assert machine.usable_cores() == usable
