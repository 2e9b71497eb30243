#!/usr/bin/env bash
# What each search technique gains, and what it costs: one table.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

usage() {
    cat <<'HELP'
usage: search.sh MODEL DATA OUT [--more MODEL]... [--r2l MODEL] [--two-sided MODEL] [--reverse MODEL] [--lm MODEL]
                 [options]

Measures the techniques of docs/search.md with a trained model: beams, length penalties, length range, coverage, stopping,
pruning; reranking, consensus, recombination; and what further models allow. Settings are chosen by BLEU on validation
alone; the test set sees what was chosen. It can be stopped at any moment; run the same command again to resume.

MODEL is a checkpoint; in the options below it can also be 'train': it is then trained first, by a recipe of configs.

  --more MODEL       another model of the same direction, for ensembles and lists; repeatable (train, once: seed 2)
  --r2l MODEL        trained with --right-to-left
  --two-sided MODEL  trained with --two-sided
  --reverse MODEL    of the other direction
  --lm MODEL         a language model of the target, made by train_lm.sh

  --max-update N       updates of what is trained (default: the recipe's)
  --error-sentences N  validation sentences in which search errors are counted, up to 10 s each (default: 200; 0: none)
  --errors FILE        search_errors.json, of search_errors.sh, in the place of counting
  --limit N            the first N pairs of validation and test only, to try it

OUT gets table.tsv: BLEU and chrF on validation and test, their differences from beam 5 with p values of a paired
bootstrap, and time against beam 5; settings.tsv, the scores of all settings on validation, with length ratios and
repeated 4-grams; table.md, both, with the best choices that lists allow, new sentences and search errors; search.png and
search.svg, BLEU over length penalty and beam, and search errors over beam; and all translations. Tuned weights have
seen validation, so that test alone says what they gain.

example:
  examples/multi30k/search.sh output/multi30k/checkpoints/dlcl_12/average10.pt output/multi30k/data output/search \
      --more train --r2l train --two-sided train --reverse train --lm train --max-update 2500
HELP
}

for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
done
[[ $# -ge 3 ]] || die "MODEL, DATA and OUT must be given (see --help)"
need python3 fairseq-generate
ON_INTERRUPT="resume"
export PYTHONPATH=$ROOT/examples/multi30k:$PYTHONPATH
run python3 -m techniques "$@"
