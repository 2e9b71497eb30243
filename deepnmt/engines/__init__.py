"""Engines translate subwords into subwords: `registry.py` has them by name, `engine.py` their protocol."""
