"""A folder of translations of a subset, the result of `deepnmt generate`."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deepnmt.beside import whole_folder
from deepnmt.errors import UserError
from deepnmt.generation.given_options import TASK, check_options, value_of
from deepnmt.generation.inline_sources import InlineSources
from deepnmt.generation.term_constraints import write_constraints
from deepnmt.jobs.job import Job
from deepnmt.limits import DEFAULT_BATCH_SIZE, DEFAULT_BEAM
from deepnmt.text.found_terms import note_terms
from deepnmt.text.nbest import FILE as NBEST
from deepnmt.text.nbest import read_nbest, write_nbest
from deepnmt.text.translated_folder import RECORD, check_data, check_direction, data_settings, write_translations

LOG, CONSTRAINTS = "generate.log", "constraints"


@dataclass(frozen=True)
class TranslatedSubset:
    """Translations of a subset of a data folder.

    Args:
        checkpoints: checkpoints of one model, or of an ensemble
        data: the data folder
        out: folder to make; one that was made before is replaced
        subset: subset of the data
        reverse: translate from the data's target language to its source language
        terms: file of terms whose translations are forced
        glossary: file of terms whose translations a model with inline targets follows
        options: options of fairseq-generate; with `--nbest`, there is an n-best list
    """

    checkpoints: Sequence[Path]
    data: Path
    out: Path
    subset: str = "test"
    reverse: bool = False
    terms: Path | None = None
    glossary: Path | None = None
    options: Sequence[str] = ()

    def make(self, program: str) -> None:
        """Translate the subset, for the command that messages call `program`.

        Raises:
            UserError: files or options do not match, or the search has failed
        """
        # Others write a generate.json, too.
        job = Job(program, self.out, RECORD, option="OUT_DIR")
        job.check_replaceable(lambda folder: all((folder / name).is_file() for name in (RECORD, LOG)))
        if self.terms and self.glossary:
            raise UserError("--glossary cannot be combined with --terms")
        check_options(self.options)
        check_direction(self.data, self.reverse)
        sentences = check_data(self.data, self.subset)
        # Here, since importing fairseq takes seconds.
        from deepnmt.generation.subset_search import check_checkpoints

        stores = value_of(self.options, "--datastore")
        datastores = [Path(store) for store in stores.split(os.pathsep) if store]
        selected_on = check_checkpoints(self.checkpoints, self.data, self.reverse, datastores)
        failed = job.out.absolute().with_name(f"{job.out.name}.failed.log")
        with whole_folder(job.out) as folder, _kept_on_failure(folder / LOG, failed):
            found, note = self._search(folder, sentences)
            if left_out := sentences - len(found):
                print(
                    f"warning: {left_out} of {sentences} sentences were not translated, for they are longer than the "
                    "model's positions; their translations are left empty",
                    file=sys.stderr,
                )
            best = [found.get(number, "") for number in range(sentences)]
            write_translations(folder, best, self.data, self.subset, left_out, self.reverse, selected_on)
            if (folder / NBEST).exists():
                write_nbest(folder / NBEST, read_nbest(folder / NBEST, in_order=False))
            note(folder)
        failed.unlink(missing_ok=True)

    def _words(self, folder: Path) -> Iterator[str]:
        source, target = data_settings(self.data, self.reverse).languages
        yield from ("--path", os.pathsep.join(map(str, self.checkpoints)))
        yield from ("--user-dir", str(Path(__file__).parents[1]), "--task", TASK, "--gen-subset", self.subset)
        yield from ("--source-lang", source, "--target-lang", target)
        yield from ("--beam", str(DEFAULT_BEAM), "--batch-size", str(DEFAULT_BATCH_SIZE))
        yield from ("--post-process", "subword_nmt", "--skip-invalid-size-inputs-valid-test", "--no-progress-bar")
        if value_of(self.options, "--nbest"):
            yield from ("--nbest-file", str(folder / NBEST))

    def _search(self, folder: Path, sentences: int) -> tuple[dict[int, str], Callable[[Path], None]]:
        """Return the translations, and a function that records the counts of their terms."""
        from deepnmt.generation.subset_search import search

        def translate(data: Path, place: Path, total: int, *more: str) -> dict[int, str]:
            return search([str(data), *self._words(place), *more, *self.options], folder / LOG, total)

        if self.glossary:
            from deepnmt.checkpoints.data_fit import check_inline_targets

            inline = InlineSources(self.glossary, self.data, self.subset, self.reverse)
            for path in self.checkpoints:
                check_inline_targets(path)
            return inline.followed(translate(self.data, folder, sentences), folder, translate), inline.note
        if self.terms:
            constraints = folder / CONSTRAINTS
            wanted = write_constraints(self.terms, self.data, self.subset, constraints, self.reverse)
            given = "--constraints", "unordered", "--constraint-file", str(constraints)
            settings = data_settings(self.data, self.reverse)
            found = translate(self.data, folder, sentences, *given)
            return found, lambda output: note_terms(output, wanted, settings, "terms")
        return translate(self.data, folder, sentences), lambda output: None


@contextmanager
def _kept_on_failure(log: Path, failed: Path) -> Iterator[None]:
    """Keep the log of a search that has failed."""
    from deepnmt.generation.subset_search import SearchFailed

    try:
        yield
    except SearchFailed as error:
        os.replace(log, failed)
        raise UserError(f"fairseq-generate failed: {error} (all of its output is in {failed})") from error
