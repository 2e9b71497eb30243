"""The tasks `deep_masked_lm` and `deep_mass`: pre-training of a translation model on text of one language at a time.

DATA may be several folders, joined by colons. Their text of a language is one training set, in which --train-subset
may name several subsets, such as `train,mono`. The dictionaries get the types that only pre-training needs at their
end; `deepnmt graft` takes them out again.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths
from omegaconf import II

from deepnmt.errors import UserError
from deepnmt.options.option_table import MATMUL_HELP, MATMUL_PRECISIONS, dashed, described
from deepnmt.pretraining import ADDED, ENCODER_ALONE
from deepnmt.pretraining.corrupted_text import Corruption
from deepnmt.pretraining.fragments import Fragments
from deepnmt.pretraining.language_sides import load_sides, sides
from deepnmt.pretraining.masked_text import MaskedText

MASK = "<mask>"
# Options of translation without a meaning here, with the values that ask for nothing.
OF_PAIRS: dict[str, Any] = {
    **{"load_alignments": False, "truncate_source": False, "num_batch_buckets": 0, "upsample_primary": -1},
    **{"left_pad_target": False, "required_seq_len_multiple": 1, "eval_bleu": False},
}


@dataclass
class MaskedConfig(TranslationConfig):  # type: ignore[misc]
    """fairseq's options of `translation`, and the precision of products."""

    seed: int = II("common.seed")
    float32_matmul_precision: ChoiceEnum(MATMUL_PRECISIONS) = described(  # type: ignore[valid-type]
        "highest", MATMUL_HELP
    )


@dataclass
class MassConfig(MaskedConfig):
    """fairseq's options of `translation`, and the options of MASS."""

    mass_share: float = described(0.5, "share of a sentence in its masked fragment, above 0 and at most 1")
    mass_langs: Optional[str] = described(None, "languages of the text, such as en,de (default: both of DATA)")


class PretrainingTask(TranslationTask):  # type: ignore[misc]
    """Common parts of both tasks.

    Attributes:
        known_types: sizes of the dictionaries of source and target, without the types of pre-training

    Raises:
        UserError: every option that does not fit, a line each
    """

    def __init__(self, cfg: MaskedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        faults = [
            f"--{dashed(name)} cannot be combined with --task {cfg._name}"
            for name, value in OF_PAIRS.items()
            if getattr(cfg, name) != value
        ]
        faults += self.option_faults(cfg, src_dict == tgt_dict)
        if faults:
            raise UserError(*faults)
        super().__init__(cfg, src_dict, tgt_dict)
        self.known_types = (len(src_dict), len(tgt_dict))
        for dictionary in (src_dict, tgt_dict) if src_dict == tgt_dict else (src_dict,):
            for name in self.added_types():
                dictionary.add_symbol(name)
        added = [len(each) - known for each, known in zip((src_dict, tgt_dict), self.known_types)]
        self.state.merge_state_dict({ADDED: added})
        first = src_dict.nspecial
        self.corruption = Corruption(src_dict.index(MASK), first, self.known_types[0], cfg.seed)

    @staticmethod
    def option_faults(cfg: Any, joined: bool) -> Iterator[str]:
        """Yield the faults of the task's own options; with `joined`, the languages have one dictionary."""
        yield from ()

    def added_types(self) -> list[str]:
        """Return the types of pre-training."""
        return [MASK]

    def text(self, split: str, language: str) -> Any:
        """Return the sentences of a language. Raises `UserError` if text is missing or faulty."""
        folders = list(map(Path, split_paths(self.cfg.data)))
        paths = sides(folders, split.split(","), language)
        return load_sides(paths, self.src_dict, self.cfg.dataset_impl)

    def renewed(self, split: str) -> bool:
        """Return whether each epoch of a subset has draws of its own."""
        return bool(split == self.cfg.train_subset)


class MaskedLanguageModelTask(PretrainingTask):
    """Let the encoder restore masked sentences of the source language."""

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a subset. Raises `UserError` as `text`."""
        text = self.text(split, self.cfg.source_lang)
        left = self.cfg.left_pad_source
        self.datasets[split] = MaskedText(text, self.src_dict, self.corruption, self.renewed(split), left)


class MassTask(PretrainingTask):
    """Let the decoder predict a fragment that the encoder does not see."""

    def __init__(self, cfg: MassConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        self.languages = languages_of(cfg)
        super().__init__(cfg, src_dict, tgt_dict)

    @staticmethod
    def option_faults(cfg: Any, joined: bool) -> Iterator[str]:
        """Yield the faults of share, languages and dictionaries."""
        if not 0 < cfg.mass_share <= 1:
            yield f"--mass-share must be above 0 and at most 1, but is {cfg.mass_share}"
        if len(set(languages_of(cfg))) < len(languages_of(cfg)) or not all(languages_of(cfg)):
            yield f"--mass-langs must be different languages, such as en,de, but is {cfg.mass_langs}"
        unknown = set(languages_of(cfg)) - {"", cfg.source_lang, cfg.target_lang}
        if unknown:
            known = f"{cfg.source_lang} or {cfg.target_lang}, the languages of DATA"
            yield f"--mass-langs must be among {known}, but is {cfg.mass_langs}"
        if not joined:
            yield f"--task {cfg._name} needs one dictionary for both languages (preprocess without separate ones)"

    def added_types(self) -> list[str]:
        """Return the mask and the tag of each language."""
        return [MASK, *map(tag, self.languages)]

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a subset. Raises `UserError` as `text`."""
        texts = [self.text(split, language) for language in self.languages]
        tags = [self.src_dict.index(tag(language)) for language in self.languages]
        self.datasets[split] = Fragments(
            texts,
            tags,
            self.src_dict,
            self.corruption,
            self.renewed(split),
            self.cfg.left_pad_source,
            self.cfg.mass_share,
        )


def languages_of(cfg: Any) -> list[str]:
    """Return the languages whose text is trained on."""
    return [cfg.source_lang, cfg.target_lang] if cfg.mass_langs is None else cfg.mass_langs.split(",")


def tag(language: str) -> str:
    """Return the type that names a language to the decoder."""
    return f"<{language}>"


def register() -> None:
    """Register the tasks with fairseq, for `--task`."""
    register_task(ENCODER_ALONE, dataclass=MaskedConfig)(MaskedLanguageModelTask)
    register_task("deep_mass", dataclass=MassConfig)(MassTask)
