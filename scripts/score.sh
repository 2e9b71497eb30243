#!/usr/bin/env bash
# Score translations; print the scores and write them as JSON.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: score.sh OUT_DIR [DATA] [--reverse] [--split-compounds]

Scores the translations in OUT_DIR, a folder made by generate.sh, and writes OUT_DIR/scores.json:

  tokenised BLEU    on tokens, as papers on small corpora report it (as multi-bleu.perl, fairseq-score)
  compounds split   with --split-compounds: tokenised BLEU with words split at hyphens in both texts (as fairseq's
                    compound_split_bleu.sh); usually a little higher
  BLEU, chrF, TER   on detokenised translations and the raw reference, by sacrebleu, with signatures: compare these
                    with other people's. Case-insensitive if the data was lower-cased.

DATA, the data folder, is needed only if OUT_DIR has no generate.json. With --reverse, the translations are of the other
direction, from DATA's target language to its source language.

example:
  scripts/score.sh results/de-en
HELP
}

POSITIONAL=() OPTIONS=()
for argument in "$@"; do
    case $argument in
        -h | --help) usage; exit 0 ;;
        --split-compounds | --reverse) OPTIONS+=("$argument") ;;
        -*) die "unknown option '$argument' (see --help)" ;;
        *) POSITIONAL+=("$argument") ;;
    esac
done
[[ ${#POSITIONAL[@]} -ge 1 ]] || die "OUT_DIR must be given (see --help)"
[[ ${#POSITIONAL[@]} -le 2 ]] || die "unexpected argument '${POSITIONAL[2]}' (see --help)"

need python3
run python3 "$ROOT/scripts/score.py" "${POSITIONAL[@]}" "${OPTIONS[@]}"
