"""Recipes of progressive training: their stages, groups by default, and faults."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deepnmt import recipe
from deepnmt.errors import UserError
from deepnmt.progressive import Stage, plan_stages, stages
from deepnmt.recipe.recipe_file import _read_file

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "configs" / "progressive"
SHARED = {"wmt14.yaml"}  # by other recipes: it lists no stages
TOP = {"arch": "dlcl_transformer_tiny", "optimizer": "adam", "lr-scheduler": "inverse_sqrt_reset", "max-tokens": "100"}


def write(folder: Path, *entries: str, **top: str) -> Path:
    """A recipe with one stage an entry, written as `encoder-layers: 2, max-update: 4`, and further options of all."""
    path = folder / "recipe.yaml"
    options = {**TOP, **{key.replace("_", "-"): value for key, value in top.items()}}
    listed = "".join(f"  - {{{entry}}}\n" for entry in entries)
    path.write_text(f"{yaml.safe_dump(options)}stages:\n{listed}", encoding="utf-8")
    return path


def groups(planned: list[Stage], stack: str = "encoder") -> list[str]:
    return [getattr(stage.config, f"{stack}_groups") for stage in planned]


# Stages of a recipe


@pytest.mark.parametrize(
    ("depths", "expected"),
    [
        ([6, 12, 24, 48], ["6", "6", "6", "6"]),
        ([6, 12, 18, 24], ["6", "6", "6", "6"]),
        ([6, 12, 21], ["6", "6", "6"]),
        ([6, 12, 21, 27], ["6", "6", "6", "0,6,12,18,21,27"]),
        ([4, 10, 16], ["0,4", "0,4,10", "0,4,10,16"]),
        ([6, 6, 12], ["6", "6", "6"]),
        ([6, 8, 16], ["2", "2", "2"]),
    ],
)
def test_a_group_is_the_growth_step(depths: list[int], expected: list[str]) -> None:
    assert stages.default_groups(depths) == expected


# Depth, end, groups and strategy of each stage.
STEPS = [(6, 2), (12, 4), (18, 6), (24, 8), (30, 10), (36, 13), (42, 16), (48, 21)]
EXPECTED: dict[str, tuple[list[tuple[int, int]], str, str]] = {
    "wmt14_by_six": (STEPS, "max-epoch", "6"),
    "wmt14_doubling": ([(6, 2), (12, 4), (24, 8), (48, 21)], "max-epoch", "6"),
    "iwslt14": ([(6, 15), (12, 30), (24, 60)], "max-epoch", "6"),
    "multi30k": ([(6, 600), (12, 1200), (24, 2400)], "max-update", "6"),
    "multi30k_frozen": ([(6, 600), (12, 1200), (24, 2400)], "max-update", "6"),
}
FILES = sorted(FOLDER.glob("*.yaml"))
RECIPES = [path for path in FILES if path.name not in SHARED]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes(path: Path) -> None:
    planned = plan_stages(path)
    ends, key, size = EXPECTED[path.stem]
    assert [(stage.config.encoder_layers, stage.end(key)) for stage in planned] == ends
    assert groups(planned) == [size] * len(ends)
    assert set(groups(planned, "decoder")) == {"none"}
    doubled = [new == 2 * old for (old, _), (new, _) in zip(ends, ends[1:])]
    assert [stage.growth.strategy for stage in planned if stage.growth] == ["stack" if d else "top" for d in doubled]
    assert not any(stage.flag("keep-schedule") for stage in planned)
    if path.stem.startswith("wmt14"):
        text = recipe.read_stages(path).options
        assert (text["lr"].value, text["warmup-updates"].value) == ("0.002", "8000")


def test_number_of_recipes_and_their_headers() -> None:
    assert {path.stem for path in RECIPES} == EXPECTED.keys()
    assert len(FILES) == 6
    for path in FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        header = [line for line in lines if line.startswith("#")]
        own = [line for line in lines if line[:1].isalpha() and not line.startswith("extends:")]
        assert len([line for line in own if " # " in line]) >= 0.5 * len(own)
        if path in RECIPES:
            assert any(f"deepnmt train-progressive progressive/{path.stem} " in line for line in header)
            assert any("ublished" in line for line in header)
        whole = recipe.read_stages(path)
        if "extends: " in path.read_text(encoding="utf-8"):
            base = recipe.read_stages(path.parent / _read_file(path).options["extends"].value)
            mine = _read_file(path)
            assert not [key for key in mine.options if key in base.options and mine.options[key] == base.options[key]]
            assert whole.stages != base.stages or not mine.stages


def test_a_stage_wins_over_the_recipe_and_the_command_line_over_both(tmp_path: Path) -> None:
    first, second = plan_stages(
        write(
            tmp_path,
            "encoder-layers: 2, max-update: 4, lr: 0.1",
            "encoder-layers: 5, max-update: 8, strategy: repeat-top, max-tokens: 50, average: 2",
            average="3",
            dropout="0.3",
            lr="0.01",
            function_preserving="true",
            translate="--beam 2",
            keep_schedule="false",
        ),
        ["--batch-size", "9", "--dropout=0.2"],
    )
    assert (first.options["lr"].value, second.options["lr"].value) == ("0.1", "0.01")
    assert first.own == {"average": "3", "function-preserving": "true", "translate": "--beam 2"}
    assert second.own == {**first.own, "average": "2", "strategy": "repeat-top"}
    assert (first.batch, second.batch) == ((100, 9), (50, 9))
    assert {first.config.dropout, second.config.dropout} == {0.2}
    assert first.growth is None
    assert second.growth is not None
    assert (second.growth.strategy, second.growth.function_preserving) == ("repeat-top", True)
    assert not {"strategy", "average", "translate", "function-preserving", "keep-schedule"} & second.options.keys()
    assert (first.name, second.name) == ("stage-1-2", "stage-2-5")


def test_batches_and_groups_of_a_stage(tmp_path: Path) -> None:
    own = "batch-size: 7, update-freq: 3, dropout: 0.4, encoder-groups: '0,2,4', decoder-layers: 3"
    own += ", decoder-groups: '0,1,3'"
    first, second = plan_stages(
        write(
            tmp_path,
            "encoder-layers: 2, decoder-layers: 1, max-epoch: 1",
            f"encoder-layers: 4, {own}, max-epoch: 2",
            update_freq="2",
            encoder_groups="2",
            decoder_groups="1",
        )
    )
    assert [stage.options["update-freq"].value for stage in (first, second)] == ["2", "3"]
    assert (first.batch, second.batch) == ((100, None), (100, 7))
    assert (first.config.dropout, second.config.dropout) == (0.1, 0.4)
    assert [(stage.config.encoder_groups, stage.config.decoder_groups) for stage in (first, second)] == [
        ("2", "1"),
        ("0,2,4", "0,1,3"),
    ]


def test_both_stacks_grow_and_each_has_its_groups(tmp_path: Path) -> None:
    planned = plan_stages(
        write(
            tmp_path,
            "encoder-layers: 2, decoder-layers: 1, max-update: 4",
            "encoder-layers: 4, decoder-layers: 2, max-update: 8",
            "encoder-layers: 6, decoder-layers: 2, max-epoch: 8",
        )
    )
    assert (groups(planned), groups(planned, "decoder")) == (["2"] * 3, ["1"] * 3)
    assert [stage.growth.depths for stage in planned if stage.growth] == [{"encoder": 4, "decoder": 2}, {"encoder": 6}]
    assert [stage.growth.strategy for stage in planned if stage.growth] == ["stack", "top"]


def test_groups_that_are_given_stay_and_a_plain_architecture_stays_plain(tmp_path: Path) -> None:
    two = ("encoder-layers: 2, max-update: 4", "encoder-layers: 4, max-update: 8, encoder-groups: '0,2,4'")
    assert groups(plan_stages(write(tmp_path, *two))) == ["2", "0,2,4"]
    assert groups(plan_stages(write(tmp_path, *two, encoder_groups="0,2"))) == ["0,2", "0,2,4"]
    plain = plan_stages(write(tmp_path, ONE, TWO, arch="dlcl_transformer_skip_iwslt_de_en"))
    assert groups(plain) == ["none", "none"]


ONE, TWO = "encoder-layers: 2, max-update: 4", "encoder-layers: 4, max-update: 8"
FAULTY: dict[str, tuple[tuple[str, ...], dict[str, str], list[str], str]] = {
    "no end": (("encoder-layers: 2",), {}, [], "stage 1: one of max-update, max-epoch, patience must be at least 1"),
    "shallower": ((TWO, "encoder-layers: 2, max-update: 9"), {}, [],
                  "stage 2: --encoder-layers must be above the present depth, 4, but is 2"),
    "same depth": ((ONE, "encoder-layers: 2, max-update: 9"), {}, [],
                   r"stage 2: encoder-layers or decoder-layers must be above .* \(encoder 2 and decoder 4\)"),
    "no layers": (("encoder-layers: 0, max-update: 9",), {}, [], "stage 1: --encoder-layers must be from 1 to 10"),
    "unreachable": ((ONE, "encoder-layers: 5, max-update: 9"), {}, [],
                    "stage 2: --encoder-layers must be at most twice the present depth, 2, with --strategy top"),
    "no multiple": ((ONE, "encoder-layers: 5, max-update: 9, strategy: stack"), {}, [],
                    "stage 2: --encoder-layers must be a multiple of the present depth, 2, with --strategy stack"),
    "unknown strategy": ((ONE, TWO + ", strategy: fold"), {}, [],
                         "stage 2: strategy must be one of stack, top, repeat-top, interleave, but is fold"),
    "flag": ((ONE, TWO + ", carry-moments: 'yes'"), {}, [], "stage 2: carry-moments must be true or false, but is yes"),
    "beam": ((ONE, TWO), {"translate": "--beam 1000"}, [],
             "stage 1: translate must be options of fairseq-generate, with a --beam from 1 to 256, but is --beam 1000"),
    "average": ((ONE, TWO + ", average: two"), {}, [], "stage 2: average must be a number of checkpoints of"),
    "average kept": ((ONE, TWO), {"average": "5", "keep-last-epochs": "3"}, [],
                     "stage 1: average must be at most the 3 checkpoints that are kept, but is 5"),
    "groups too large": ((ONE, TWO), {"encoder-groups": "3"}, [],
                         "stage 1: --encoder-groups: must be from 1 to the depth, 2, but is 3"),
    "groups that cut": ((TWO, "encoder-layers: 8, max-update: 9, encoder-groups: 3"), {}, [],
                        "stage 2: --encoder-groups must end a group after layer 4, where a present one ends"),
    "plain no more": ((ONE + ", encoder-groups: none", TWO + ", encoder-groups: 2"), {}, [],
                      "stage 2: --encoder-groups must be none as before, but is '2'"),
    "updates": ((TWO, "encoder-layers: 8, max-update: 8"), {}, [],
                "stage 2: max-update counts from the first stage on and must be above the 8 of the one before"),
    "epochs": (("encoder-layers: 2, max-epoch: 3, patience: 1", "encoder-layers: 4, max-epoch: 2"), {}, [],
               "stage 2: max-epoch counts from the first stage on and must be above the 3 of the one before"),
    "save interval": (("encoder-layers: 2, max-epoch: 3",), {"save-interval": "2"}, [],
                      "stage 1: max-epoch must be a multiple of save-interval 2, but is 3"),
    "schedule": ((ONE, TWO), {"lr-scheduler": "inverse_sqrt"}, [],
                 "stage 2: lr-scheduler must be inverse_sqrt_reset, or keep-schedule be true, but it is inverse_sqrt"),
    # What holds is fairseq's last word, whether recipe or command line says it.
    "save interval on the command line": (("encoder-layers: 2, max-epoch: 4",), {"save-interval": "2"},
                                          ["--save-interval", "3"],
                                          "stage 1: max-epoch must be a multiple of save-interval 3, but is 4"),
    "average kept on the command line": ((ONE, TWO), {"average": "4"}, ["--keep-last-epochs=2"],
                                         "stage 1: average must be at most the 2 checkpoints that are kept, but is 4"),
    "updates kept on the command line": ((ONE, TWO), {"average": "4", "keep-interval-updates": "9"},
                                         ["--keep-interval-updates", "3"],
                                         "stage 1: average must be at most the 3 checkpoints that are kept, but is 4"),
    "another name of what is staged": ((ONE, TWO + ", batch-size: 5"), {}, ["--max-sentences", "7"],
                                       "^--max-sentences must be set in .*recipe.yaml, which lists the stages"),
    "another name of what is taken": ((ONE, TWO), {}, ["--save-async"], "^--save-async must not be set in progressive"),
    "the same in the recipe": ((ONE, TWO), {"save-async": "true"}, [], r"recipe.yaml:\d: 'save-async' must not be set"),
    "asynchronous": ((ONE, TWO), {"write-checkpoints-asynchronously": "true"}, [],
                     r"recipe.yaml:\d: 'write-checkpoints-asynchronously' must not be set in progressive"),
    "suffix": ((ONE, TWO), {"checkpoint-suffix": "x"}, [], r"recipe.yaml:\d: 'checkpoint-suffix' must not be set in"),
    # What growing would refuse.
    "two-sided": ((ONE, TWO), {}, ["--two-sided", "--criterion=label_smoothed_cross_entropy_two_sided"],
                  "stage 2: two-sided must be false, but is true; such a model cannot grow"),
    "base layers": ((ONE, TWO), {"base-layers": "1", "decoder-groups": "none"}, [],
                    "stage 2: base-layers must be 0, but is 1; such a model cannot grow"),
    "layers to keep": ((ONE, TWO), {"encoder-groups": "none", "encoder-layers-to-keep": "0,1"}, [],
                       "stage 2: --encoder-layers-to-keep must not be given: deepnmt shrink --encoder-keep takes"),
    "several optimizers": ((ONE, TWO), {"optimizer": "composite"}, [],
                           "stage 2: optimizer must be one for all parameters, .* but is composite"),
    "factored moments": ((ONE, TWO), {"carry-moments": "true"}, ["--optimizer", "adafactor"],
                         "stage 2: optimizer must have moments of its parameters' shapes, .* but is adafactor"),
    "key": ((ONE, TWO + ", encoder-layer: 3"), {}, [],
            r"recipe.yaml:\d+: stage 2: 'encoder-layer' must stand beside .* \(did you mean 'encoder-layers'\?\)"),
    "key of all": ((ONE + ", seed: 3", TWO), {}, [], r"stage 1: 'seed' must stand beside the stages or be"),
    "taken": ((ONE, TWO), {"no-save": "true"}, [], r"recipe.yaml:\d: 'no-save' must not be set in progressive"),
    "taken on the command line": ((ONE, TWO), {}, ["--reset-optimizer"], "--reset-optimizer must not be set in"),
    "staged on the command line": ((ONE, TWO), {}, ["--max-update=7"], "--max-update must be set in .*recipe.yaml"),
    "depth on the command line": ((ONE, TWO), {}, ["--decoder-layers", "7"], "--decoder-layers must be set in"),
    "architecture": ((ONE, TWO), {"arch": "transformer"}, [], "arch must be one of dlcl_transformer, since no"),
    "fairseq's": ((ONE, TWO), {"encoder-grups": "2"}, [], r"recipe.yaml:\d: 'encoder-grups' is not an option of"),
    "fairseq's value": ((ONE, "encoder-layers: four, max-update: 8"), {}, [],
                        r"recipe.yaml:\d: encoder-layers must be a whole number, but is 'four'"),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "top", "extra", "message"), FAULTY.values(), ids=FAULTY)
def test_faults_are_found_before_anything_starts(
    tmp_path: Path, entries: tuple[str, ...], top: dict[str, str], extra: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        plan_stages(write(tmp_path, *entries, **top), extra)


def test_the_command_line_mends_what_the_recipe_alone_gets_wrong(tmp_path: Path) -> None:
    path = write(tmp_path, "encoder-layers: 2, max-epoch: 4", average="4", save_interval="3", keep_last_epochs="2")
    assert plan_stages(path, ["--save-interval=2", "--keep-last-epochs", "4"])[0].own == {"average": "4"}


def test_what_only_a_model_that_grows_must_not_have(tmp_path: Path) -> None:
    two_sided = ["--two-sided", "--criterion=label_smoothed_cross_entropy_two_sided"]
    assert plan_stages(write(tmp_path, ONE, optimizer="composite"), two_sided)[0].config.two_sided
    assert len(plan_stages(write(tmp_path, ONE, TWO, optimizer="adafactor"))) == 2


def test_the_same_bound_may_hold_where_stages_end_otherwise(tmp_path: Path) -> None:
    entries = ("encoder-layers: 2, patience: 2", "encoder-layers: 4, max-epoch: 5", "encoder-layers: 8, max-epoch: 6")
    assert [stage.end("max-update") for stage in plan_stages(write(tmp_path, *entries, max_update="90"))] == [90] * 3


def test_all_faults_at_once_and_no_stages(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="stage 1: one of max-update") as error:
        plan_stages(write(tmp_path, "encoder-layers: 2", "encoder-layers: 5, max-update: 9"))
    assert len(str(error.value).splitlines()) == 2
    with pytest.raises(UserError, match=r"base.yaml: a recipe for deepnmt train-progressive must list its stages"):
        plan_stages(ROOT / "configs" / "multi30k" / "base.yaml")


FAULTY_FILES = {
    "not a list": ("stages: 3\n", r"a\.yaml:1: 'stages' must be a list of stages, but is not"),
    "empty": ("stages: []\n", r"a\.yaml:1: 'stages' must be a list of stages, but is not"),
    "not mappings": ("stages:\n  - 3\n", r"a\.yaml:2: a stage must be a mapping of options, but is not"),
    "twice": ("stages: [{a: 1}]\nlr: 1\nstages: [{a: 1}]\n", r"a\.yaml:3: 'stages' must stand there once, but"),
    "key twice": ("stages:\n  - a: 1\n    a: 2\n", r"a\.yaml:3: option 'a' stands here and in line 2"),
    "nested": ("stages:\n  - a: [1]\n", r"a\.yaml:2: an option must have one plain value"),
}


@pytest.mark.parametrize(("text", "message"), FAULTY_FILES.values(), ids=FAULTY_FILES)
def test_faulty_lists(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        recipe.read_stages(tmp_path / "a.yaml")


def test_stages_replace_those_of_the_base(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\nlr: 2\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("lr: 1\nstages: [{patience: 1}, {patience: 2}]\n", encoding="utf-8")
    (tmp_path / "c.yaml").write_text("extends: b.yaml\nstages: [{patience: 3}]\n", encoding="utf-8")

    def patience(name: str) -> list[str]:
        return [stage["patience"].value for stage in recipe.read_stages(tmp_path / name).stages]

    assert (patience("a.yaml"), patience("c.yaml")) == (["1", "2"], ["3"])
    assert recipe.read_stages(tmp_path / "a.yaml").options["lr"].value == "2"


def test_other_commands_refuse_a_recipe_with_stages() -> None:
    with pytest.raises(UserError, match=r"multi30k.yaml: a recipe with stages must be run by deepnmt train-progress"):
        recipe.read_recipe(FOLDER / "multi30k.yaml")
