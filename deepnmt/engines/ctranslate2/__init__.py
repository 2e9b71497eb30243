"""CTranslate2: plain Transformers, in its own format."""
