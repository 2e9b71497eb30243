#!/usr/bin/env bash
# dateparser 1.5.0: June in Punjabi is January, and "15 May 2024" in Marathi and Gujarati is 15 months ago.
# Guessed: each month of a language is itself, as it is in Hindi. Seen: 15 ਜੂਨ 2024 is 15 January 2024. 15 मे 2024 and
# 15 મે 2024 are October 2018, if today is 1 January 2020: the year is ignored. The default NORMALIZE removes accents
# from the text, and vowel signs of Indic scripts with them: what is left is an abbreviation of January, or of "month".
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" dateparser==1.5.0
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
from datetime import datetime

import dateparser

today = datetime(2020, 1, 1)
wanted = {
    ("hi", "15 मई 2024"): ("2024-05-15", "2024-05-15"),
    ("pa", "15 ਮਈ 2024"): ("2024-05-15", "2024-05-15"),
    ("pa", "15 ਜੂਨ 2024"): ("2024-01-15", "2024-06-15"),
    ("mr", "15 जून 2024"): ("2024-06-15", "2024-06-15"),
    ("mr", "15 मे 2024"): ("2018-10-01", "2024-05-15"),
    ("gu", "15 મે 2024"): ("2018-10-01", "2024-05-15"),
}
for (language, text), expected in wanted.items():
    default = dateparser.parse(text, languages=[language], settings={"RELATIVE_BASE": today})
    exact = dateparser.parse(text, languages=[language], settings={"RELATIVE_BASE": today, "NORMALIZE": False})
    print(language, text, default, exact)
    assert (str(default.date()), str(exact.date())) == expected, text
PY
