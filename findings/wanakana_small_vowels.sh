#!/usr/bin/env bash
# wanakana 5.3.1: toRomaji reads a small vowel after フ, テ, デ, ウ or ヴ as a full one, and its っち is not read back.
# Guessed: Hepburn, as documented: fairu for ファイル, and a round trip through toKatakana, which reads fa as ファ.
# Seen: ファイル becomes fuairu, パーティー paateii, ディスク deisuku and ヴァイオリン vuaiorin. Back in kana, these are other
# words. マッチ becomes matchi, which toKatakana reads as マtチ, with a Latin letter. Its open request 185 names only ヴ.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$WORK" wanakana@5.3.1 >npm.log
cat >run.cjs <<'JS'
const assert = require('assert');
const { toKatakana, toRomaji } = require('wanakana');

const wanted = {
  チェック: ['chekku', 'チェック'],
  ファイル: ['fuairu', 'フアイル'],
  パーティー: ['paateii', 'パアテイイ'],
  ディスク: ['deisuku', 'デイスク'],
  ウェブ: ['uebu', 'ウエブ'],
  ヴァイオリン: ['vuaiorin', 'ヴアイオリン'],
  マッチ: ['matchi', 'マtチ'],
};
for (const [word, expected] of Object.entries(wanted)) {
  const found = [toRomaji(word), toKatakana(toRomaji(word))];
  console.log(word, ...found);
  assert.deepStrictEqual(found, expected);
}
assert.strictEqual(toKatakana('fairu'), 'ファイル');
JS
node run.cjs
