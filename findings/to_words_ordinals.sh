#!/usr/bin/env bash
# to-words 5.7.0: toOrdinal gives the words of another number for hundreds above a thousand, in about 20 languages.
# Guessed: different numbers have different words, as in English. Seen in Russian: 1200 is "thousand six-hundredth", and
# 1100, 1300 and 1700 all are "thousand hundredth". Spanish, Polish and others do the same. In Georgian, 1100 to 1900
# all are "thousand hundredth"; in Hebrew, 1100 and 1200 are alike. Cardinal numbers and 1301 are right.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$WORK" to-words@5.7.0 >npm.log
cat >run.cjs <<'JS'
const assert = require('assert');
const { ToWords } = require('to-words');

const ordinal = (localeCode, number) => new ToWords({ localeCode }).toOrdinal(number);
const russian = { 1100: 'Сотый', 1200: 'Шестисотый', 1300: 'Сотый', 1400: 'Семисотый', 1700: 'Сотый' };
for (const [number, hundred] of Object.entries(russian)) {
  console.log(number, ordinal('ru-RU', Number(number)));
  assert.strictEqual(ordinal('ru-RU', Number(number)), 'Тысяча ' + hundred);
}
assert.strictEqual(ordinal('ru-RU', 600), 'Шестисотый');
assert.strictEqual(ordinal('ru-RU', 1301), 'Тысяча Триста Первый');
assert.strictEqual(ordinal('es-ES', 1200), 'Mil Sexcentésimo');
const locales = ['ru-RU', 'uk-UA', 'pl-PL', 'cs-CZ', 'hr-HR', 'es-ES', 'pt-BR', 'fi-FI', 'hu-HU', 'el-GR', 'en-GB'];
const same = locales.filter((locale) => ordinal(locale, 1300) === ordinal(locale, 1100));
assert.deepStrictEqual(same, locales.slice(0, -1));
assert.strictEqual(new Set([1100, 1200, 1500, 1900].map((number) => ordinal('ka-GE', number))).size, 1);
assert.strictEqual(ordinal('he-IL', 1200), ordinal('he-IL', 1100));
JS
node run.cjs
