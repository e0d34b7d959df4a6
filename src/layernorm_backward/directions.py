"""The directions of a pass, and what may be timed."""

from typing import Literal, get_args

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
AnyDirection = Literal["forward", "backward", "both"]  # "both": one after the other
TENSORS: dict[Direction, int] = {"forward": 2, "backward": 3}  # (N, D) each: x, y; x, dy, dx
