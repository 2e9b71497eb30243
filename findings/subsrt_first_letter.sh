#!/usr/bin/env bash
# subsrt-ts 2.1.2: it reads each caption of an ASS or SSA file without its first letter.
# Guessed: "Hello, world" stays the same from SRT to ASS and back. Seen: "ello, world". The reader drops one character
# after the last comma of the fields, where its own writer puts none. A caption in italics shows its code as text.
# Of its own SAMI files it reads no caption, since a line ends between two tags. There is no error in any case.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$WORK" subsrt-ts@2.1.2 >npm.log
cat >run.cjs <<'JS'
const assert = require('assert');
const { convert, parse } = require('subsrt-ts');

const srt = '1\n00:00:01,000 --> 00:00:02,000\nHello, world\n\n2\n00:00:03,000 --> 00:00:04,000\nÄrger\n';
const texts = (text, format) =>
  parse(text, { format }).filter((part) => part.type === 'caption').map((part) => part.text.trimEnd());
const found = {};
for (const format of ['vtt', 'sbv', 'ass', 'ssa', 'smi']) {
  found[format] = texts(convert(srt, { format }), format);
  console.log(format, found[format]);
}
const line = 'Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,Hello, world\r\n';
const fields = 'Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\r\n';
found.other = texts('[Script Info]\r\nScriptType: v4.00+\r\n\r\n[Events]\r\n' + fields + line, 'ass');
console.log('a file of another program', found.other);
const right = ['Hello, world', 'Ärger'], cut = ['ello, world', 'rger'];
assert.deepStrictEqual(found, { vtt: right, sbv: right, ass: cut, ssa: cut, smi: [], other: cut.slice(0, 1) });
JS
node run.cjs
