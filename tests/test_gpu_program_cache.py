"""The programs of a campaign on a GPU, found and compiled before it begins."""

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext

import pytest

from gpus import H200
from layernorm_backward.gpu import program_cache


def test_the_programs_of_a_campaign_are_found_without_running_it():
    cells = [("cuda_fused", "float32", "float32", hidden) for hidden in (1024, 1024, 1000)]
    texts = [
        program.text for program in program_cache.needed([*cells, ("liger", "float32", "float32", 64)], H200)
    ]
    assert len(texts) == len(set(texts))
    assert {text.partition("<")[0] for text in texts} == {"forward", "backward", "add_partials"}


def test_a_program_that_does_not_compile_costs_only_the_cells_that_need_it(monkeypatch):
    tried = []

    def compiled(programs, arch):
        tried.extend(programs)
        raise RuntimeError("NVRTC_ERROR_COMPILATION (6)")

    monkeypatch.setattr(program_cache, "compiled", compiled)
    program = program_cache.Program("backward", "backward", ("float",))
    assert not program_cache._compile(program, "sm_90")
    assert tried == [program]
    assert program_cache.compile_all([], "sm_90") == 0


class OnePerCore:
    """A pool of processes that does nothing itself: futures end when they are waited for, with `results`."""

    def __init__(self, results):
        self.results, self.begun = iter(results), 0

    def __call__(self, cores, mp_context):
        return nullcontext(self)

    def submit(self, function, program, arch):
        self.begun += 1
        future, result = Future(), next(self.results)
        if result == "refused":
            raise BrokenProcessPool
        if result == "killed":
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(result)
        return future


@pytest.mark.parametrize(
    ("results", "failed"),
    [([True] * 5, 0), ([True, False, True, False, False], 3), ([True, "killed", "refused", "refused"], 3)],
)
def test_programs_that_a_killed_process_leaves_have_failed(monkeypatch, results, failed):
    pool = OnePerCore(results)
    monkeypatch.setattr(program_cache, "ProcessPoolExecutor", pool)
    assert program_cache.compile_all(range(len(results)), "sm_90") == failed
    assert pool.begun == len(results)


def test_no_program_is_taken_before_a_core_is_free_for_it(monkeypatch):
    pool = OnePerCore([True] * 9)
    monkeypatch.setattr(program_cache, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(program_cache.os, "sched_getaffinity", lambda _: {0, 1})
    programs = iter(range(9))
    ended = []
    honest = program_cache.wait

    def wait(at_work, **how):
        assert pool.begun - len(ended) <= 2
        done, left = honest(at_work, **how)
        ended.extend(done)
        return done, left

    monkeypatch.setattr(program_cache, "wait", wait)
    assert program_cache.compile_all(programs, "sm_90") == 0
    assert len(ended) == 9
