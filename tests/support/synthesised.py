"""Commands of `deepnmt synthesise` with a stub of a model, and what they make."""

from pathlib import Path

from deepnmt.cli import synthesise
from deepnmt.synthetic.synthesis import Synthesis
from support.substitution import TARGET, sentences

LINES = sentences(130, seed=5)


def words(folders: dict[str, Path], kind: str, text: str = TARGET) -> list[str]:
    places = [folders["data"]] if kind == "distil" else [folders["data"], folders[text]]
    return [kind, *([] if kind == "copy" else [str(folders["model"])]), *map(str, places)]


def make(out: Path, command: list[str], shards: int = 1) -> Path:
    """What the command makes; of several shards, the last one makes it."""
    for shard in range(shards):
        more = ["--shards", str(shards), "--shard", str(shard)] if shards > 1 else []
        synthesise.main([*with_out(command, out), *more])
    return out


def with_out(command: list[str], out: Path) -> list[str]:
    places = 1 + len(synthesise.PLACES[command[0]])
    return [*command[:places], str(out), *command[places:]]


def job_of(command: list[str]) -> Synthesis:
    return synthesise.synthesis_of(synthesise.parse(with_out(command, Path("out"))))


def text(folder: Path, kind: str, language: str) -> list[str]:
    return (folder / "text" / f"train.{kind}.{language}").read_text("utf-8").splitlines()
