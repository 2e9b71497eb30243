"""The torch engine against fairseq's own search and scores, and against itself in two threads."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from support.checkpoints import config_of, load
from support.flow import GERMAN
from support.language_models import language_model, save_language_model
from support.models import batch, task
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines import padding
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.torch.fairseq_engine import TorchEngine, load_checkpoints
from deepnmt.errors import UserError
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.text.pipeline import TextPipeline
from deepnmt.translator import Translator
from deepnmt.translator.translator import rated_search

SETTINGS = {"beam": 3, "max_len_b": 12}
LINES = [*GERMAN, "", "Die Katze.", "Ein Hund, ein Haus, eine Katze und 3 % mehr!"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("torch") / "data")


@pytest.fixture(scope="module")
def paths(data: Path) -> list[Path]:
    plain = {"encoder_groups": "none", "decoder_groups": "none"}
    given = [{"encoder_groups": "0,1,3"}, plain]
    return [write_checkpoint(data.parent / f"{n}.pt", data, seed=n, **each) for n, each in enumerate(given)]


def engine(paths: list[Path], data: Path) -> TorchEngine:
    return load_checkpoints(paths, data, ("de", "en"), threads=1, device="cpu")


def fairseq_translations(path: Path, data: Path, beam: int, lenpen: float) -> list[str]:
    """By fairseq's search, one sentence at a time, and the text steps one by one."""
    words = Dictionary.load(str(data / "dict.de.txt"))
    state = load(path)
    model = DLCLTransformerModel.build_model(config_of(state), task(words)).eval()
    model.load_state_dict(state["model"])
    generator = SequenceGenerator([model], words, beam_size=beam, max_len_b=12, len_penalty=lenpen)
    pipeline = TextPipeline.read(data)
    found = []
    for line in LINES:
        tokens = [words.index(token) for token in pipeline.encode(line).split()]
        best = generator.forward({"net_input": batch([tokens], [[]])})[0][0] if tokens else {"tokens": torch.tensor([])}
        found.append(pipeline.decode(words.string(best["tokens"])))
    return found


def test_translations_are_those_of_fairseqs_search(paths: list[Path], data: Path) -> None:
    for path in paths:
        translator = Translator.from_checkpoint(path, data)
        for beam, lenpen in ((1, 1.0), (4, 0.5)):
            found = translator.translate(LINES, beam=beam, lenpen=lenpen, max_len_b=12, batch_size=2)
            assert found == fairseq_translations(path, data, beam, lenpen)
            assert len(set(found)) > 2
            assert found[3] == ""


@pytest.mark.parametrize("positions", [1, 9, 4096])
def test_scores_are_the_models_log_probabilities(
    positions: int, paths: list[Path], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of an ensemble, whose probabilities are the mean, and however many are scored at a time."""
    monkeypatch.setattr(padding, "POSITIONS", positions)
    words = Dictionary.load(str(data / "dict.de.txt"))
    pipeline = TextPipeline.read(data)
    sources = [pipeline.encode(line).split() for line in LINES if line]
    targets = [source[1 : 2 + number] for number, source in enumerate(sources)]
    each = [engine([path], data).score(sources, targets) for path in paths]
    mean = engine(paths, data).score(sources, targets)
    one = engine(paths[:1], data)
    for number, (source, target) in enumerate(zip(sources, targets)):
        inputs = batch([[words.index(x) for x in source]], [[words.index(x) for x in target]])
        with torch.no_grad():
            expected = one.models[0].double()(**inputs)[0].log_softmax(-1)[0]
        picked = expected[range(len(target) + 1), [*map(words.index, target), words.eos()]]
        assert (torch.tensor(each[0][number]) - picked).abs().max() < 1e-5
        both = torch.tensor([each[0][number], each[1][number]]).exp().mean(0).log()
        assert (torch.tensor(mean[number]) - both).abs().max() < 1e-5


def test_scores_of_hypotheses_follow_from_scores_of_tokens(paths: list[Path], data: Path) -> None:
    both = engine(paths, data)
    source = TextPipeline.read(data).encode(LINES[1]).split()
    found = both.search([source], SearchSettings(beam=3, nbest=3, lenpen=0.7, max_len_b=9))[0]
    assert len(found) == 3
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    for each in found:
        (scores,) = both.score([source], [each.tokens])
        assert each.score == pytest.approx(sum(scores) / len(scores) ** 0.7, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype, paths: list[Path], data: Path) -> None:
    """As on a GPU, of one model and of an ensemble."""
    sources = [TextPipeline.read(data).encode(line).split() for line in LINES if line]
    for some in (paths[:1], paths):
        exact, half = engine(some, data), engine(some, data)
        for model in half.models:
            model.to(dtype)
        targets = [found[0].tokens for found in exact.search(sources, SearchSettings(max_len_b=12))]
        pairs = zip(exact.score(sources, targets), half.score(sources, targets))
        differences = [abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True)]
        assert 0 < max(differences) < (0.05 if dtype == torch.float16 else 0.5)
        both = zip(*(each.search(sources, SearchSettings(max_len_b=12)) for each in (exact, half)))
        same = [(one[0].score, other[0].score) for one, other in both if one[0].tokens == other[0].tokens]
        assert same
        assert max(abs(one - other) for one, other in same) < (0.02 if dtype == torch.float16 else 0.2)


@pytest.mark.parametrize(("device", "calls"), [("cuda", ["half", "cuda"]), ("cpu", ["cpu"])])
def test_only_a_gpu_computes_in_half_precision(device: str, calls: list[str]) -> None:
    made: list[str] = []

    class Model:
        """Tells what becomes of it."""

        decoder = None

        def make_generation_fast_(self, **options: object) -> None:
            pass

        def half(self) -> None:
            made.append("half")

        def to(self, to: torch.device) -> Model:
            made.append(str(to))
            return self

        def eval(self) -> None:
            pass

        def max_positions(self) -> tuple[int, int]:
            return 20, 30

    fairseqs = SimpleNamespace(
        source_dictionary=None, target_dictionary=None, cfg=SimpleNamespace(left_pad_source=True)
    )
    found = TorchEngine([Model()], fairseqs, Path(), device)
    assert made == calls
    assert (found.longest, found.longest_target) == (19, 29)


def test_two_threads_give_what_one_gives(paths: list[Path], data: Path) -> None:
    translator = Translator.from_checkpoint(paths[0], data)
    lines = LINES * 4
    expected = {beam: translator.translate(lines, beam=beam, max_len_b=12, batch_size=4) for beam in (1, 3)}
    assert expected[1] != expected[3]
    found: dict[int, list[list[str]]] = {1: [], 3: []}
    start = threading.Barrier(2)

    def work(beam: int) -> None:
        start.wait()
        for _ in range(4):
            found[beam].append(translator.translate(lines, beam=beam, max_len_b=12, batch_size=4))

    threads = [threading.Thread(target=work, args=(beam,)) for beam in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {beam: [expected[beam]] * 4 for beam in found}


def test_a_language_model_helps(paths: list[Path], data: Path, tmp_path: Path) -> None:
    """Its weight times log P of the translation is added to the model's sum; it is loaded once."""
    words = Dictionary.load(str(data / "dict.en.txt"))
    path = save_language_model(tmp_path, words)
    both, source = engine(paths, data), TextPipeline.read(data).encode(LINES[1]).split()
    for weight in (0.0, 0.4):
        more: dict[str, Any] = {"lm_path": str(path), "lm_weight": weight}
        settings = SearchSettings(beam=3, nbest=3, lenpen=0.0, max_len_b=9, more=more)
        both.check(settings)
        for each in both.search([source], settings)[0]:
            (scores,) = both.score([source], [each.tokens])
            numbers = [*map(words.index, each.tokens), words.eos()]
            with torch.no_grad():
                table = language_model(words)(torch.tensor([[words.eos(), *numbers[:-1]]]))[0].log_softmax(-1)[0]
            fluency = float(table[range(len(numbers)), numbers].sum())
            assert each.score == pytest.approx(sum(scores) + weight * fluency, abs=1e-3)
    loaded = both._language_model(str(path))
    assert both._language_model(str(path)) is loaded
    # An engine with a long life, and many of them, does not fill the memory.
    other = tmp_path / "other" / "lm.pt"
    other.parent.mkdir()
    for name in (path.name, "dict.txt"):
        shutil.copy(tmp_path / name, other.parent)
    assert both._language_model(str(other)) is not loaded
    assert both._fused is not None
    assert both._fused[0] == str(other)
    (tmp_path / "dict.txt").unlink()
    for refused, message in (
        ({"lm_path": str(other), "lm_weight": "-1"}, r"^--lm-weight: must be at least 0, but is -1.0$"),
        ({"lm_weight": 0.5}, r"^--lm-weight 0.5 needs --lm-path$"),
        ({"lm_path": str(other), "lm_weight": "x"}, r"^--lm-weight: must be a number, but is x$"),
        ({"lm_path": "none.pt"}, r"^none\.pt: no such checkpoint$"),
        ({"lm_path": str(path)}, r"^--lm-path: dict.txt, the dictionary of the language model, must be in "),
    ):
        with pytest.raises(UserError, match=message):
            both.check(SearchSettings(more=refused))


@pytest.mark.parametrize("options", [{}, {"ensemble_weights": "0.9,0.1"}, {"ensemble_rule": "log-linear"}, {"lm": 0.4}])
def test_weights_rate_what_the_search_has_added_up(
    options: dict[str, Any], paths: list[Path], data: Path, tmp_path: Path
) -> None:
    """As in n-best lists, with which they were tuned."""
    both, source = engine(paths, data), TextPipeline.read(data).encode(LINES[1]).split()
    more = dict(options)
    if "lm" in more:
        words = Dictionary.load(str(data / "dict.en.txt"))
        more = {"lm_path": str(save_language_model(tmp_path, words)), "lm_weight": more["lm"]}
    settings = SearchSettings(beam=3, nbest=3, lenpen=0.0, max_len_b=9, more=more)
    # Without a length penalty, a score is the sum.
    (expected,) = both.search([source], settings)
    (found,) = rated_search(both, [source], replace(settings, rerank="model=1,length=0"))
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-4)
    plain = [sum(scores) for scores in both.score([source] * 3, [each.tokens for each in found])]
    apart = max(abs(one - each.score) for one, each in zip(plain, found))
    assert apart > 1e-2 if more else apart < 1e-4


def test_folders_may_have_colons_in_their_names(paths: list[Path], data: Path, tmp_path: Path) -> None:
    """In fairseq's options a colon ends a folder's name."""
    odd = tmp_path / "2026-11-28T10:00"
    shutil.copytree(data, odd / "data")
    copies = [Path(shutil.copy(path, odd / path.name)) for path in paths]
    more = {"lm_path": str(save_language_model(odd, Dictionary.load(str(data / "dict.en.txt")))), "lm_weight": 0.4}
    settings = SearchSettings(beam=3, nbest=3, max_len_b=9, more=more)
    source = TextPipeline.read(data).encode(LINES[1]).split()
    (expected,) = engine(paths, data).search([source], settings)
    assert len(expected) == 3
    found = engine(copies, odd / "data")
    assert found.search([source], settings) == [expected]
    # The dictionary of the language model may be beside the translation model's.
    (odd / "dict.txt").rename(odd / "data" / "dict.txt")
    assert engine(copies, odd / "data").search([source], settings) == [expected]


def test_a_language_model_is_not_read_beyond_its_positions(paths: list[Path], data: Path, tmp_path: Path) -> None:
    words, five = Dictionary.load(str(data / "dict.en.txt")), {"max_target_positions": 5, "tokens_per_sample": 5}
    path = save_language_model(tmp_path, words, decoder_learned_pos=True, **five)
    translator = Translator.from_checkpoint(paths[0], data)
    (plain,) = translator.nbest(LINES[1:2], 3, beam=3, max_len_b=9)
    (fused,) = translator.nbest(LINES[1:2], 3, beam=3, max_len_b=9, lm_path=str(path), lm_weight=0.01)
    # The end symbol takes a position.
    assert max(len(each.tokens) for each in plain) > 4
    assert max(len(each.tokens) for each in fused) == 4


def test_all_faults_at_once_before_anything_is_translated(paths: list[Path], data: Path) -> None:
    translator = Translator.from_checkpoint(paths[0], data)
    given = {"prune_gap": "much", "bem": 3, "beam": 0, "min_len_ratio": 2.0, "max_len_ratio": "1", "lm_weight": 1.0}
    with pytest.raises(UserError, match=r"^--beam") as error:
        translator.settings(**given)  # type: ignore[arg-type]
    assert [line.split(" ")[0] for line in str(error.value).splitlines()] == [
        "--beam",
        "--prune-gap:",
        "bem:",
        "--lm-weight",
        "--min-len-ratio:",
    ]


def test_the_packages_own_options(paths: list[Path], data: Path) -> None:
    translator = Translator.from_checkpoint(paths[0], data)
    plain = translator.nbest(LINES[:2], 3, **SETTINGS)
    other = translator.nbest(LINES[:2], 3, **SETTINGS, length_penalty="gnmt")
    both = [(one, two) for pair in zip(plain, other) for one in pair[0] for two in pair[1] if one.tokens == two.tokens]
    assert both
    for before, after in both:
        length = len(before.tokens) + 1
        assert after.score == pytest.approx(before.score * length / ((5 + length) / 6), rel=1e-4)
    words = len(TextPipeline.read(data).encode(LINES[1]).split())
    short = translator.nbest(LINES[1:2], 3, **SETTINGS, max_len_ratio=0.1)[0]
    assert max(len(each.tokens) for each in short) <= 0.1 * words < max(len(each.tokens) for each in plain[1])
    for options, message in (
        ({"length_penalty": "wu"}, r"--length-penalty: must be as docs/search\.md says, but is wu"),
        ({"bem": 3}, r"bem: no such search option"),
        ({"prune_gap": "much"}, r"--prune-gap: must be as docs/search\.md says, but is much"),
        ({"coverage": "gnmt"}, r"--coverage needs --coverage-weight"),
    ):
        with pytest.raises(UserError, match=message):
            translator.translate("Hund", **options)  # type: ignore[arg-type]


def test_a_checkpoint_of_the_other_direction_translates_it(data: Path, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "back.pt", data)
    state = load(path)
    state["cfg"]["task"] |= {"source_lang": "en", "target_lang": "de"}
    torch.save(state, path)
    assert Translator.from_checkpoint(path, data).pipeline.settings.languages == ("en", "de")
