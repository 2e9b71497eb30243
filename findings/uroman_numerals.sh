#!/usr/bin/env bash
# uroman 1.3.1.1: numerals inside Chinese and Japanese words and names become digits, with any language code.
# Guessed: by their sound, as sichuan. Documented is only a whole numeral, 三万一 as 31000. Seen: 四川 (Sichuan) is 4chuan,
# 一些 (some) 1xie, 张三 (a name) zhang3, 万一 (just in case) 11000, 千葉 (Chiba) 1000ye. 万 before another word has a
# sound. The zero of a year in single digits is lost: 二〇二四年 (the year 2024) is 2·2·4nian.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" uroman==1.3.1.1 regex==2026.11.19
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
from uroman import Uroman

seen = {
    "四川": "4chuan", "三亚": "3ya", "九寨沟": "9zhaigou", "一些": "1xie", "统一": "tong1", "张三": "zhang3",
    "万一": "11000", "万里长城": "wanlizhangcheng", "千葉": "1000ye", "三万一": "31000", "二〇二四年": "2·2·4nian",
}  # fmt: skip
romanizer = Uroman()
for text, wanted in seen.items():
    found = {code: romanizer.romanize_string(text, lcode=code) for code in (None, "zho", "jpn")}
    print(text, found[None])
    assert set(found.values()) == {wanted}, found
PY
