"""The commands, each a skin over one library call; importing this registers them."""

from headscope.commands import cost, dependency, finetune, record, report, surface

__all__ = ["cost", "dependency", "finetune", "record", "report", "surface"]
