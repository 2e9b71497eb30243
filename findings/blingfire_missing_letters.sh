#!/usr/bin/env bash
# blingfire 0.1.8: text_to_words deletes letters that it does not know, without an error or an unknown word in place.
# Guessed: spaces are added and nothing else changes, as its sentence splitter and its Hindi and Thai words do.
# Seen: Burmese loses marks inside words, GROẞE becomes "GRO E", and sentences in N'Ko, Adlam, Tifinagh, Javanese and
# small Cherokee letters become the empty text. A line of parallel text then has no words, or other ones.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" blingfire==0.1.8
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from blingfire import text_to_sentences, text_to_words

texts = {
    "Hindi": ("हिन्दी में", "हिन्दी में"),
    "Thai": ("ภาษาไทย", "ภาษาไทย"),
    "German": ("GROẞE STRAẞE", "GRO E STRA E"),
    "Burmese": ("မြန်မာ", "မ န မာ"),
    "N'Ko": ("ߒߞߏ", ""),
    "Adlam": ("𞤆𞤵𞤤𞤢𞤪", ""),
    "Tifinagh": ("ⵜⴰⵎⴰⵣⵉⵖⵜ", ""),
    "Javanese": ("ꦧꦱꦗꦮ", ""),
    "Cherokee": ("ꮳꮃꭹ", ""),
}
for language, (text, expected) in texts.items():
    print(language, ascii(text), "->", ascii(text_to_words(text)))
    assert text_to_words(text) == expected and text_to_sentences(text) == text
PY
