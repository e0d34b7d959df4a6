"""How the layer-normalization backward pass should be computed, answered by measurement."""

__version__ = "0.1.0"
