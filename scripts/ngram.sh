#!/usr/bin/env bash
# Estimate an n-gram language model, or score the lines of a text by one.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: ngram.sh train TEXT OUT.arpa [--order N] [--learn-from N] [--raw]
       ngram.sh score MODEL.arpa TEXT OUT.tsv [--column NAME] [--raw] [--workers N]

  train       estimate an interpolated modified Kneser-Ney model, and write it as an ARPA file, which other tools read
  score       write the cross entropy of each line in nats a word, the end of the line included: a header, then a line
              for each line of TEXT; the model may come from any tool

  TEXT             words with white space between them
  --raw            TEXT is not tokenised: words and signs are told apart first, and case is ignored
  --order N        length of the longest n-grams, from 1 to 6 (default: 3); if no line is long enough, the longest there are
  --learn-from N   lines to learn from at most, evenly spread over TEXT (default: 2000000); memory grows with the words
                   and n-grams among these alone
  --column NAME    of the header of OUT.tsv (default: cross_entropy)
  --workers N      processes (default: one per core)

OUT appears only when everything is done. train replaces an OUT.arpa that exists; score refuses an OUT.tsv that exists.
The script can be stopped at any moment; run the same command again: score resumes from the scores made so far, which
are in OUT.tsv.parts; train starts over, and takes about a minute for a million lines.

example:
  scripts/ngram.sh train data/de-en/text/train.tok.en english.arpa --order 4
  scripts/ngram.sh score english.arpa crawled/text.en crawled/fluency.tsv
HELP
}

sort_words "$@"
case ${WORDS[0]:-} in
    train) PLACES=2 ;;
    score) PLACES=3 ;;
    *) die "the first argument must be train or score, but is '${WORDS[0]:-}' (see --help)" ;;
esac
for ((i = 1; i <= PLACES; i++)); do
    [[ -n ${WORDS[i]:-} && ${WORDS[i]} != -* ]] ||
        die "${WORDS[0]} must be followed by $PLACES arguments before the options (see --help)"
done
need python3
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

OUT=${WORDS[PLACES]}
if [[ ${WORDS[0]} == train ]]; then
    [[ -z $WORKERS ]] || die "--workers must be given with score alone"
    run python3 "$ROOT/scripts/ngram.py" "${WORDS[@]}"
    echo "$OUT is ready"
    exit 0
fi
PARTS=$OUT.parts
ON_INTERRUPT="resume from the work done in $PARTS"
[[ -e $PARTS ]] || BEGUN=$PARTS
hold "$PARTS" OUT
python3 "$ROOT/scripts/ngram.py" begin "$PARTS" "${WORDS[@]:1}"
hold "$PARTS" OUT
run python3 "$ROOT/scripts/ngram.py" work "$PARTS" ${WORKERS:+--workers "$WORKERS"}
python3 "$ROOT/scripts/ngram.py" finish "$PARTS" "$OUT"
rm -rf -- "$PARTS"
echo "$OUT is ready"
