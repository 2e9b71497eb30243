"""Recipes: YAML files with one option of fairseq-train a key, and a few keys of our own.

    recipe_file.py   reads a file, and the one that it extends
    own_keys.py      our own keys, the keys of every training, and `batches-per-update`
    checking.py      holds a recipe and the command line together against fairseq's options and their table
    combinations.py  which options go together
    parser.py        fairseq's parser

`python -m deepnmt.recipe RECIPE` prints the arguments of fairseq-train. Reading a recipe does not import fairseq;
checking one does.
"""

from deepnmt.recipe.own_keys import to_arguments
from deepnmt.recipe.recipe_file import Option, Recipe, checksum, read_recipe, read_stages

__all__ = ["Option", "Recipe", "checksum", "read_recipe", "read_stages", "to_arguments"]
