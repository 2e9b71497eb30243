"""Tags in the place of numbers and addresses, before text is cut into subwords."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.pipeline import placeholders_of
from deepnmt.text.placeholders import first_tag
from deepnmt.text.settings import TextSettings
from deepnmt.text.text_rewriting import Lines, Rewriter, rewrite


def tag(settings: TextSettings, texts: Sequence[Path], outputs: Sequence[Path], training: bool, workers: int) -> None:
    """Write both sides of a split with tags.

    Args:
        settings: of the data, which say what has tags
        texts: in tokens, of the source and of the target
        outputs: files to write
        training: tag the source as its target, and not all its units, as when translating
        workers: processes, at most

    Raises:
        UserError: a tag occurs in the text
    """
    names = tuple(path.name for path in texts)
    rewrite(partial(_tagger, settings, names, training), texts, outputs, workers, "tagging")


def _tagger(settings: TextSettings, names: Sequence[str], training: bool) -> Rewriter:
    placeholders = placeholders_of(settings)
    tags = list(placeholders.patterns)
    lowers = [settings.casing(language).lower for language in settings.languages]

    def tagged(numbered: tuple[int, Lines]) -> Lines:
        number, lines = numbered
        for name, line in zip(names, lines):
            if found := first_tag(line, tags):
                raise UserError(
                    f"{name}:{number + 1}: must not have the tag {found}, which --placeholders uses, but does"
                )
        source, target = lines
        both = placeholders.tagged_pair(source, target)
        if not training:
            both = placeholders.tagged(source), both[1]
        # Addresses without a tag, which keep their case until now, are words like others.
        return tuple(lower(side) for lower, side in zip(lowers, both)) if settings.lowercase else both

    return tagged
