"""Constants of a module, read from its text: no module is imported for them."""

import ast
from pathlib import Path
from typing import Any


def constant(path: Path, name: str) -> Any:
    """The literal that a module's file assigns to a name outside of all functions; None where it does not.

    ValueError where it assigns something else than a literal.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return ast.literal_eval(node.value)
    return None
