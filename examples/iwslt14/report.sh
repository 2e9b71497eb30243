#!/usr/bin/env bash
# All rows of the IWSLT14 study in one table, beside what was published.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/iwslt14/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: report.sh [--baseline ROW] [--samples N] [--smoke]

Writes OUT/report.md and OUT/report.html: every row with its published figure and, where run.sh has finished it, BLEU of
the best epoch and of the average of the last five, with compounds split, sacreBLEU, epochs to the best, hours, and the
mean and deviation over seeds. Rows that were not run say so.

  --baseline ROW    also test each row against this one, by sacrebleu's paired bootstrap on the test set
  --samples N       bootstrap samples (default: 1000)
  --smoke           report what run.sh --smoke has made

environment:
  OUT        folder of run.sh (default: output/iwslt14)

example:
  examples/iwslt14/report.sh --baseline 3.1/10
HELP
}

OUT=${OUT:-$ROOT/output/iwslt14} OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --baseline | --samples)
            OPTIONS+=("$1" "$(value "$@")") || exit
            if [[ $1 == --samples ]]; then whole_number "$1" "${OPTIONS[-1]}"; fi
            shift
            ;;
        --smoke) OUT=$OUT/smoke OPTIONS+=("$1") ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
    shift
done
need python3
study report "$OUT" "${OPTIONS[@]}"
