"""`deepnmt sweep`: find the best average, beam and length penalty of a model on the validation set."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from deepnmt.cli import average, generate, score
from deepnmt.console import Parser, program
from deepnmt.limits import DEFAULT_BEAM, DEFAULT_LENPENS

DESCRIPTION = """Find the settings with which a trained model translates the validation set of DATA best. For each
average of the last N checkpoints in SAVE and each beam, search once with --nbest. The translations for every length
penalty come from these lists. fairseq's search applies the penalty only to finished hypotheses, so a search with that
penalty would find the same ones. Finally, run a search with the best setting."""
EPILOG = """Any other option goes to fairseq-generate, as in deepnmt generate.

OUT gets sweep.tsv, a line per setting, the best first; best.json, the best setting; best.*, its translations and
scores. It also gets the averages and their n-best lists. Test sets are not touched. The command can be stopped at any
moment; run it again to resume. SAVE's checkpoints, DATA and the files that options name must be the same. A later run
may give other numbers: sweep.tsv and best.json then cover these alone, so name the earlier ones again. They are not
searched anew.

example:
  deepnmt sweep checkpoints/de-en data/de-en results/sweep --last 5,10 --beam 4,8"""


def parser() -> Parser:
    """Return the parser of the command line."""
    usage = "%(prog)s SAVE DATA OUT [--last N,N...] [--beam N,N...] [--lenpen X,X...] [options of fairseq-generate]"
    parser = Parser(program("sweep"), DESCRIPTION, EPILOG, usage=usage)
    add = parser.add_argument
    add("save", type=Path, metavar="SAVE", help="folder of a training's checkpoints")
    add("data", type=Path, metavar="DATA", help="data folder")
    add("out", type=Path, metavar="OUT", help="folder to make")
    add("--last", default="", metavar="N,N...", help="numbers of checkpoints to average; 1 is the last "
        "checkpoint (default: 1,3,5,10 as far as SAVE has them)")  # fmt: skip
    add("--beam", default=str(DEFAULT_BEAM), metavar="N,N...", help=f"beams (default: {DEFAULT_BEAM})")
    add("--lenpen", default=DEFAULT_LENPENS, metavar="X,X...", help=f"length penalties (default: {DEFAULT_LENPENS})")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Compare the settings that a command line names. Raises `UserError` if OUT has another origin or is in use."""
    given, options = parser().parse_before_options(words, "fairseq-generate")
    # Here, since it imports sacrebleu.
    from deepnmt.generation import sweep_plan
    from deepnmt.text.translated_folder import check_data

    sweep_plan.check_options(options)
    check_data(given.data, "valid")
    job = sweep_plan.job_of(given.out, given.save, given.data, (given.last, given.beam, given.lenpen), options)
    with job.begun() as out:

        def search(last: int, folder: Path, *settings: str) -> None:
            if (folder / "scores.json").is_file():
                print(f"{folder.name} is done: {folder}")
                return
            model = str(out / f"last{last}.pt")
            generate.main([model, str(given.data), str(folder), "--subset", "valid", *settings, *options])
            score.main([str(folder)])

        for last, beam in product(job.told["last"], job.told["beam"]):
            model = out / f"last{last}.pt"
            if not model.is_file():
                average.main([str(given.save), str(model), "--last", str(last)])
            search(last, out / f"last{last}.beam{beam}", "--beam", str(beam), "--nbest", str(beam))
        best = sweep_plan.table(out)
        last, beam, lenpen = best["last"], best["beam"], best["lenpen"]
        folder = out / f"best.last{last}.beam{beam}.lenpen{lenpen}"
        search(last, folder, "--beam", str(beam), f"--lenpen={lenpen}")
        sweep_plan.best(out, folder)
