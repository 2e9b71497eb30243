#!/usr/bin/env bash
# BLEU on the validation set over averages of checkpoints, beams and length penalties.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: sweep.sh SAVE DATA OUT [--last N,N...] [--beam N,N...] [--lenpen X,X...] [fairseq-generate options]

Finds the settings with which a trained model translates the validation set of DATA best. For each average of the last N
checkpoints in SAVE and each beam, it searches once with --nbest, and picks from these lists the translations for every
length penalty. fairseq's search applies the penalty only to finished hypotheses, so a search with that penalty would
find the same ones. At last it runs a search with the best setting.

  --last N,N...     checkpoints to average; 1 is the last checkpoint (default: 1,3,5,10 as far as SAVE has them)
  --beam N,N...     (default: 5)
  --lenpen X,X...   length penalties (default: 0.6,0.8,1,1.2,1.4,1.6,1.8,2)

Any other option is fairseq-generate's, as in generate.sh.

OUT gets sweep.tsv, a line a setting, the best first; best.json, the best setting; best.*, its translations and scores;
the averages, and their n-best lists. Test sets are not touched. It can be stopped at any moment; run the same command
again to resume, as long as the checkpoints in SAVE, DATA and the files that options name are the same. Other numbers
may be given later: sweep.tsv and best.json are then of these alone, so name the earlier ones again; they are not
searched anew.

example:
  scripts/sweep.sh checkpoints/de-en data/de-en results/sweep --last 5,10 --beam 4,8
HELP
}

LAST='' BEAM=5 LENPEN=0.6,0.8,1,1.2,1.4,1.6,1.8,2 POSITIONAL=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --last) LAST=$(value "$@"); shift ;;
        --beam) BEAM=$(value "$@"); shift ;;
        --lenpen) LENPEN=$(value "$@"); shift ;;
        --last=* | --beam=* | --lenpen=*) set -- '' "${1%%=*}" "${1#*=}" "${@:2}" ;;
        -h | --help) usage; exit 0 ;;
        --nbest* | --subset* | --gen-subset* | --unnormalized | --length-penalty* | --coverage* | --beam-stop* | --prune-gap*)
            die "$1 cannot be used here: settings are compared by the n-best lists of fairseq's own search, on the validation set" ;;
        *) sort_argument "$1" ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 3 ]] || die "SAVE, DATA and OUT must be given, before any option (see --help)"
SAVE=${POSITIONAL[0]%/} DATA=${POSITIONAL[1]%/} OUT=${POSITIONAL[2]%/}

need python3 fairseq-generate
ON_INTERRUPT="resume with the first search that is not done"
# Before another plan is written; what is refused leaves a folder as it was.
[[ ! -f $OUT/sweep.json ]] || hold "$OUT" OUT
# With =, since a list may begin with a minus.
PLAN=$(python3 "$ROOT/scripts/sweep.py" plan ${LAST:+"--last=$LAST"} "--beam=$BEAM" "--lenpen=$LENPEN" \
    "$OUT" "$SAVE" "$DATA" "${OPTIONS[@]}")
hold "$OUT" OUT

# Translate the validation set into the folder $2, unless that is done: search CHECKPOINT FOLDER OPTIONS...
search() {
    local checkpoint=$1 folder=$2
    shift 2
    if [[ -f $folder/scores.json ]]; then
        echo "$(basename "$folder") is done: $folder"
        return
    fi
    run "$ROOT/scripts/generate.sh" "$checkpoint" "$DATA" "$folder" --subset valid "$@" "${OPTIONS[@]}"
    run "$ROOT/scripts/score.sh" "$folder"
}

while read -r -u 3 NUMBER WIDTH; do
    MODEL=$OUT/last$NUMBER.pt
    if [[ ! -f $MODEL ]]; then
        run "$ROOT/scripts/average.sh" "$SAVE" "$MODEL" --last "$NUMBER"
    fi
    search "$MODEL" "$OUT/last$NUMBER.beam$WIDTH" --beam "$WIDTH" --nbest "$WIDTH"
done 3<<<"$PLAN"

BEST=$(python3 "$ROOT/scripts/sweep.py" table "$OUT")
read -r NUMBER WIDTH PENALTY <<<"$BEST"
search "$OUT/last$NUMBER.pt" "$OUT/best.last$NUMBER.beam$WIDTH.lenpen$PENALTY" --beam "$WIDTH" "--lenpen=$PENALTY"
python3 "$ROOT/scripts/sweep.py" best "$OUT" "$OUT/best.last$NUMBER.beam$WIDTH.lenpen$PENALTY"
