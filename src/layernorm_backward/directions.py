"""The directions of a pass, and what may be timed."""

from typing import Literal, get_args

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
AnyDirection = Literal["forward", "backward", "both"]  # "both": one after the other
