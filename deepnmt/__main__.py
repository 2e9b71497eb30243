"""`python -m deepnmt` is `deepnmt`."""

from deepnmt.cli import main

main()
