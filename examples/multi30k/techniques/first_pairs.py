"""A data folder with the first pairs of another's validation and test sets, to try the measurements."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from deepnmt.text.data_folder import check_dictionaries
from deepnmt.text.index_file import binarise
from deepnmt.text.lines import whole_text
from deepnmt.text.settings import RECORD, TextSettings
from deepnmt.text.translated_folder import lines_of, write_text


def first_pairs(data: Path, count: int, dest: Path, subsets: tuple[str, ...] = ("valid", "test")) -> None:
    """Write the folder, unless it is there."""
    if (dest / RECORD).exists():
        return
    source, target = languages = TextSettings.read(data).languages
    check_dictionaries(data, languages)
    (dest / "text").mkdir(parents=True, exist_ok=True)
    for language in languages:
        shutil.copyfile(data / f"dict.{language}.txt", dest / f"dict.{language}.txt")
        words = [line.rpartition(" ")[0] for line in lines_of(data / f"dict.{language}.txt")]
        for subset in subsets:
            for kind in ("bpe", "tok", "raw"):
                text = data / "text" / f"{subset}.{kind}.{language}"
                if text.exists():
                    write_text(dest / "text" / text.name, lines_of(text)[:count])
            prefix = str(dest / f"{subset}.{source}-{target}.{language}")
            types = ["<s>", "<pad>", "</s>", "<unk>", *words]
            binarise(dest / "text" / f"{subset}.bpe.{language}", prefix, types)
    shutil.copyfile(data / "codes", dest / "codes")
    record = json.loads(whole_text(data / RECORD))
    record = {key: value for key, value in record.items() if key not in ("files", "counts", "inputs")}
    (dest / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
