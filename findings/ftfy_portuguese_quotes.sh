#!/usr/bin/env bash
# ftfy 6.3.1: a Portuguese word in capitals that ends with Ã, before a closing quotation mark, loses the mark.
# Guessed: valid text in quotation marks stays as it is, as «É» and “AVÓ” do. Seen: «A MANHÃ», the name of a newspaper,
# becomes «A MANHû, and “A MANHÔ with curly marks: letter and mark count as one letter in a wrong encoding. Single
# marks and a full stop before the mark are safe, and so is small type. Cleaners of parallel text call fix_text.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" ftfy==6.3.1
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import ftfy

seen = {
    "O diário «A MANHÃ» fechou.": "O diário «A MANHû fechou.",
    "Leu “A MANHÃ” ontem.": "Leu “A MANHÔ ontem.",
    "„A MANHÃ“": "„A MANHÓ",
    "‹A MANHÃ›": "‹A MANHÛ",
    "«IRMÃ», disse": "«IRMû, disse",
}
for text, wanted in seen.items():
    found = ftfy.fix_text(text, uncurl_quotes=False)
    print(text, "->", found)
    assert found == wanted
for text in ("«É»", "“AVÓ”", "‘A MANHÃ’", "«A MANHÃ.»", "«a manhã»", "«BLÅ»"):
    assert ftfy.fix_text(text, uncurl_quotes=False) == text
PY
