#!/usr/bin/env bash
# WMT14 English to German, from the organisers' archives to the data that fairseq reads.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

usage() {
    cat <<'HELP'
usage: prepare.sh --archives DIR [options]

Makes the usual data of WMT14 English to German, as fairseq's prepare-wmt14en2de.sh does, without Perl and git: Europarl
v7, Common Crawl and News Commentary v9 for training, newstest2013 for validation, and newstest2014 (3,003 sentences) for
the test; punctuation normalised, Moses tokenisation, case kept; training pairs of 1 to 250 tokens and a ratio of lengths
of at most 1.5; a joint BPE and one dictionary. It can be stopped at any moment; run the same command again to resume.

  --archives DIR    folder with the five archives, downloaded from the translation task's page at statmt.org/wmt14:
                    training-parallel-europarl-v7.tgz, training-parallel-commoncrawl.tgz, training-parallel-nc-v9.tgz,
                    dev.tgz and test-full.tgz
  --bpe-merges N    merge operations (default: 32000; 37000 and 40000 are usual, too)
  --workers N       processes (default: one per core)

environment:
  OUT        folder for everything that is made (default: output/wmt14); the data is in OUT/data

example:
  examples/wmt14/prepare.sh --archives downloads
HELP
}

ARCHIVES='' MERGES=32000 OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --archives) ARCHIVES=$(value "$@"); shift ;;
        --bpe-merges) MERGES=$(value "$@"); shift ;;
        --workers) OPTIONS+=(--workers "$(value "$@")") || exit; shift ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
    shift
done
[[ -n $ARCHIVES ]] || die "--archives must be given (see --help)"
whole_number --bpe-merges "$MERGES"
need python3

OUT=${OUT:-$ROOT/output/wmt14}
ON_INTERRUPT="resume"
run python3 "$ROOT/examples/wmt14/wmt14_text.py" "$ARCHIVES" "$OUT/text"
run "$ROOT/scripts/preprocess.sh" --source-lang en --target-lang de --train "$OUT/text/train" \
    --valid "$OUT/text/valid" --test "$OUT/text/test" --max-len 250 --max-ratio 1.5 --bpe-merges "$MERGES" \
    --dest "$OUT/data" "${OPTIONS[@]}"
