"""What a transformer's attention heads know, and what fine-tuning did to them."""

__version__ = "0.1.0"
