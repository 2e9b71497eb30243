#!/usr/bin/env bash
# laonlp 1.3.0: word_tokenize deletes every slash, and mostly puts empty words in its place.
# Guessed: its words joined give the text again. Seen: the date 1/2/2024 becomes 1, 2 and 2024 with empty words between
# them, and 122024 when joined. A web address loses its slashes. Inside the library, a slash separates words.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" laonlp==1.3.0 pythainlp==5.4.0
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 PYTHAINLP_DATA=$WORK/data python3 - <<'PY'
from laonlp.tokenize import word_tokenize

day = "\u0ea7\u0eb1\u0e99\u0e97\u0eb5"  # Lao: date
found = [word_tokenize(text) for text in (f"{day} 1-2-2024", f"{day} 1/2/2024", "https://a.la/b")]
print(*map(ascii, found), sep="\n")
assert "".join(found[0]) == f"{day} 1-2-2024"
assert found[1] == [day, " ", "1", "", "", "2", "", "", "2024"]
assert "".join(found[2]) == "https:a.lab"
PY
