"""Names in a config that must be among those there are."""

from collections.abc import Collection, Iterable


def require_known(key: str, names: Iterable[str], allowed: Collection[str]) -> None:
    """ValueError where some of the names that `key` holds are not allowed; it lists those that are."""
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise ValueError(f"{key}: unknown {', '.join(unknown)}; allowed: {', '.join(allowed)}")
