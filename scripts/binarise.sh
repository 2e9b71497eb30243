#!/usr/bin/env bash
# More text for an existing data folder: its settings, its codes, its dictionaries, nothing learnt anew.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: binarise.sh --like DATA (--train PREFIX | --mono PREFIX --lang LANG) --dest DIR [options]

Prepares text as preprocess.sh prepared that of DATA, and binarises it with DATA's codes and dictionaries.

  --like DATA        folder made by preprocess.sh or binarise.sh
  --train PREFIX     parallel text, PREFIX.LANG with one sentence per line: DIR becomes a data folder with this training
                     text, and the validation and test sets of DATA
  --mono PREFIX      text of one language, PREFIX.LANG: DIR gets it as the subset 'mono'; synthesise.sh makes pairs of it
  --lang LANG        the language of --mono
  --drop-overlap     with --mono: leave out the lines that DATA validates or tests on
  --symbols SYMBOL   append a type to the dictionaries, such as '<BT>' for the tag of synthesise.sh and '<BLANK>' for its
                     noise; types that DATA has keep their numbers, types that it has already are left as they are
                     (repeat it for several)
  --dest DIR         folder to make; it must not exist, unless the same command made it
  --workers N        processes (default: one per core)

Pairs and lines that are empty, or longer or of a higher ratio than DATA's record allows, are skipped and counted. DIR
appears only when everything is done. Run again with the same input and options, the script checks the files and does
nothing.

example:
  scripts/binarise.sh --like data/de-en --mono raw/news --lang en --symbols '<BT>' --dest data/news
HELP
}

LIKE='' TRAIN='' MONO='' LANGUAGE='' DEST='' WORKERS=$(cores) OVERLAP=() SYMBOLS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --like) LIKE=$(value "$@"); shift ;;
        --train) TRAIN=$(value "$@"); shift ;;
        --mono) MONO=$(value "$@"); shift ;;
        --lang) LANGUAGE=$(value "$@"); shift ;;
        --symbols) SYMBOLS+=("--symbols=$(value "$@")") || exit; shift ;;
        --dest) DEST=$(value "$@"); shift ;;
        --workers) WORKERS=$(value "$@"); shift ;;
        --drop-overlap) OVERLAP=(--drop-overlap) ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
    shift
done
[[ -n $LIKE ]] || die "--like must be given"
[[ -n $DEST ]] || die "--dest must be given"
[[ -n $TRAIN || -n $MONO ]] || die "--train or --mono must be given"
[[ -z $TRAIN || -z $MONO ]] || die "--train and --mono must not be given together"
[[ -z $MONO || -n $LANGUAGE ]] || die "--mono needs --lang, the language of the text"
[[ -n $MONO || -z $LANGUAGE ]] || die "--lang is for --mono alone"
[[ -n $MONO || ${#OVERLAP[@]} -eq 0 ]] || die "--drop-overlap is for --mono alone"
[[ $DEST != *[,:]* ]] || die "--dest must not contain a comma or a colon, but is '$DEST'"
number_from --workers 1 1024 "$WORKERS"
need python3

LIKE=${LIKE%/} DEST=${DEST%/}
SUBSET=train
if [[ -n $MONO ]]; then SUBSET=mono; fi
build_beside "$DEST"
mkdir -p -- "$TMP/text" "$TMP/counts"
COUNTS=$TMP/counts/$SUBSET.json
PRINTED=$(python3 "$ROOT/scripts/binarise.py" begin "$TMP" "$LIKE" --prefix="$TRAIN$MONO" \
    ${LANGUAGE:+--lang "$LANGUAGE"} "${OVERLAP[@]}" "${SYMBOLS[@]}")
mapfile -t OPTIONS <<<"$PRINTED"
read -r -a LANGUAGES <<<"${OPTIONS[0]}"
OPTIONS=("${OPTIONS[@]:1}")

if [[ -f $DEST/preprocess.json ]]; then
    python3 "$ROOT/scripts/manifest.py" compare "$DEST/preprocess.json" "$TMP/preprocess.json"
    echo "$DEST is up to date"
    exit 0
elif [[ -e $DEST ]] && ! [[ -d $DEST && -z $(ls -A -- "$DEST") ]]; then
    die "$DEST exists, and was not made by binarise.sh; remove it or choose another --dest"
fi

run python3 "$ROOT/scripts/prepare_text.py" "${OPTIONS[@]}" --input="$TRAIN$MONO" --output "$TMP/text/$SUBSET" \
    --workers "$WORKERS" --counts "$COUNTS"
for lang in "${LANGUAGES[@]}"; do
    if [[ -f $LIKE/truecase.$lang ]]; then
        run python3 "$ROOT/scripts/truecase.py" apply --lang "$lang" --like "$LIKE" "$LIKE/truecase.$lang" "$TMP/text/$SUBSET.tok.$lang" \
            "$TMP/text/$SUBSET.tok.$lang" --workers "$WORKERS"
    fi
done
if [[ ${#OVERLAP[@]} -gt 0 ]]; then
    run python3 "$ROOT/scripts/binarise.py" drop-overlap "$TMP" "$LIKE" "$LANGUAGE" "$COUNTS"
fi
for lang in "${LANGUAGES[@]}"; do
    run python3 "$ROOT/scripts/segment.py" apply "$LIKE" --lang "$lang" --workers "$WORKERS" \
        --text "$TMP/text/$SUBSET.tok.$lang" "$TMP/text/$SUBSET.bpe.$lang"
done
run python3 "$ROOT/scripts/binarise.py" finish "$TMP" "$LIKE" "$COUNTS"
rm -r -- "$TMP/counts"
replace_folder "$TMP" "$DEST"
echo "$DEST is ready"
