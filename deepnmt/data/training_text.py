"""Options of the task `deep_translation` for its training text: how it is cut and weighed, and in which order it comes.

Each of them is a data set around another one, with a file of its own.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from fairseq.data import BaseWrapperDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.utils import split_paths

from deepnmt.data import curriculum
from deepnmt.data.bpe_dropout import BOTH, SIDES, RecutPairs, Sampling
from deepnmt.data.curriculum import CompetentPairs, Curriculum
from deepnmt.data.difficulty import LENGTH, RARITY, difficulties
from deepnmt.data.dynamic_sampling import PairLosses, SampledPairs
from deepnmt.data.weighted_pairs import WeightedPairs
from deepnmt.errors import UserError
from deepnmt.options.option_table import described

Numbers = npt.NDArray[np.float64]
BY_LENGTH, AT_RANDOM = BATCH_ORDERS = ("length", "random")


@dataclass
class TrainingTextOptions:
    """The options."""

    # fmt: off
    bpe_dropout: float = described(
        0.0, "probability of omitting each BPE merge, as the training text is cut anew in each epoch")
    unigram_sampling: float = described(
        0.0, "sharpness of a random cut in each epoch, by the unigram model of DATA: 1 draws by the model's "
        "probabilities, smaller values more evenly")
    bpe_dropout_side: ChoiceEnum(SIDES) = described(  # type: ignore[valid-type]
        BOTH, "sides that --bpe-dropout or --unigram-sampling cuts anew: source, target, or both")
    pair_weights: Optional[str] = described(
        None, "file with the weight of each training pair in the loss, one number per line")
    set_weights: Optional[str] = described(
        None, "weights of the training sets train, train1, ... in the loss, such as 1,0.5; a folder of deepnmt mix has "
        "two sets, the real pairs and the others")
    competence: ChoiceEnum(curriculum.KINDS) = described(  # type: ignore[valid-type]
        curriculum.NONE, "growth of a curriculum's competence, the share of the pairs, easy ones first, that are "
        "trained on: square root, linear, or none")
    competence_updates: Optional[int] = described(
        None, "updates after which --competence trains on all pairs")
    competence_start: float = described(0.01, "share of the pairs that --competence begins with")
    competence_every: Optional[int] = described(
        None, "updates of an epoch during a curriculum, at whose start the competence is renewed (default: a "
        f"{curriculum.EPOCHS}th of --competence-updates)")
    difficulty: str = described(
        LENGTH, "order of the pairs for --competence: length or rarity of the source, or a file with a number for "
        "each training pair, larger for harder ones")
    sample_share: float = described(
        1.0, "share of the pairs that each epoch draws after --sample-warmup: pairs whose loss falls are likelier")
    sample_warmup: int = described(2, "number of epochs before --sample-share draws pairs")
    batch_order: ChoiceEnum(BATCH_ORDERS) = described(  # type: ignore[valid-type]
        BY_LENGTH, "order in which pairs are divided into batches: by length, or at random, which needs more padding")
    # fmt: on


class ShuffledPairs(BaseWrapperDataset):  # type: ignore[misc]
    """Pairs that are divided into batches in random order, which differs from epoch to epoch."""

    # fairseq makes the batches of an epoch anew for data sets that request it.
    can_reuse_epoch_itr_across_epochs = False

    def ordered_indices(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the pairs in random order, by the generator that fairseq seeds for each epoch."""
        return np.random.permutation(super().ordered_indices())


def ranks_of(cfg: Any, pairs: Any) -> Optional[Numbers]:
    """Return the difficulty of each of fairseq's pairs, or None without a curriculum.

    Raises:
        UserError: the difficulties in a file do not fit the pairs, or DATA is several folders
    """
    if str(cfg.competence) == curriculum.NONE:
        return None
    if cfg.difficulty not in (LENGTH, RARITY) and len(split_paths(cfg.data)) > 1:
        raise UserError("--difficulty must be length or rarity with several data folders, but is a file")
    return difficulties(cfg.difficulty, pairs)


def losses_of(cfg: Any, pairs: Any, losses: Optional[PairLosses]) -> Optional[PairLosses]:
    """Return the losses of training pairs for --sample-share, those known so far if they fit, or None without it.

    Raises:
        UserError: DATA is several folders
    """
    if cfg.sample_share == 1:
        return None
    if len(split_paths(cfg.data)) > 1:
        raise UserError("--sample-share needs a single data folder, but DATA names several")
    return losses if losses is not None and len(losses) == len(pairs) else PairLosses(len(pairs))


def cut_anew(cfg: Any, pairs: Any, epoch: int, longest: tuple[int, int]) -> Any:
    """Return training pairs whose words are cut anew in each epoch, if the options request it.

    Args:
        cfg: the options
        pairs: fairseq's pairs
        epoch: the epoch whose folder, of several in DATA, has them
        longest: most pieces of a source and of a target

    Raises:
        UserError: a folder of DATA lacks the codes, or has others
    """
    sampling = Sampling.requested(cfg)
    if sampling is None:
        return pairs
    folders, languages = list(map(Path, split_paths(cfg.data))), (cfg.source_lang, cfg.target_lang)
    for folder in folders:
        # Also the folders of later epochs.
        sampling.check(folder, languages)
    return RecutPairs(pairs, folders[(epoch - 1) % len(folders)], languages, sampling, cfg.seed, longest)


def in_order(
    cfg: Any, pairs: Any, weights: Optional[Numbers], ranks: Optional[Numbers], losses: Optional[PairLosses]
) -> Any:
    """Return training pairs with their weights, difficulties and losses, in the order that the options request."""
    if weights is not None:
        pairs = WeightedPairs(pairs, weights)
    if losses is not None:
        pairs = SampledPairs(pairs, losses, cfg.sample_share, cfg.sample_warmup, cfg.seed)
    if ranks is not None:
        every = cfg.competence_every or -(-cfg.competence_updates // curriculum.EPOCHS)
        growth = Curriculum(str(cfg.competence), cfg.competence_updates, cfg.competence_start, every)
        pairs = CompetentPairs(pairs, growth, ranks, cfg.update_freq, cfg.seed)
    if str(cfg.batch_order) == AT_RANDOM:
        pairs = ShuffledPairs(pairs)
    return pairs
