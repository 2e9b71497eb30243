#!/usr/bin/env bash
# LibreOffice's help and interface: from Debian's packages to a translated sentence.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
export PYTHONPATH=$ROOT/examples/libreoffice:$PYTHONPATH

usage() {
    cat <<'HELP'
usage: run.sh LANGUAGES [RECIPE] [--debs FOLDER] [fairseq-train options]

Takes text of LibreOffice from Debian's packages to a model that translates it into English: fetch, clean, preprocess,
train, average, translate, score, export. It can be stopped at any moment; run the same command again to resume.

  LANGUAGES        source language, such as de, pt-br or ja; several, such as de,fr, or ten, the ten with most text, make
                   one model whose sources begin with a tag, <de>
  RECIPE           YAML file (default: configs/tiny.yaml)
  --debs FOLDER    .deb files, where apt-get is missing (default: downloaded)
  options          options of fairseq-train, which win over the recipe's, such as --max-update 1000

environment:
  OUT              folder for everything (default: output/libreoffice)

example:
  examples/libreoffice/run.sh de
HELP
}

DEBS=() POSITIONAL=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --debs) DEBS=(--debs "$(value "$@")") || exit; shift ;;
        -h | --help) usage; exit 0 ;;
        -*) OPTIONS=("$@"); break ;;
        *) POSITIONAL+=("$1") ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -ge 1 && ${#POSITIONAL[@]} -le 2 ]] || die "LANGUAGES and at most one RECIPE must be given (see --help)"
LANGUAGES=${POSITIONAL[0]} RECIPE=${POSITIONAL[1]:-$ROOT/configs/tiny.yaml}
[[ -f $RECIPE ]] || die "RECIPE must be a file, but there is no '$RECIPE'"
need python3 fairseq-train
OUT=${OUT:-$ROOT/output/libreoffice}/$LANGUAGES
ON_INTERRUPT=resume
SCRIPTS=$ROOT/scripts

run python3 -m corpus.fetch "$LANGUAGES" "$OUT/text" --cache "${OUT%/*}/debs" "${DEBS[@]}"
SOURCE=mul FILTERS=(--length 1:100 --repeats 2 --no-copies 0.8) SEGMENT=(--protect "$OUT/tags" --bpe-merges 16000)
if [[ $LANGUAGES != *,* && $LANGUAGES != ten ]]; then
    SOURCE=$LANGUAGES FILTERS=(--recipe "$ROOT/configs/clean.txt") SEGMENT=(--bpe-merges 8000)
else
    printf '<[a-z]+(-[a-z]+)?>\n' >"$OUT/tags"
fi
PAIR=(--source-lang "$SOURCE" --target-lang en)
run "$SCRIPTS/clean.sh" --input "$OUT/text/train" --output "$OUT/clean" "${PAIR[@]}" "${FILTERS[@]}"
run "$SCRIPTS/preprocess.sh" "${PAIR[@]}" --train "$OUT/clean" --valid "$OUT/text/valid" --test "$OUT/text/test" \
    --dest "$OUT/data" "${SEGMENT[@]}"
NAME=$(basename "$RECIPE" .yaml)
SAVE=$OUT/checkpoints/$NAME
run "$SCRIPTS/train.sh" "$RECIPE" "$OUT/data" "$SAVE" "${OPTIONS[@]}"
run "$SCRIPTS/average.sh" "$SAVE" "$SAVE/average.pt" --last 5
run "$SCRIPTS/generate.sh" "$SAVE/average.pt" "$OUT/data" "$OUT/results/$NAME"
run "$SCRIPTS/score.sh" "$OUT/results/$NAME"
run python3 -m deepnmt export "$SAVE/average.pt" "$OUT/data" "$OUT/models/$NAME"
head -n 1 -- "$OUT/text/test.$SOURCE" | run python3 -m deepnmt translate "$OUT/models/$NAME"
echo "translate with: deepnmt translate $OUT/models/$NAME"
