"""Words that have been cut already, as long as they are not too many: what stays open does not grow with its text."""

from collections.abc import Sequence

# Of all words together, which take about 40 bytes a character with their pieces.
MOST_CHARACTERS = 1_000_000


class CutWords(dict[str, Sequence[str]]):
    """The pieces of words.

    Attributes:
        characters: of all words
    """

    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def __setitem__(self, word: str, pieces: Sequence[str]) -> None:
        super().__setitem__(word, pieces)
        self.characters += len(word)

    def bounded(self) -> "CutWords":
        """Return these words or, where they are too many, none; another thread may still read these."""
        return self if self.characters < MOST_CHARACTERS else CutWords()
