#!/usr/bin/env bash
# English to German on Multi30k: text, training, and scores of one recipe.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: run.sh RECIPE [fairseq-train options]

Takes one recipe from text to scores on Multi30k task 1, English to German, by the reference protocol: 10,000 joint BPE
merges, one dictionary of 9,712 types, average of the last ten epochs, beam 5. BLEU on validation chooses between that
average, one of three epochs, and the checkpoint of the best validation loss; the chosen one alone translates test 2016.
It can be stopped at any moment; run the same command again to resume.

  RECIPE     transformer_tiny (fairseq's own, 4 + 4 layers), dlcl_12 (DLCL, 12 + 4), or a YAML file
  options    of fairseq-train, which win over the recipe's, such as --max-update 2500; a training that was begun with
             others is refused, but for a larger end

environment:
  MULTI30K_DIR   folder with train, val and test_2016_flickr as LANG.gz and lc.norm.tok.LANG.gz
                 (default: downloaded from the public repository multi30k/dataset, checksums verified)
  OUT            folder for everything that is made (default: output/multi30k)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/run.sh dlcl_12 --max-update 2500
HELP
}

help_first "$@"
[[ $# -ge 1 ]] || die "RECIPE must be given (see --help)"
RECIPE=$1
shift
[[ -f $RECIPE ]] || RECIPE=$ROOT/configs/multi30k/$RECIPE.yaml
[[ -f $RECIPE ]] || die "RECIPE must be transformer_tiny, dlcl_12 or a file, but is '$(basename "$RECIPE" .yaml)'"
need python3 fairseq-train

NAME=$(basename "$RECIPE" .yaml)
SAVE=$OUT/checkpoints/$NAME RESULT=$OUT/results/$NAME
ON_INTERRUPT="resume"

prepare_data
train_noted "$RECIPE" "$DATA" "$SAVE" "$@"

# The protocol's average of the last ten epochs reaches back too far in a short training, so that of three stands beside it.
choose "$SAVE" "$DATA" "$RESULT"
score_test "$CHOSEN" "$RESULT/test"
