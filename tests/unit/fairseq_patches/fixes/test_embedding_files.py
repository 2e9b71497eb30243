"""Files of embeddings: what fairseq's models read from them, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary
from support.models import SIZE, dictionary, task
from torch import nn

from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel


def written(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def table(width: int = 3, types: Dictionary | None = None) -> nn.Embedding:
    return nn.Embedding(len(types or dictionary()), width)


@pytest.mark.parametrize("header", ["", "3 2\n", "7 2\n"], ids=["none", "right", "other number"])
def test_each_type_has_its_vector(header: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "a.vec", f"{header}w0 1 2\nw1 -0.5 1e-1\nwörter 3 4\n")
    vectors = utils.parse_embedding(path)
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "w0": [1.0, 2.0],
        "w1": [-0.5, pytest.approx(0.1)],
        "wörter": [3.0, 4.0],
    }
    assert [record.message for record in caplog.records] == (
        [f"{path}: the first line announces 7 types, but 3 follow"] if header == "7 2\n" else []
    )
    types, weights = dictionary(), table(2)
    before = weights.weight.detach().clone()
    utils.load_embedding(vectors, types, weights)
    assert weights.weight[types.index("w0")].tolist() == [1.0, 2.0]
    torch.testing.assert_close(weights.weight[types.index("w2")], before[types.index("w2")])


FAULTS = {
    "empty": ("", r"{path}: embeddings must have a line for each type, but there is none", StopIteration),
    "header alone": ("2 3\n", r"{path}: embeddings must have a line for each type, but there is none", StopIteration),
    "header of words": (
        "types width\nw0 1 2\n",
        r"{path}:1: must be a type and finite numbers between spaces, but is 'types width'",
        ValueError,
    ),
    "header of another width": ("2 3\nw0 1 2\n", r"{path}:2: must have 3 numbers, .* but has 2", RuntimeError),
    "a shorter line": ("w0 1 2\nw1 1\n", r"{path}:2: must have 2 numbers, as the lines above say, .*1", RuntimeError),
    "a type alone": ("w0 1\nw1\n", r"{path}:2: must be a type and finite numbers .*, but is 'w1'", ValueError),
    "a type with a space": ("w 0 1\nw0 x 1\n", r"{path}:2: must be a type and .*, but is 'w0 x 1'", ValueError),
    "not a number": ("w0 1 nan\n", r"{path}:1: must be a type and finite numbers .*, but is 'w0 1 nan'", ValueError),
    "infinite": ("w0 1 -inf\n", r"{path}:1: must be a type and finite numbers .*, but is 'w0 1 -inf'", ValueError),
}


@pytest.mark.parametrize(("text", "message", "kind"), FAULTS.values(), ids=FAULTS)
def test_faulty_files(text: str, message: str, kind: type[Exception], tmp_path: Path) -> None:
    path = written(tmp_path / "a.vec", text)
    with pytest.raises(UserError, match=f"^{message.format(path=path)}$") as error:
        utils.parse_embedding(path)
    assert isinstance(error.value, kind)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "no.vec"
    with pytest.raises(FileNotFoundError, match=f"^embeddings cannot be read: {missing}: No such file or directory$"):
        utils.parse_embedding(str(missing))
    with pytest.raises(UserError, match=f"^embeddings cannot be read: {tmp_path}: Is a directory$"):
        utils.parse_embedding(str(tmp_path))
    other = tmp_path / "a.vec"
    other.write_bytes(b"\xfc w 1\n")
    with pytest.raises(UserError, match=f"^{other}: embeddings must be UTF-8, but are not$"):
        utils.parse_embedding(str(other))


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("width", [1, 5, 17])
def test_vectors_of_another_width_than_the_model(stack: str, width: int, tmp_path: Path) -> None:
    path = written(tmp_path / "a.vec", f"w0 {' '.join(['1'] * width)}\n")
    config = DLCLTransformerConfig(**SIZE, **{f"{stack}_embed_path": path})
    message = rf"^{path}: embeddings must have 16 numbers a type, as the model's \(.*\), but have {width}$"
    with pytest.raises(UserError, match=message) as error:
        DLCLTransformerModel.build_model(config, task())
    assert isinstance(error.value, RuntimeError)


def test_no_type_of_the_dictionary(tmp_path: Path) -> None:
    path, embedding = written(tmp_path / "a.vec", "other 1 2\n</s> 3 4\n"), table(2)
    before = embedding.weight.detach().clone()
    with pytest.raises(UserError, match=r"a\.vec cannot be used .*: it has no vector for any of its 20 types$"):
        utils.load_embedding(utils.parse_embedding(path), dictionary(), embedding)
    assert embedding.weight.equal(before)
