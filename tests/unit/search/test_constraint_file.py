"""`--constraint-file`: every translation has what it must have, as words of their own."""

from __future__ import annotations

import random
from argparse import Namespace
from pathlib import Path

import pytest
from support.cut_data import cut_folder
from support.searched_models import model

from deepnmt.errors import UserError
from deepnmt.text.subwords import join_bpe
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut_folder(tmp_path_factory.mktemp("cut") / "data")


def task(data: Path, constraints: Path) -> DeepTranslationTask:
    options = {"source_lang": "de", "target_lang": "en", "dataset_impl": "mmap", "required_seq_len_multiple": 1}
    return DeepTranslationTask.setup_task(
        DeepTranslationConfig(data=str(data), constraint_file=str(constraints), **options)
    )


def test_each_translation_has_its_terms(data: Path, tmp_path: Path) -> None:
    draw = random.Random(2)
    types = [line.split()[0] for line in (data / "dict.en.txt").read_text().splitlines()]
    ends, inner = ([name for name in types if name.endswith("@@") == marked] for marked in (False, True))
    terms = [[" ".join([*draw.choices(inner, k=draw.randint(0, 2)), draw.choice(ends)]) for _ in range(n)] for n in
             (1, 0, 2, 3, 1, 2)]  # fmt: skip
    (tmp_path / "constraints").write_text("".join("\t".join(each) + "\n" for each in terms))
    made = task(data, tmp_path / "constraints")
    made.load_dataset("valid")
    random_model = model({}, made.tgt_dict)
    generator = made.build_generator(
        [random_model], Namespace(beam=8, constraints="unordered", max_len_a=0, max_len_b=40)
    )
    dataset = made.dataset("valid")
    sample = dataset.collater([dataset[number] for number in range(len(dataset))])
    found = made.inference_step(generator, [random_model], sample, constraints=sample["constraints"])
    for number, hypotheses in zip(sample["id"].tolist(), found):
        tokens = join_bpe(made.tgt_dict.string(hypotheses[0]["tokens"]))
        assert all(f" {join_bpe(term)} " in f" {tokens} " for term in terms[number])


def test_refusals(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "constraints"
    path.write_text("\n" * 6)
    with pytest.raises(UserError, match="--constraint-file needs --constraints unordered"):
        task(data, path).build_generator([], Namespace(beam=2))
    # fairseq-interactive and fairseq-train would not read it.
    message = r"^--constraint-file: must be given to fairseq-generate alone$"
    with pytest.raises(UserError, match=message):
        task(data, path).build_dataset_for_inference([], [])
    with pytest.raises(UserError, match=message):
        task(data, path).load_dataset("train", combine=True)
    path.write_text("\n" * 5)
    with pytest.raises(UserError, match=r"constraints: must have a line for each of the 6 sentences, but has 5"):
        task(data, path).load_dataset("valid")
    path.write_text("\nxyz\n")
    with pytest.raises(UserError, match=r"constraints:2: must have subwords of the dictionary alone, but has 'xyz'"):
        task(data, path).load_dataset("valid")
