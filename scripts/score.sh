#!/usr/bin/env bash
# The scores of translations, for people and as JSON.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: score.sh OUT_DIR [DATA] [--split-compounds]

Scores the translations in OUT_DIR, a folder made by generate.sh, and writes OUT_DIR/scores.json:

  tokenised BLEU    tokens against tokens, what papers on small corpora report (as multi-bleu.perl, fairseq-score)
  compounds split   with --split-compounds: the same with words split at hyphens in both texts (as fairseq's
                    compound_split_bleu.sh), most often a little higher
  BLEU, chrF, TER   detokenised translations against the raw reference, by sacrebleu, with signatures; the ones to
                    compare with others. Case-insensitive where the data was lower-cased.

DATA, the data folder, is needed only if OUT_DIR has no generate.json.

example:
  scripts/score.sh results/de-en
HELP
}

POSITIONAL=() OPTIONS=()
for argument in "$@"; do
    case $argument in
        -h | --help) usage; exit 0 ;;
        --split-compounds) OPTIONS=("$argument") ;;
        -*) die "unknown option '$argument' (see --help)" ;;
        *) POSITIONAL+=("$argument") ;;
    esac
done
[[ ${#POSITIONAL[@]} -ge 1 ]] || die "OUT_DIR must be given (see --help)"
[[ ${#POSITIONAL[@]} -le 2 ]] || die "unexpected argument '${POSITIONAL[2]}' (see --help)"

need python3
run python3 "$ROOT/scripts/score.py" "${POSITIONAL[@]}" "${OPTIONS[@]}"
