"""Trains a shallow model, grows it, trains on, and so to full depth (methods 11: Li 2020, EMNLP, arXiv 2010.03737).

A recipe lists the stages; `deepnmt train-progressive` runs them:

    stages.py    a recipe's stages, with the options of each from the recipe, and its default groups
    plan.py      the stages held against fairseq's options and against each other before the first one starts
    stage_runs.py  one stage after the other, the results of each, and growth from one to the next
"""

from deepnmt.progressive.plan import plan_stages
from deepnmt.progressive.stages import Stage

__all__ = ["Stage", "plan_stages"]
