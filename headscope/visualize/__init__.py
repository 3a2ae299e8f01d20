"""Results in, Plotly figures out: what every head attends to, and which relation it carries."""

from headscope.visualize.heads import head_map, surface_maps
from headscope.visualize.relations import best_heads, relation_map

__all__ = ["best_heads", "head_map", "relation_map", "surface_maps"]
