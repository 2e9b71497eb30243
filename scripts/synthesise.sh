#!/usr/bin/env bash
# Make synthetic pairs: by translating monolingual text back or forward, by copying it, or by a teacher's translations.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: synthesise.sh back REVERSE.pt[:REVERSE2.pt...] DATA MONO OUT [options]
       synthesise.sh forward MODEL.pt[:MODEL2.pt...] DATA MONO OUT [options]
       synthesise.sh copy DATA MONO OUT [options]
       synthesise.sh distil TEACHER.pt[:TEACHER2.pt...] DATA OUT [options]

Makes pairs for a model that translates from DATA's source language to its target language. They become the training
text of a data folder OUT that is otherwise like DATA. mix.sh joins it with real pairs.

  back        text of the target in MONO, and its translations by a model of the other direction as the source
  forward     text of the source in MONO, and its translations as the target
  copy        text of the target in MONO on both sides; needs one dictionary for both languages
  distil      the source of DATA's training text, and a teacher's translations as the target

  DATA        folder made by preprocess.sh or binarise.sh
  MONO        folder made by binarise.sh --like DATA --mono
  several checkpoints with colons between them are an ensemble

options:
  --method beam|greedy|sampling|top-k K    how translations are found: the best, or drawn from the model's distribution,
                     as it is or from the K most probable subwords (default: beam)
  --beam N           hypotheses of a beam search (default: 5)
  --max-ratio R      drop pairs of a higher length ratio, in tokens; 0: no limit (default: 0)
  --noise delete=P,blank=P,shuffle=K       on the words of a synthetic source: leave out, blank, move up to K places;
                     blank needs the symbol <BLANK> in MONO's dictionaries (binarise.sh --symbols)
  --tag SYMBOL       put a symbol such as '<BT>' before each synthetic source; MONO's dictionaries must have it
  --nbest N --closest    distil: of the teacher's N best, take the one that is closest to the reference (sentence BLEU)
  --keep-real        distil: append the real pairs of DATA
  --reverse          pairs for the model that translates DATA's target to its source
  --allow-overlap    take lines that DATA validates or tests on
  --seed S           of sampling and noise (default: 1)
  --batch-size N     lines translated at a time (default: 128)
  --shards N --shard K   translate one of N parts only, K from 0 to N - 1, for instance on N machines that see one disk;
                     whichever is last makes OUT

The work done so far is in OUT.parts. The script can be stopped at any moment; run the same command again to resume. The
same files result after any number of starts and from any number of shards. OUT appears only when everything is done.

example:
  scripts/synthesise.sh back checkpoints/en-de/average.pt data/de-en data/news data/news-back --method sampling
HELP
}

SHARDS='' SHARD='' WORDS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --shards) SHARDS=$(value "$@"); shift ;;
        --shard) SHARD=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        *) WORDS+=("$1") ;;
    esac
    shift
done
KIND=${WORDS[0]:-}
case $KIND in
    back | forward) PLACES=4 ;;
    copy | distil) PLACES=3 ;;
    *) die "the first argument must be back, forward, copy or distil, but is '$KIND' (see --help)" ;;
esac
for ((i = 1; i <= PLACES; i++)); do
    [[ -n ${WORDS[i]:-} && ${WORDS[i]} != -* ]] || die "$KIND must be followed by $PLACES arguments before the options (see --help)"
done
OUT=${WORDS[PLACES]%/}
unset 'WORDS[PLACES]'
if [[ -n $SHARDS || -n $SHARD ]]; then
    [[ -n $SHARDS && -n $SHARD ]] || die "--shards and --shard must be given together"
    number_from --shards 1 1000000 "$SHARDS"
    number_from --shard 0 $((10#$SHARDS - 1)) "$SHARD"
fi
[[ $OUT != *[,:]* ]] || die "OUT must not contain a comma or a colon, but is '$OUT'"
need python3

no_lost_link "$OUT"
PARTS=$OUT.parts
ON_INTERRUPT="resume from the work done in $PARTS"
if [[ -e $OUT && ! -f $OUT/preprocess.json ]] && ! [[ -d $OUT && -z $(ls -A -- "$OUT") ]]; then
    die "$OUT exists, and was not made by synthesise.sh; remove it or choose another OUT"
fi
python3 "$ROOT/scripts/synthesise.py" begin "$PARTS" "$OUT" "${WORDS[@]}"

# End here if OUT is there. Another shard that has made it removes PARTS.
end_if_made() {
    [[ -f $OUT/preprocess.json ]] || return 0
    echo "$OUT is up to date"
    rm -rf -- "$PARTS"
    exit 0
}

end_if_made
run python3 "$ROOT/scripts/synthesise.py" translate "$PARTS" "${SHARDS:-1}" "${SHARD:-0}"

# Of several shards, one makes OUT.
if command -v flock >/dev/null && { exec {LOCK}>"$PARTS/lock"; } 2>/dev/null; then
    flock "$LOCK"
fi
end_if_made
LEFT=$(python3 "$ROOT/scripts/synthesise.py" left "$PARTS")
if [[ $LEFT -gt 0 ]]; then
    echo "shard $SHARD of $SHARDS is done; chunks that other shards have left: $LEFT"
    exit 0
fi
build_beside "$OUT"
run python3 "$ROOT/scripts/synthesise.py" finish "$PARTS" "$TMP"
replace_folder "$TMP" "$OUT"
rm -rf -- "$PARTS"
echo "$OUT is ready"
