#!/usr/bin/env bash
# IWSLT14 German to English, from the official archive to the data that fairseq reads.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/iwslt14/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: prepare.sh [--archive FILE] [options]

Makes the standard data of IWSLT14 German to English, as fairseq's prepare-iwslt14.sh does, without Perl and git: the
official archive; its text, tokenised and lower-cased; training pairs of 1 to 175 tokens and a ratio of lengths of at
most 1.5, every 23rd of them for validation; dev2010, dev2012, tst2010, tst2011 and tst2012 for the test; a joint BPE of
10,000 merges and one dictionary. It can be stopped at any moment; run the same command again to resume.

  --archive FILE    the archive de-en.tgz (default: it is downloaded to OUT/de-en.tgz)
  --url URL         where to download it from; repeat it for more places, tried in turn (default: the place that
                    fairseq's script names, then the organisers')
  --sha256 HEX      checksum that the archive must have (default: that of the first download, OUT/de-en.tgz.sha256)
  --bpe-merges N    merge operations (default: 10000)
  --workers N       processes (default: one per core)

environment:
  OUT        folder for everything that is made (default: output/iwslt14); the data is in OUT/data

No published checksum of the archive is known, so a first download cannot be compared with one. The script checks that
the archive is whole (gzip's own checksum), that it has the right members, and that the splits have 160,239, 7,283 and
6,750 pairs; if they do not, it says what that means.
HELP
}

ARCHIVE='' DIGEST='' FETCH=() OPTIONS=() MERGES=10000
while [[ $# -gt 0 ]]; do
    case $1 in
        --archive) ARCHIVE=$(value "$@"); shift ;;
        --url) FETCH+=(--url "$(value "$@")") || exit; shift ;;
        --sha256) DIGEST=$(value "$@"); shift ;;
        --bpe-merges) MERGES=$(value "$@"); shift ;;
        --workers) OPTIONS+=(--workers "$(value "$@")") || exit; shift ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
    shift
done
whole_number --bpe-merges "$MERGES"
[[ -z $DIGEST || $DIGEST =~ ^[0-9a-fA-F]{64}$ ]] || die "--sha256 must be 64 hexadecimal digits, but is '$DIGEST'"
[[ -z $ARCHIVE || ${#FETCH[@]} -eq 0 ]] || die "--archive and --url must not be given together"
need python3
CHECK=()
if [[ -n $DIGEST ]]; then CHECK=(--sha256 "$DIGEST"); fi

OUT=${OUT:-$ROOT/output/iwslt14}
ON_INTERRUPT="resume"
if [[ -z $ARCHIVE ]]; then
    ARCHIVE=$OUT/de-en.tgz
    study fetch "$ARCHIVE" "${CHECK[@]}" "${FETCH[@]}"
fi
study extract "$ARCHIVE" "$OUT/text" "${CHECK[@]}"
run "$ROOT/scripts/preprocess.sh" --source-lang de --target-lang en --train "$OUT/text/train" --test "$OUT/text/test" \
    --valid-every 23 --lowercase --keep-punctuation --max-len 175 --max-ratio 1.5 --bpe-merges "$MERGES" \
    --dest "$OUT/data" "${OPTIONS[@]}"
study counts "$OUT/data"
