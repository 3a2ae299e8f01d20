"""The commands, each a skin over one library call; importing this registers them."""

from headscope.commands import dependency, record, report, surface

__all__ = ["dependency", "record", "report", "surface"]
