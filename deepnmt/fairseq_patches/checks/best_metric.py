"""A --best-checkpoint-metric that no validation has is named before the first update, beside the available ones."""

from typing import Any

from fairseq import checkpoint_utils
from fairseq.logging import metrics
from fairseq_cli import train

from deepnmt.errors import in_place_of
from deepnmt.fairseq_patches.patch import replaces, trainings_only

DEFAULT = "loss"  # that every validation has


@replaces(
    checkpoint_utils, "load_checkpoint", order=40, why="a faulty --best-checkpoint-metric shows only after an epoch"
)
@trainings_only
def check_best_metric(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Validate one sentence, unless the figure that tells the best checkpoint is known to be there."""
    loaded = stock(cfg, trainer, **kwargs)
    metric, task, data = cfg.best_checkpoint_metric, trainer.cfg.task, trainer.cfg.dataset
    # BLEU of one sentence is not always there.
    known = metric == DEFAULT or (metric == "bleu" and getattr(task, "eval_bleu", False))
    if not known and not data.disable_validation:
        _check(metric, scores_of_a_sentence(trainer, data.valid_subset.split(",")[0]))
    return loaded


@replaces(train, "get_valid_stats", order=10, why="name the figures that a validation has")
def name_the_metrics(stock: Any, cfg: Any, trainer: Any, stats: dict[str, Any], tracking_best: bool) -> Any:
    """Return the scores of a validation. Raises `UserError` if the one that tells the best is not among them."""
    _check(cfg.checkpoint.best_checkpoint_metric, stats)
    return stock(cfg, trainer, stats, tracking_best)


def scores_of_a_sentence(trainer: Any, subset: str) -> dict[str, Any]:
    """Return the figures of a validation by name, computed on the first sentence of a subset."""
    batches = trainer.get_valid_iterator(subset)
    number = batches.frozen_batches[0][0]
    with metrics.aggregate(new_root=True) as scores:
        trainer.valid_step(batches.collate_fn([batches.dataset[number]]))
    return dict(scores.get_smoothed_values())


def _check(metric: str, scores: dict[str, Any]) -> None:
    if metric not in scores:
        raise in_place_of(
            KeyError, f"--best-checkpoint-metric must be one of {', '.join(sorted(scores))}, but is {metric}"
        )
