"""A plug-in of pytest for fairseq's own tests: imports this package after fairseq where PLUGIN is set."""

import os

import fairseq  # noqa: F401  before the package, as a program has it

if os.environ.get("PLUGIN"):
    import deepnmt

    deepnmt.register()
