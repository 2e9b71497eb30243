"""The text steps of a model folder as a tokeniser of transformers."""

import shutil
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedTokenizer

from deepnmt.engines.model_folder import RECORD, ModelFolder
from deepnmt.text.dictionary import END, STRUCTURAL, read_types
from deepnmt.text.pipeline import TextPipeline, text_files


class DeepTranslationTokenizer(PreTrainedTokenizer):  # type: ignore[misc]
    """Cuts raw text of the source, and of the target as `text_target`; makes text of the target's numbers.

    Args:
        record_file: model.json of a model folder
        kwargs: of transformers
    """

    vocab_files_names: ClassVar = {"record_file": RECORD}
    model_input_names: ClassVar = ["input_ids", "attention_mask"]
    padding_side = "right"

    def __init__(self, record_file: str, **kwargs: Any) -> None:
        folder = ModelFolder.read(Path(record_file).parent)[0]
        self.folder, settings = folder, folder.text
        self.pipeline = folder.pipeline()
        self._target_pipeline = TextPipeline.of(settings.reversed(), folder.codes)
        self._types = {language: read_types(folder.dictionary(language)) for language in settings.languages}
        self._ids = {
            language: {name: number for number, name in enumerate(types)} for language, types in self._types.items()
        }
        self._language = settings.source_lang
        special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        # Text with such symbols stays text.
        kwargs |= {"split_special_tokens": True, "special_tokens_pattern": "eos"}
        super().__init__(**{**special, "model_max_length": folder.longest + 1, **kwargs})

    @property
    def vocab_size(self) -> int:
        """Number of types of the source, or of the target while its text is cut."""
        return len(self._types[self._language])

    def get_vocab(self) -> dict[str, int]:
        """Return the numbers of the types."""
        return dict(self._ids[self._language])

    def _switch_to_input_mode(self) -> None:
        self._language = self.folder.source_lang

    def _switch_to_target_mode(self) -> None:
        self._language = self.folder.target_lang

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        source = self._language == self.folder.source_lang
        return (self.pipeline if source else self._target_pipeline).encode(text).split()

    def _convert_token_to_id(self, token: str) -> int:
        ids = self._ids[self._language]
        return ids.get(token, ids["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return _name(self._types[self._language], index)

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Return a sentence with its end symbol."""
        return [*token_ids_0, *(token_ids_1 or []), END]

    def _decode(self, token_ids: int | list[int], skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """Return the text of the target's numbers; without special symbols, an unknown word stays in it."""
        types = self._types[self.folder.target_lang]
        tokens = [_name(types, number) for number in ([token_ids] if isinstance(token_ids, int) else token_ids)]
        if not skip_special_tokens:
            return " ".join(tokens)
        return self.pipeline.decode(" ".join(token for token in tokens if token not in STRUCTURAL))

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Copy the files of the text steps, unless they are there, and return their paths."""
        settings, place = self.folder.text, Path(save_directory)
        dictionaries = (self.folder.dictionary(language).name for language in settings.languages)
        names = dict.fromkeys((RECORD, *text_files(settings), *dictionaries))
        for name in names if place.resolve() != self.folder.path.resolve() else ():
            shutil.copyfile(self.folder.path / name, place / name)
        return tuple((place / name).as_posix() for name in names)


def _name(types: list[str], number: int) -> str:
    """Return the type of a number; another number, such as transformers' -100 in labels, is unknown."""
    return types[number] if 0 <= number < len(types) else "<unk>"
