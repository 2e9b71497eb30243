"""Write texts from texts, line by line, on all cores."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from deepnmt.console import progress, whole_file
from deepnmt.text.in_order import lines_in_order
from deepnmt.text.lines import check_parallel, read_lines

Lines = tuple[str, ...]
Rewriter = Callable[[tuple[int, Lines]], Lines]


def rewrite(
    make: Callable[[], Rewriter], sources: Sequence[Path], targets: Sequence[Path], workers: int, doing: str
) -> None:
    """Write what a function makes of each line, or of each line of several parallel texts.

    Args:
        make: returns the function, of a line's number, from 0, and its text in each of the sources; called once in each
            process
        sources: texts to read
        targets: as many to write; each appears when it is whole, and may be a source
        workers: processes, at most
        doing: what the progress bar says

    Raises:
        UserError: the texts are empty, or of different lengths, a line is not UTF-8, or the disk is full
    """
    total = check_parallel(sources)
    with ExitStack() as stack:
        temporary = [stack.enter_context(whole_file(path)) for path in targets]
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in temporary]
        bar = stack.enter_context(progress(total, f"{doing} {targets[0].name}", " lines"))
        texts = ((line.removesuffix("\n") for line in read_lines(path)) for path in sources)
        for lines in lines_in_order(make, enumerate(zip(*texts)), workers, total):
            for file, line in zip(files, lines):
                file.write(line + "\n")
            bar.update()
