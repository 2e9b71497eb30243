#!/usr/bin/env bash
# The scores of translations, for people and as JSON.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: score.sh OUT_DIR [DATA]

Scores the translations in OUT_DIR, a folder made by generate.sh, and writes OUT_DIR/scores.json:

  tokenised BLEU    tokens against tokens, what papers on small corpora report (as multi-bleu.perl, fairseq-score)
  BLEU, chrF, TER   detokenised translations against the raw reference, by sacrebleu, with signatures; the ones to
                    compare with others. Case-insensitive where the data was lower-cased.

DATA, the data folder, is needed only if OUT_DIR has no generate.json.

example:
  scripts/score.sh results/de-en
HELP
}

for argument in "$@"; do
    case $argument in
        -h | --help) usage; exit 0 ;;
        -*) die "unknown option '$argument' (see --help)" ;;
    esac
done
[[ $# -ge 1 ]] || die "OUT_DIR must be given (see --help)"
[[ $# -le 2 ]] || die "unexpected argument '$3' (see --help)"

need python3
run python3 "$ROOT/scripts/score.py" "$@"
