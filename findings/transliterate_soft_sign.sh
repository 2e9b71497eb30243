#!/usr/bin/env bash
# transliterate 1.10.2: an apostrophe becomes a capital soft sign in Russian and Ukrainian, even between small letters.
# Guessed: words come back from Latin letters. Seen: соль, which it writes as sol', becomes солЬ. Ольга becomes ОлЬга,
# and сельдь has two capitals. A word list does not have such words, although they look almost right. The hard sign is an
# apostrophe, too, and comes back as the capital soft sign: подЬезд. A soft sign among capitals is right.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" transliterate==1.10.2
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
from transliterate import translit

wanted = {
    ("ru", "лодка"): ("lodka", "лодка"),
    ("ru", "соль"): ("sol'", "солЬ"),
    ("ru", "СОЛЬ"): ("SOL'", "СОЛЬ"),
    ("ru", "Ольга"): ("Ol'ga", "ОлЬга"),
    ("ru", "сельдь"): ("sel'd'", "селЬдЬ"),
    ("ru", "подъезд"): ("pod'ezd", "подЬезд"),
    ("uk", "сіль"): ("sil'", "сілЬ"),
}
for (language, word), expected in wanted.items():
    latin = translit(word, language, reversed=True)
    found = latin, translit(latin, language)
    print(word, *found)
    assert found == expected, word
PY
