"""Work cut into chunks: what is lost when a process is killed, and what machines share.

A chunk is so many consecutive lines, whatever the number of machines, and its translations do not depend on those of
other chunks. So they are the same, bit for bit, in whichever order, by whichever process and after however many starts
they are made, on machines that compute alike. A chunk is written whole, and never again.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines


@dataclass(frozen=True)
class Chunks:
    """The chunks of a text.

    Attributes:
        folder: that they are written to
        lines: of the text
        size: of a chunk, in lines
    """

    folder: Path
    lines: int
    size: int

    def of_shard(self, shard: int, shards: int) -> range:
        """Return the numbers of the chunks that one of several machines makes."""
        return range(shard, -(-self.lines // self.size), shards)

    def lines_of(self, chunk: int) -> range:
        """Return the numbers of a chunk's lines."""
        return range(chunk * self.size, min((chunk + 1) * self.size, self.lines))

    def path(self, chunk: int) -> Path:
        """Return the file of a chunk."""
        return self.folder / f"chunk-{chunk:06d}.json"

    def missing(self, shard: int = 0, shards: int = 1) -> list[int]:
        """Return the numbers of the chunks that have not been made, by default of all machines."""
        return [chunk for chunk in self.of_shard(shard, shards) if not self.path(chunk).exists()]

    def write(self, chunk: int, results: Sequence[Optional[str]]) -> None:
        """Write the results of a chunk, None where a line has none."""
        assert len(results) == len(self.lines_of(chunk))
        with whole_file(self.path(chunk)) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)

    def read(self) -> Iterator[Optional[str]]:
        """Yield the results of all lines. Raises `UserError` if a chunk is not whole."""
        for chunk in self.of_shard(0, 1):
            number = 0
            for line in read_lines(self.path(chunk)):
                number += 1
                try:
                    yield json.loads(line)
                except ValueError:
                    raise UserError(f"{self.path(chunk)}:{number}: must be a result, but is not; remove it") from None
            if number != len(self.lines_of(chunk)):
                raise UserError(
                    f"{self.path(chunk)}: must have {len(self.lines_of(chunk))} lines, but has {number}; remove it"
                )
