"""`deepnmt-shrink` where it is not installed as a command."""

import sys

from deepnmt.shrinking.cli import shrink_main

sys.argv[0] = "deepnmt-shrink"  # what errors begin with
shrink_main()
