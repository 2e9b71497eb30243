"""Options that one of fairseq's commands would ignore are one line; --sacrebleu and --replace-unk do what they say."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from support.models import dictionary

import deepnmt  # noqa: F401  puts the checks in place
from deepnmt.errors import UserError

PARSERS: dict[str, Callable[[], Any]] = {
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
    "fairseq-validate": options.get_validation_parser,
    "fairseq-eval-lm": options.get_eval_lm_parser,
    "fairseq-train": options.get_training_parser,
}


@pytest.fixture(autouse=True)
def no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq"])


def parse(command: str, *given: str) -> Any:
    more = ["--arch=transformer"] if command == "fairseq-train" else []
    more += ["--task=translation"] if command == "fairseq-validate" else []
    return options.parse_args_and_arch(PARSERS[command](), ["data", *more, *given])


FP32 = "computes in FP32, or with --fp16 in FP16"
NO_REFERENCE = "has no reference translations"
REFUSED = [
    ("fairseq-generate", ["--bf16"], f"--bf16: fairseq-generate ignores it and {FP32}"),
    ("fairseq-validate", ["--amp"], f"--amp: fairseq-validate ignores it and {FP32}"),
    ("fairseq-eval-lm", ["--memory-efficient-bf16"], f"--bf16: fairseq-eval-lm ignores it and {FP32}"),
    (
        "fairseq-generate",
        ["--num-shards=2"],
        "--num-shards: fairseq-generate ignores it and shares its sentences out by --distributed-world-size and "
        "--distributed-rank",
    ),
    ("fairseq-validate", ["--num-shards=2"], "--num-shards: fairseq-validate ignores it and takes all sentences"),
    (
        "fairseq-generate",
        ["--eos-token=x"],
        "--eos-token: fairseq-generate ignores it and ends translations with the dictionary's symbol",
    ),
    ("fairseq-interactive", ["--sacrebleu"], f"--sacrebleu: fairseq-interactive ignores it and {NO_REFERENCE}"),
    ("fairseq-interactive", ["--scoring=chrf"], f"--scoring: fairseq-interactive ignores it and {NO_REFERENCE}"),
    (
        "fairseq-interactive",
        ["--score-reference"],
        f"--score-reference: fairseq-interactive ignores it and {NO_REFERENCE}",
    ),
    ("fairseq-interactive", ["--prefix-size=2"], f"--prefix-size: fairseq-interactive ignores it and {NO_REFERENCE}"),
    (
        "fairseq-interactive",
        ["--results-path=x"],
        "--results-path: fairseq-interactive ignores it and writes to standard output",
    ),
    ("fairseq-validate", ["--quiet"], "--quiet: fairseq-validate ignores it and prints its results"),
    (
        "fairseq-interactive",
        ["--replace-unk"],
        "--replace-unk: fairseq-interactive ignores it and does not keep the unknown words of its input: use "
        "fairseq-generate --dataset-impl raw",
    ),
    (
        "fairseq-interactive",
        ["--print-alignment=soft"],
        "--print-alignment must be hard with fairseq-interactive, but is soft, which fairseq-generate prints",
    ),
    (
        "fairseq-interactive",
        ["--lm-path=x.pt"],
        "--lm-path needs --task deep_translation with fairseq-interactive, which ignores it otherwise",
    ),
    (
        "fairseq-generate",
        ["--replace-unk", "--post-process"],
        "--replace-unk cannot be combined with --post-process, which moves the words that were aligned",
    ),
]


@pytest.mark.parametrize(("command", "given", "message"), REFUSED, ids=str)
def test_refused(command: str, given: list[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as error:
        parse(command, *given)
    assert message in str(error.value).splitlines()


def test_where_they_act_they_are_taken() -> None:
    taken = ["--score-reference", "--prefix-size=2", "--results-path=x", "--quiet", "--print-alignment=soft"]
    assert parse("fairseq-generate", *taken).prefix_size == 2
    assert parse("fairseq-interactive", "--print-alignment", "--nbest=2").nbest == 2
    assert parse("fairseq-interactive", "--task=deep_translation", "--lm-path=x.pt").lm_path == "x.pt"
    assert parse("fairseq-eval-lm", "--num-shards=2", "--shard-id=1").shard_id == 1
    assert parse("fairseq-train", "--bf16", "--num-shards=2").bf16


def test_sacrebleu_of_generate_is_its_scoring() -> None:
    assert convert_namespace_to_omegaconf(parse("fairseq-generate", "--sacrebleu")).scoring._name == "sacrebleu"
    assert convert_namespace_to_omegaconf(parse("fairseq-generate")).scoring._name == "bleu"
    chosen = convert_namespace_to_omegaconf(parse("fairseq-generate", "--sacrebleu", "--scoring=chrf"))
    assert chosen.scoring._name == "chrf"


def test_unknown_words_are_replaced_by_what_they_are_aligned_to(tmp_path: Path) -> None:
    words = dictionary(4)
    hypothesis = words.encode_line("w0 <unk> <unk>", append_eos=True, add_if_not_exist=False)
    alignment = [(2, 0), (0, 1), (1, 2)]
    lexicon = tmp_path / "lexicon"
    lexicon.write_text("zwei two\n")
    for given, wanted in (("@@ ", "w0 Anna zwei"), (str(lexicon), "w0 Anna two")):
        found = utils.post_process_prediction(
            hypothesis, "Anna zwei w1", alignment, utils.load_align_dict(given), words, extra_symbols_to_ignore={2}
        )
        assert found[1] == wanted
    assert utils.load_align_dict(None) is None
