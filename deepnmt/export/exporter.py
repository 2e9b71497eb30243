"""Export checkpoints as a model folder, which appears when it is complete and has passed its check."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from deepnmt.beside import whole_folder
from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.console import program
from deepnmt.engines.engine import Engine, SearchSettings
from deepnmt.engines.model_folder import RECORD, ModelFolder, is_model_folder
from deepnmt.engines.registry import AUTO, CARDS, FORMATS, SHORTLISTS, by_speed, engine_module
from deepnmt.engines.torch.engine import model_files
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.engines.torch.options import describe
from deepnmt.engines.torch.writer import write_models
from deepnmt.errors import UserError
from deepnmt.export.parity import Result, compare, read_pairs
from deepnmt.export.shortlists import ListOf, by_name, shortlists
from deepnmt.jobs.job import Job
from deepnmt.options.option_table import EXPORT, range_faults
from deepnmt.search.shortlist import Shortlist
from deepnmt.search.supported import check_shortlist
from deepnmt.text.data_folder import check_dictionaries
from deepnmt.text.pipeline import TextPipeline, text_files
from deepnmt.text.record import SHORTLIST, read_scores
from deepnmt.text.settings import TextSettings


@dataclass(frozen=True)
class Export:
    """The request of an export.

    Attributes:
        checkpoints: fairseq's, one or an ensemble
        data: the folder of their training, made by deepnmt preprocess
        engine: its name, or "auto": the fastest one that is installed and computes the model exactly
        weights: type of the numbers
        check: number of validation pairs to compare; 0: no check
        allow_loss: export reduced weights even if BLEU is lost
        search: defaults of the search
        shortlist: number of frequent types on the shortlists; None: translations may have all types
        lexicon: from which shortlists are made; None: it is learnt from the training text
        scores: file of deepnmt score, for the model card of the transformers engine

    Raises:
        UserError: a number is out of range, or options conflict; a line for each
    """

    checkpoints: Sequence[Path]
    data: Path
    engine: str = "torch"
    weights: str = "float32"
    check: int = 200
    allow_loss: bool = False
    search: SearchSettings = dataclasses.field(default_factory=SearchSettings)
    shortlist: int | None = None
    lexicon: Path | None = None
    scores: Path | None = None

    def __post_init__(self) -> None:
        faults = [f"--{name} {fault}" for name, fault in range_faults(vars(self), EXPORT)]
        if self.lexicon is not None and self.shortlist is None:
            faults.append("--lexicon needs --shortlist")
        if self.scores is not None and self.engine not in CARDS:
            faults.append(f"--scores needs --engine {' or '.join(CARDS)}")
        faults += self._of_engine()
        if faults:
            raise UserError(*faults)

    def _of_engine(self) -> Iterator[str]:
        """Yield the parts of the request that the engine cannot fulfil for any model."""
        if self.shortlist is not None and self.engine not in (AUTO, *SHORTLISTS):
            yield f"--engine {self.engine}: has no shortlist for each sentence; use --engine {' or '.join(SHORTLISTS)}"
        if self.weights not in FORMATS.get(self.engine, (self.weights,)):
            yield f"--weights {self.weights}: use --engine torch"
        if len(self.checkpoints) > 1 and self.engine in FORMATS:
            yield f"an ensemble of {len(self.checkpoints)} checkpoints: use --engine torch"
        if self.search.rerank and self.engine in CARDS:
            yield f"--rerank cannot be combined with --engine {self.engine}"


class _Source:
    """The files that an export reads: their faults are known before anything is written.

    Attributes:
        settings: the text's
        scores: for the model card
        pairs: for the check; None: no check
        reference: computes with the checkpoints
    """

    def __init__(self, task: Export) -> None:
        check_dictionaries(task.data, TextPipeline.read(task.data).settings.languages)
        self._task = task
        self.scores = {} if task.scores is None else read_scores(task.scores)
        self.settings = trained_settings(task.checkpoints, task.data)
        self.pairs = read_pairs(task.data, self.settings.languages) if task.check else None
        self._lists: Shortlist | None = None
        if task.lexicon is not None:
            self.lists()
        self.reference = load_checkpoints(task.checkpoints, task.data, self.settings.languages, device="cpu")

    def lists(self) -> Shortlist | None:
        """Return the requested shortlists; without a lexicon, the first call learns one."""
        task, languages = self._task, self.settings.languages
        if self._lists is None and task.shortlist is not None:
            reverse = languages != TextSettings.read(task.data).languages
            self._lists = shortlists(task.data, languages, task.shortlist, task.lexicon, reverse)
        return self._lists


def export(task: Export, target: Path, say: Callable[[str], object] = lambda line: None) -> Result | None:
    """Write a model folder, and return the result of its check; None without a check.

    An existing model folder is replaced when the new one is complete. `say` receives the choice of the engine.

    Raises:
        UserError: something is missing or faulty, the engine cannot express the model, or the check fails
    """
    Job(program("export"), target, RECORD, option="MODEL").check_replaceable(is_model_folder)
    source = _Source(task)
    if task.engine != AUTO:
        return _exported(task, source, target)
    # Other engines are for the CPU.
    width = source.reference.models[0].encoder.embed_tokens.embedding_dim
    engines = ("torch",) if torch.cuda.is_available() else by_speed(width, task.weights)
    passed_over = []
    for engine in engines:
        try:
            result = _exported(dataclasses.replace(task, engine=engine), source, target)
        except UserError as error:
            if engine == engines[-1]:
                raise
            passed_over.append(f"not {engine}: {str(error).splitlines()[0].removeprefix(f'--engine {engine}: ')}")
        else:
            say(f"--engine auto: {engine}" + "".join(f"; {reason}" for reason in passed_over))
            return result
    raise AssertionError("the last engine is exported, or raises")


def _exported(task: Export, source: _Source, target: Path) -> Result | None:
    writer, settings, reference = engine_module(task.engine, "writer"), source.settings, source.reference
    if reference.right_to_left and task.engine != "torch":
        raise UserError("models that translate from right to left: use --engine torch")
    if hasattr(writer, "check"):
        writer.check(reference.models, task.weights)
    # Before a lexicon is learnt, which may take hours.
    for model in reference.models if task.shortlist is not None else ():
        check_shortlist(model)
    with whole_folder(target) as temporary:
        if (lists := source.lists()) is not None:
            lists.write(temporary / SHORTLIST)
        writer.write(list(task.checkpoints), task.data, temporary, task.weights)
        if not model_files(temporary)[0].is_file():
            write_models(list(task.checkpoints), temporary, task.weights)
        for name in (*text_files(settings), *(f"dict.{language}.txt" for language in settings.languages)):
            shutil.copyfile(task.data / name, temporary / name)
        folder = ModelFolder(
            temporary, settings, task.engine, task.weights, reference.longest, task.search, {}, describe(reference)
        )
        engine = engine_module(task.engine, "engine").load(folder, None)
        listed = None if lists is None else by_name(lists, *map(folder.dictionary, settings.languages))
        result = _checked(task, source, engine, folder, listed)
        record = result.as_record() if result else {"pairs": 0}
        folder = dataclasses.replace(folder, longest=engine.longest, check=record)
        if hasattr(writer, "finish"):
            writer.finish(folder, source.scores)
        folder.write()
    return result


def _checked(
    task: Export, source: _Source, engine: Engine, folder: ModelFolder, listed: ListOf | None
) -> Result | None:
    """Return the result of the check, or None without one. Raises `UserError` if the model does not pass."""
    if source.pairs is None:
        return None
    reference = source.reference
    longest = min(engine.longest, reference.longest), reference.longest_target
    pairs = source.pairs.chosen(task.check, longest)
    result = compare(reference, engine, pairs, folder.pipeline(), task.search, listed)
    if faults := list(result.faults(task.weights == "float32", task.allow_loss)):
        raise UserError(*(f"--engine {task.engine} --weights {task.weights}: {fault}" for fault in faults))
    return result
