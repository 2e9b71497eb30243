"""The console commands."""

import warnings

# torch 2.14 says so at every import of fairseq, before anything that a command has to say; no user can act on it.
warnings.filterwarnings("ignore", r"`torch\.jit\.script` is deprecated", FutureWarning)
