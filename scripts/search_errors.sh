#!/usr/bin/env bash
# How often the beam search misses the best string, by exhaustive search.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: search_errors.sh CHECKPOINT[:CHECKPOINT2...] DATA [--limit SECONDS] [options]

Says how many sentences have a string of higher log P than the beam search found, for several beams: errors of the
search, and not of the model. A depth-first search over all strings starts at the best that any of the beams found and
leaves every prefix of a lower log P. There is no length penalty: the sum of log P is compared, and the empty string may
win.

  --limit SECONDS   for the search of one sentence (default: 10)
  --beams B1,B2     beams to compare (default: 1,5,50)
  --subset SUBSET   valid, test, ... (default: test)
  --sentences N     the first N sentences of the subset (default: all)
  --max-len N       longest string, in tokens (default: 200)
  --out DIR         for search_errors.json and sentences.tsv, a line for each sentence (default: CHECKPOINT.search_errors)

It can be stopped at any moment; run the same command again to resume, as long as CHECKPOINT and DATA are the same. N may
be another number then: the report is of the first N alone, and none is searched again. Options of a length penalty are
refused.

example:
  scripts/search_errors.sh checkpoints/de-en/average.pt data/de-en --limit 30 --sentences 200
HELP
}

LIMIT=10 BEAMS=1,5,50 SUBSET=test SENTENCES=0 LONGEST=200 OUT='' POSITIONAL=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --limit) LIMIT=$(value "$@"); shift ;;
        --beams) BEAMS=$(value "$@"); shift ;;
        --subset) SUBSET=$(value "$@"); shift ;;
        --sentences) SENTENCES=$(value "$@"); number_from --sentences 1 1000000000 "$SENTENCES"; shift ;;
        --max-len) LONGEST=$(value "$@"); number_from --max-len 1 1000 "$LONGEST"; shift ;;
        --out) OUT=$(value "$@"); shift ;;
        --lenpen | --lenpen=* | --length-penalty | --length-penalty=* | --unnormalized)
            die "${1%%=*} must not be given: sums of log P are compared, without a length penalty" ;;
        -h | --help) usage; exit 0 ;;
        -*) die "unknown option '$1' (see --help)" ;;
        *) POSITIONAL+=("$1") ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 2 ]] || die "CHECKPOINT and DATA must be given (see --help)"
need python3

ON_INTERRUPT=resume
run python3 "$ROOT/scripts/search_errors.py" "${POSITIONAL[0]}" "${POSITIONAL[1]%/}" \
    "${OUT:-${POSITIONAL[0]%%:*}.search_errors}" --limit "$LIMIT" --beams "$BEAMS" --subset "$SUBSET" \
    --sentences "$SENTENCES" --max-len "$LONGEST"
