#!/usr/bin/env bash
# Keep the pairs of a corpus that are worth training on.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: clean.sh --input PREFIX --output PREFIX --source-lang LANG --target-lang LANG [--recipe FILE] [filters] [options]

Reads parallel text, PREFIX.LANG with one sentence per line, and keeps the pairs that pass all filters, as they are and
in their order. Each pair that is removed is counted under the first filter that it fails.

filters; pairs meet those of the recipe in its order, then the others in the order of the command line; each can also be
a line of the recipe, without the dashes:
  --length LOW:HIGH      words on each side (1:100)
  --ratio LOW:HIGH       words of the target for each word of the source
  --ratio-sigma K        log length ratio within K standard deviations of the corpus's median (4)
  --max-word N           longest word, in characters (40)
  --script SHARE         least share of a language's own letters among all letters (0.5)
  --letters SHARE        least share of letters among all signs but white space (0.5)
  --numbers N            most numbers without a partner on the other side (0); those up to 12 may be spelt out
  --no-copies SHARE      highest share of the words that both sides have (0.8)
  --repeats N            most words in a row that repeat the one to three words before them (1)
  --characters K         characters at most K standard deviations less usual than the corpus's median (6)
  --language MARGIN      least margin by which the characters are more usual here than on the other side, in nats for
                         each (0.2)
  --score-filter 'FILE[:COLUMN] >= X'      scores in a file, a line for each pair (also <=); in a recipe: score
  --endings N            0: both sides end with a sign of punctuation, or neither (0)
  --partners X           least mean log P of the words of each side, the other given, by the lexicons of --lexicon
  --fluency X            highest cross entropy of each side in nats a word, by --language-models
  --dedup pair|source|target               the first of equal pairs, or of those with an equal side (pair)
  The value in brackets is used where a filter is named without one. A filter that is not named is not applied.

one score out of many, and what would be unseen; in a recipe too:
  --lexicon FOLDER       made by align.sh --raw --lexicon
  --language-models 'SOURCE.arpa TARGET.arpa'      made by ngram.sh train --raw
  --train-classifier     learn to tell pairs that pass the filters but --dedup from broken ones, by all measures; the
                         classifier becomes OUTPUT.classifier.json
  --classifier FILE      score by a classifier that was learnt before
  --rank-by FILE[:COLUMN]   scores in a file, a line for each pair, in place of a classifier's
  --keep-best N|SHARE    of the pairs that pass the filters, keep the best: so many, or a share such as 0.9
  --keep-unseen C        keep a pair that --keep-best leaves out if it has a word that is kept fewer than C times, best
                         pairs first
  --seed S               of the broken pairs (1)

options:
  --score OUT.tsv        write all measures of all pairs, and their score, a line for each pair
  --recipe FILE          a filter a line; the same filters as options win over it, others come after it
  --rejected PREFIX      write the other pairs to PREFIX.LANG, and to PREFIX.reason line number and filter
  --workers N            processes (default: one per core)
  --chunk N              pairs that a process measures at a time (default: 20000)

Writes OUTPUT.LANG, OUTPUT.report.txt (what each filter has removed, with examples), OUTPUT.report.html (the same as a
page, with histograms) and OUTPUT.clean.json (options, checksums, counts). The work done so far is in OUTPUT.parts. The
script can be stopped at any moment; run the same command again to resume. The same files result after any number of
starts and with any number of processes.

examples:
  scripts/clean.sh --input raw/train --output raw/clean --source-lang de --target-lang en --recipe configs/clean.txt
  scripts/clean.sh --input raw/train --output raw/clean --source-lang de --target-lang en --ratio 0.5:2 --dedup pair
HELP
}

OUT='' WORKERS='' WORDS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --output) OUT=$(value "$@"); shift ;;
        --workers) WORKERS=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        *) WORDS+=("$1") ;;
    esac
    shift
done
[[ -n $OUT ]] || die "--output must be given (see --help)"
[[ -z $WORKERS ]] || number_from --workers 1 1024 "$WORKERS"
need python3

PARTS=$OUT.parts
ON_INTERRUPT="resume from the work done in $PARTS"
[[ -e $PARTS ]] || BEGUN=$PARTS
hold "$PARTS" --output
STATE=$(python3 "$ROOT/scripts/clean.py" begin "$PARTS" --output "$OUT" "${WORDS[@]}")
hold "$PARTS" --output
if [[ $STATE == made ]]; then
    rm -rf -- "$PARTS"
    echo "$OUT is up to date"
    exit 0
fi
run python3 "$ROOT/scripts/clean.py" measure "$PARTS" ${WORKERS:+--workers "$WORKERS"}
run python3 "$ROOT/scripts/clean.py" finish "$PARTS"
rm -rf -- "$PARTS"
echo "$OUT is ready: report in $OUT.report.txt and $OUT.report.html"
