#!/usr/bin/env bash
# The whole job on a small corpus: text, BPE, training, averaging, translation, scores, examples, a model folder.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

usage() {
    cat <<'HELP'
usage: run.sh [fairseq-train options]

Trains a DLCL Transformer with a 12-layer encoder on German and English sentences made by a bilingual grammar, and
translates 500 sentences that are not in the training text: minutes on two cores. It ends with a model folder that
deepnmt translate needs alone. It can be stopped at any moment; run the same command again to resume.

  options    of fairseq-train, which win over those of configs/demo.yaml, such as --max-update 200

environment:
  OUT        folder for everything that is made (default: output/demo)
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit 0
fi
need python3 fairseq-train
OUT=${OUT:-$ROOT/output/demo}
ON_INTERRUPT="resume"
EXAMPLES=8

step() {
    printf '\n== %s (%d s so far)\n' "$*" "$SECONDS"
}

step "1/7 making 25,000 sentence pairs"
run python3 "$ROOT/examples/demo/grammar/generate.py" "$OUT/text"
step "2/7 tokenising, learning a joint BPE, binarising"
run "$ROOT/scripts/preprocess.sh" --source-lang de --target-lang en --train "$OUT/text/train" \
    --valid "$OUT/text/valid" --test "$OUT/text/test" --dest "$OUT/data" --bpe-merges 2000
step "3/7 training"
run "$ROOT/scripts/train.sh" "$ROOT/configs/demo.yaml" "$OUT/data" "$OUT/checkpoints" "$@"
step "4/7 averaging the last three checkpoints"
run "$ROOT/scripts/average.sh" "$OUT/checkpoints" "$OUT/checkpoints/average.pt" --last 3
step "5/7 translating the test set"
run "$ROOT/scripts/generate.sh" "$OUT/checkpoints/average.pt" "$OUT/data" "$OUT/test"
step "6/7 scoring"
run "$ROOT/scripts/score.sh" "$OUT/test" "$OUT/data"

printf '\nExamples\n'
# A fixed choice over the whole test set, not the best ones.
paste -d '\n' "$OUT/test/src.de" "$OUT/test/hyp.en" "$OUT/test/ref.en" |
    awk -v every=60 -v most="$EXAMPLES" 'BEGIN { split("source model reference", name, " ") }
        { pair = int((NR - 1) / 3) }
        pair % every == 0 && pair / every < most { printf "%s  %-9s  %s\n", NR % 3 == 1 ? "\n" : "", name[(NR - 1) % 3 + 1], $0 }'
step "7/7 exporting the model, and translating by it"
run python3 -m deepnmt export "$OUT/checkpoints/average.pt" "$OUT/data" "$OUT/model"
# None of these sentences is in the corpus.
cat >"$OUT/own.de" <<'TEXT'
Die Kinder haben gestern den Brief nicht gelesen.
Meine Tante wird morgen das alte Haus verkaufen.
Weil die Köchin müde war, hat sie heute keinen Kuchen gebacken.
TEXT
run python3 -m deepnmt translate "$OUT/model" "$OUT/own.de" --output "$OUT/own.en"
printf '\n'
paste -d '\n' "$OUT/own.de" "$OUT/own.en"
printf '\nDone in %d s; everything is in %s\n' "$SECONDS" "$OUT"
