"""Claims about GPU programs, which only a GPU can settle."""

from layernorm_backward.paper.predicates.judgement import Judgement


def needs_gpu(*, design: str, tolerance: float) -> Judgement:
    """Not measured; `design` says what the claim is about and how a kernel would do it."""
    return Judgement("not measured", "", design, "no GPU table is part of this study")
