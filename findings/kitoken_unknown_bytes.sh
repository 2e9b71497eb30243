#!/usr/bin/env bash
# kitoken 0.11.1: it reads a sentencepiece unigram model with byte fallback, and reverses the bytes of each letter.
# Guessed: the same numbers of pieces as sentencepiece 0.2.3, since compatibility is its purpose. Seen: a letter outside
# the vocabulary has its UTF-8 bytes in reverse order, letter by letter, and decodes to broken UTF-8. BPE models give
# equal numbers. Of both models, a tab between words is not the space that sentencepiece makes of it.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" kitoken==0.11.1 sentencepiece==0.2.3
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import io

import sentencepiece
from kitoken import Kitoken

text = ["the old house", "a new house", "the new garden", "an old garden"] * 40
for kind in ("unigram", "bpe"):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, model_type=kind, vocab_size=300, hard_vocab_limit=False,
        byte_fallback=True, minloglevel=2,
    )  # fmt: skip
    peer = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    other = Kitoken.from_sentencepiece(model.getvalue())
    assert list(other.encode("the old garden", False)) == peer.encode("the old garden")
    for word in ("é", "日本", "क"):
        wanted, found = peer.encode(word), list(other.encode(word, False))
        names = [peer.id_to_piece(number) for number in found[1:]]
        backwards = "".join(letter.encode()[::-1].hex().upper() for letter in word)
        print(kind, word, *names, "decoded:", bytes(other.decode(found, False)))
        assert ("".join(name[3:5] for name in names) == backwards) == (kind == "unigram")
        assert (found == wanted) == (kind == "bpe") and peer.decode(wanted) == word
    assert peer.encode("the\told house") == peer.encode("the old house")
    assert list(other.encode("the\told house", False)) != list(other.encode("the old house", False))
PY
