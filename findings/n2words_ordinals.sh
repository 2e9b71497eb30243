#!/usr/bin/env bash
# n2words 4.0.0: toOrdinal gives 20 the words of 21 in Hebrew, and 200 to 900 the words of 100 in Romanian.
# Guessed: different numbers have different words, as cardinal numbers have in all its languages. Seen in Hebrew: 20 is
# "twenty and first", and so is 21; the same for 30, 40 and all other tens but 10. In Romanian, each whole hundred is
# "al sutălea", also after a thousand: 1200 is 1100. Romanian 201 is "două sute primul", and keeps its hundreds.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$WORK" n2words@4.0.0 >npm.log
cat >run.mjs <<'JS'
import assert from 'assert';
import * as english from 'n2words/en-US';
import * as hebrew from 'n2words/he-IL';
import * as romanian from 'n2words/ro-RO';

const alike = (language, form) => {
  const groups = {};
  for (let number = 1; number < 1000; number += 1) (groups[language[form](number)] ??= []).push(number);
  return Object.values(groups).filter((group) => group.length > 1);
};
console.log('Hebrew', hebrew.toOrdinal(20), hebrew.toCardinal(20), 'Romanian', romanian.toOrdinal(300));
assert.strictEqual(hebrew.toOrdinal(20), 'עשרים וראשון');
assert.deepStrictEqual(alike(hebrew, 'toOrdinal').slice(0, 3), [[20, 21], [30, 31], [40, 41]]);
assert.deepStrictEqual(alike(romanian, 'toOrdinal'), [[100, 200, 300, 400, 500, 600, 700, 800, 900]]);
assert.strictEqual(romanian.toOrdinal(1200), romanian.toOrdinal(1100));
assert.strictEqual(romanian.toOrdinal(201), 'două sute primul');
for (const language of [hebrew, romanian]) assert.deepStrictEqual(alike(language, 'toCardinal'), []);
assert.deepStrictEqual(alike(english, 'toOrdinal'), []);
JS
node run.mjs
