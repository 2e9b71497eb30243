#!/usr/bin/env bash
# LibreOffice's help and interface: from Debian's packages to a translated sentence.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"
export PYTHONPATH=$ROOT/examples/libreoffice:$PYTHONPATH

usage() {
    cat <<'HELP'
usage: run.sh LANGUAGES [RECIPE] [--debs FOLDER] [--text] [fairseq-train options]

Takes text of LibreOffice from Debian's packages to a model that translates it into English: fetch, clean, preprocess,
train, average, translate, score, export. It can be stopped at any moment; run the same command again to resume.

  LANGUAGES        source language, such as de, pt-br or ja; several, such as de,fr, make one model whose sources begin
                   with a tag, <de>; ten: de,fr,es,it,nl,pt-br,cs,ru,ja,zh-cn
  RECIPE           YAML file (default: configs/tiny.yaml)
  --debs FOLDER    .deb files, where apt-get is missing (default: downloaded)
  --text           prepare the text, and train nothing
  options          options of fairseq-train, which win over the recipe's, such as --max-update 1000

environment:
  OUT              folder for everything (default: output/libreoffice); the model of de,fr is in OUT/de_fr

example:
  examples/libreoffice/run.sh de
HELP
}

TEN=de,fr,es,it,nl,pt-br,cs,ru,ja,zh-cn
DEBS=() POSITIONAL=() OPTIONS=() TEXT_ALONE=''
while [[ $# -gt 0 ]]; do
    case $1 in
        --debs) DEBS=(--debs "$(value "$@")") || exit; shift ;;
        --text) TEXT_ALONE=true ;;
        -h | --help) usage; exit 0 ;;
        -*) OPTIONS=("$@"); break ;;
        *) POSITIONAL+=("$1") ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -ge 1 && ${#POSITIONAL[@]} -le 2 ]] || die "LANGUAGES and at most one RECIPE must be given (see --help)"
NAME=${POSITIONAL[0]} RECIPE=${POSITIONAL[1]:-$ROOT/configs/tiny.yaml}
[[ $NAME =~ ^[^,]+(,[^,]+)*$ ]] || die "LANGUAGES must be languages with commas between them, but is '$NAME'"
[[ -f $RECIPE ]] || die "RECIPE must be a file, but there is no '$RECIPE'"
IFS=, read -ra LANGUAGES <<<"${NAME/#ten/$TEN}"
[[ -z $(printf '%s\n' "${LANGUAGES[@]}" | sort | uniq -d) ]] || die "LANGUAGES must have each language once, but is $NAME"
need python3 fairseq-train
BASE=${OUT:-$ROOT/output/libreoffice}
# The name of a data folder has no comma.
OUT=$BASE/${NAME//,/_}
ON_INTERRUPT=resume
SCRIPTS=$ROOT/scripts

for LANGUAGE in "${LANGUAGES[@]}"; do
    PLACE=$BASE/$LANGUAGE
    run python3 -m corpus.fetch "$LANGUAGE" "$PLACE/text" --cache "$BASE/debs" "${DEBS[@]}"
    run "$SCRIPTS/clean.sh" --input "$PLACE/text/train" --output "$PLACE/clean" --source-lang "$LANGUAGE" \
        --target-lang en --recipe "$ROOT/configs/clean.txt"
done
SOURCE=$NAME TRAIN=$OUT/clean SEGMENT=(--bpe-merges 8000) WHOLE=()
if [[ ${#LANGUAGES[@]} -gt 1 ]]; then
    run python3 -m corpus.join "$OUT/text" "${LANGUAGES[@]/#/$BASE/}"
    printf '<[a-z]+(-[a-z]+)?>\n' >"$OUT/tags"
    # Of the sentences of a line, the first alone has the tag.
    WHOLE=(--no-split) SOURCE=mul TRAIN=$OUT/text/train SEGMENT=(--protect "$OUT/tags" --bpe-merges 16000)
fi
if [[ -n $TEXT_ALONE ]]; then
    exit 0
fi
run "$SCRIPTS/preprocess.sh" --source-lang "$SOURCE" --target-lang en --train "$TRAIN" --valid "$OUT/text/valid" \
    --test "$OUT/text/test" --dest "$OUT/data" "${SEGMENT[@]}"
NAME=$(basename "$RECIPE" .yaml)
SAVE=$OUT/checkpoints/$NAME
run "$SCRIPTS/train.sh" "$RECIPE" "$OUT/data" "$SAVE" "${OPTIONS[@]}"
# An option such as --max-update 1000 may leave fewer.
NUMBER=$(find "$SAVE" -maxdepth 1 -name 'checkpoint[0-9]*.pt' | wc -l)
run "$SCRIPTS/average.sh" "$SAVE" "$SAVE/average.pt" --last "$((NUMBER > 5 ? 5 : NUMBER > 1 ? NUMBER : 1))"
run "$SCRIPTS/generate.sh" "$SAVE/average.pt" "$OUT/data" "$OUT/results/$NAME"
run "$SCRIPTS/score.sh" "$OUT/results/$NAME"
run python3 -m deepnmt export "$SAVE/average.pt" "$OUT/data" "$OUT/models/$NAME"
head -n 1 -- "$OUT/text/test.$SOURCE" | run python3 -m deepnmt translate "${WHOLE[@]}" "$OUT/models/$NAME"
echo "translate with: deepnmt translate ${WHOLE[*]:+${WHOLE[*]} }$OUT/models/$NAME"
