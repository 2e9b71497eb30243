#!/usr/bin/env bash
# Choose the training pairs that are most like a text.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: select.sh DATA OUT --like TEXT --number N [--method tfidf|cross-entropy]

Makes a data folder OUT whose training text is the N pairs of DATA whose sources are most like TEXT, in their order; all
else is DATA's. finetune.sh trains a model further on it.

  DATA           folder made by preprocess.sh or binarise.sh
  --like TEXT    raw text of DATA's source language, such as what is to be translated; it is tokenised as DATA was
  --number N     of pairs
  --method tfidf           by the highest cosine with a line of TEXT, words weighted by tf-idf (default)
  --method cross-entropy   by the cross entropy under a language model of DATA's source, less that under one of TEXT;
                           TEXT must have at least 100 lines (Moore and Lewis 2010)

OUT/selection.tsv has the score of each pair of DATA, the higher the more alike. The file and the checksum of TEXT are
recorded as selected_on in OUT/preprocess.json, in checkpoints trained on OUT, and in the generate.json of their
translations: a test set whose source was used is not quite unseen. OUT appears only when everything is done.

example:
  scripts/select.sh data/de-en data/de-en-news --like raw/news.de --number 50000
HELP
}

WORDS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) WORDS+=("$1") ;;
    esac
    shift
done
for ((i = 0; i < 2; i++)); do
    [[ -n ${WORDS[i]:-} && ${WORDS[i]} != -* ]] || die "DATA and OUT must be given, before any option (see --help)"
done
DATA=${WORDS[0]%/} OUT=${WORDS[1]%/}
OPTIONS=("${WORDS[@]:2}")
[[ $OUT != *[,:]* ]] || die "OUT must not contain a comma or a colon, but is '$OUT'"
need python3
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

build_beside "$OUT"
mkdir -p -- "$TMP"
python3 "$ROOT/scripts/select_pairs.py" begin "$TMP" "$DATA" "${OPTIONS[@]}"
if [[ -f $OUT/preprocess.json ]]; then
    python3 "$ROOT/scripts/manifest.py" compare "$OUT/preprocess.json" "$TMP/preprocess.json" OUT
    echo "$OUT is up to date"
    exit 0
elif [[ -e $OUT ]] && ! [[ -d $OUT && -z $(ls -A -- "$OUT") ]]; then
    die "$OUT exists, and was not made by select.sh; remove it or choose another OUT"
fi
run python3 "$ROOT/scripts/select_pairs.py" finish "$TMP" "$DATA" "${OPTIONS[@]}"
replace_folder "$TMP" "$OUT"
echo "$OUT is ready"
