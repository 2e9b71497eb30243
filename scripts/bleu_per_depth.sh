#!/usr/bin/env bash
# The BLEU of a model with ever fewer of its layers.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: bleu_per_depth.sh CHECKPOINT DATA OUT [--encoder-every N,N...] [--decoder-every N,N...] [--subset SUBSET]
                         [fairseq-generate options]

Translates and scores a subset of DATA, a folder made by preprocess.sh, with the whole model of CHECKPOINT, and with
what deepnmt-shrink leaves of it: the first of each N layers of one stack, the other stack whole, for each N.

  --encoder-every N,N...   such as 2,3,6 (default, if no decoder's are given: 2,3,4,6 as far as the depth goes)
  --decoder-every N,N...   the same for the decoder (default: none)
  --subset SUBSET          valid, test, ... (default: valid)

Any other option is fairseq-generate's, as in generate.sh. No model is trained on after it was shrunk, and the shrunk
checkpoints are not kept.

OUT gets bleu.tsv, a line a model with its depths and scores, and a folder for each with translations and scores.json.
It can be stopped at any moment; run the same command again to resume with the first model that has no scores, as long
as CHECKPOINT, DATA and the files that options name are the same. Other N may be given later: bleu.tsv then lists these
alone, so name the earlier ones again; they are not translated anew.

example:
  scripts/bleu_per_depth.sh checkpoints/de-en/average.pt data/de-en results/depths --encoder-every 2,3,4,6,12
HELP
}

SUBSET=valid ENCODER='' DECODER='' POSITIONAL=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --encoder-every) ENCODER=$(value "$@"); shift ;;
        --decoder-every) DECODER=$(value "$@"); shift ;;
        --encoder-every=*) ENCODER=${1#*=} ;;
        --decoder-every=*) DECODER=${1#*=} ;;
        --subset | --gen-subset) SUBSET=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        *) sort_argument "$1" ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 3 ]] || die "CHECKPOINT, DATA and OUT must be given, before any option (see --help)"
CHECKPOINT=${POSITIONAL[0]} DATA=${POSITIONAL[1]%/} OUT=${POSITIONAL[2]%/}

need python3 fairseq-generate
ON_INTERRUPT="resume with the first model that has no scores"
# Before another plan is written; what is refused leaves a folder as it was.
[[ ! -f $OUT/models.json ]] || hold "$OUT" OUT
PLAN=$(python3 "$ROOT/scripts/bleu_per_depth.py" plan "$OUT" "$CHECKPOINT" "$DATA" "$SUBSET" "$ENCODER" "$DECODER" "${OPTIONS[@]}")
hold "$OUT" OUT

TMP=$OUT/shrunk.pt
# What a killed command left.
rm -f -- "$TMP"*
while read -r -u 3 NAME OPTION; do
    if [[ -f $OUT/$NAME/scores.json ]]; then
        echo "$NAME is scored: $OUT/$NAME"
        continue
    fi
    MODEL=$CHECKPOINT
    if [[ -n $OPTION ]]; then
        MODEL=$TMP
        PYTHONSAFEPATH=1 run python3 -m deepnmt.commands.shrink "$CHECKPOINT" "$MODEL" "$OPTION"
    fi
    run "$ROOT/scripts/generate.sh" "$MODEL" "$DATA" "$OUT/$NAME" --subset "$SUBSET" "${OPTIONS[@]}"
    run "$ROOT/scripts/score.sh" "$OUT/$NAME"
    rm -f -- "$TMP"
done 3<<<"$PLAN"
python3 "$ROOT/scripts/bleu_per_depth.py" table "$OUT"
echo "$OUT is ready: scores in $OUT/bleu.tsv"
