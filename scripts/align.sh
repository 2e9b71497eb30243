#!/usr/bin/env bash
# Align the words of pairs, and score how well each pair fits.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: align.sh DATA OUT [--subset SUBSET] [--subwords] [options]
       align.sh PREFIX OUT --source-lang LANG --target-lang LANG [--raw] [options]

Learns which words translate each other, in both directions, and aligns the words of each pair: IBM model 1 by EM, then
a prior for links along the diagonal with a variational Dirichlet prior, the formula and defaults of fast_align.

  DATA            folder made by preprocess.sh or binarise.sh
  --subset SUBSET   of DATA (default: train)
  --subwords      align the subwords of DATA, not its words
  PREFIX          text PREFIX.LANG, words with white space between them
  --raw           PREFIX is not tokenised: words and signs are told apart first, and case is ignored

options:
  --lexicon       write lexicon.forward.tsv and lexicon.reverse.tsv too: word, translation, probability, of 0.001 or more
  --learn-from N  pairs to learn from at most, evenly spread over the text (default: 1000000). Memory grows with the
                  different word pairs among these alone, by 60 bytes for each; the disk holds 4 bytes for each link
  --rounds N      of each of the two models (default: 5)
  --forward FILE --reverse FILE   alignments of both directions from elsewhere, a pair a line as in '0-0 1-2', source
                  words first: nothing is learnt; they are joined, and scored by the share of aligned words
  --workers N     processes (default: one per core)

OUT gets forward.align, reverse.align and joined.align (grow-diag-final), a pair a line, which fairseq and other tools
read; align.json; and scores.tsv, a header and a line for each pair. Its columns are align, the mean of the next two;
align_forward and align_reverse, the mean log P, in nats, of a word of the target and of the source; aligned, the share
of the words of both sides that have a link. With --forward and --reverse, scores.tsv has the column aligned alone.
Pairs with an empty side, or more than 400 words on one, have no links and the lowest scores.

The work done so far is in OUT.parts. The script can be stopped at any moment; run the same command again to resume. The
same files result after any number of starts, with any number of processes. OUT appears only when everything is done.

example:
  scripts/align.sh data/de-en data/de-en-aligned --lexicon
HELP
}

sort_words "$@"
for ((i = 0; i < 2; i++)); do
    [[ -n ${WORDS[i]:-} && ${WORDS[i]} != -* ]] || die "DATA and OUT must be given, before any option (see --help)"
done
OUT=${WORDS[1]%/}
unset 'WORDS[1]'
need python3

no_lost_link "$OUT"
PARTS=$OUT.parts
ON_INTERRUPT="resume from the work done in $PARTS"
if [[ -e $OUT && ! -f $OUT/align.json ]] && ! [[ -d $OUT && -z $(ls -A -- "$OUT") ]]; then
    die "$OUT exists, and was not made by align.sh; remove it or choose another OUT"
fi
# One process, one core: numpy's own threads would get into the way of the workers.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
[[ -e $PARTS ]] || BEGUN=$PARTS
hold "$PARTS" OUT
STATE=$(python3 "$ROOT/scripts/align.py" begin "$PARTS" "$OUT" "${WORDS[@]}")
hold "$PARTS" OUT
if [[ $STATE == made ]]; then
    rm -rf -- "$PARTS"
    echo "$OUT is up to date"
    exit 0
fi
run python3 "$ROOT/scripts/align.py" work "$PARTS" ${WORKERS:+"$WORKERS"}
build_beside "$OUT"
run python3 "$ROOT/scripts/align.py" finish "$PARTS" "$TMP"
replace_folder "$TMP" "$OUT"
rm -rf -- "$PARTS"
echo "$OUT is ready"
