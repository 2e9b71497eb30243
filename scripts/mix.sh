#!/usr/bin/env bash
# Join real and synthetic pairs to one data folder.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: mix.sh OUT REAL SYNTHETIC... [--upsample N]

Makes a data folder whose training text is that of REAL, N times, and that of each SYNTHETIC, once; its validation and
test sets are REAL's. Its dictionaries are the largest of all, so that a tag has its place in them.

  REAL         data folder made by preprocess.sh or binarise.sh
  SYNTHETIC    data folder made by synthesise.sh, or any other with the same codes and dictionaries; --symbols may have
               been appended to these
  --upsample N   copies of the real pairs (default: 1)

OUT appears only when everything is done. Run again with the same input and options, the script checks the files and
does nothing.

example:
  scripts/mix.sh data/de-en-mixed data/de-en data/news-back --upsample 4
HELP
}

UPSAMPLE=1 POSITIONAL=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --upsample) UPSAMPLE=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        -*) die "unknown option '$1' (see --help)" ;;
        *) POSITIONAL+=("${1%/}") ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -ge 3 && -n ${POSITIONAL[0]} ]] || die "OUT, REAL and at least one SYNTHETIC must be given (see --help)"
number_from --upsample 1 1000 "$UPSAMPLE"
OUT=${POSITIONAL[0]} PARTS=("${POSITIONAL[@]:1}")
[[ $OUT != *[,:]* ]] || die "OUT must not contain a comma or a colon, but is '$OUT'"
need python3

build_beside "$OUT"
mkdir -p -- "$TMP/text"
python3 "$ROOT/scripts/mix.py" begin "$TMP" "$UPSAMPLE" "${PARTS[@]}"
if [[ -f $OUT/preprocess.json ]]; then
    python3 "$ROOT/scripts/manifest.py" compare "$OUT/preprocess.json" "$TMP/preprocess.json" OUT
    echo "$OUT is up to date"
    exit 0
elif [[ -e $OUT ]] && ! [[ -d $OUT && -z $(ls -A -- "$OUT") ]]; then
    die "$OUT exists, and was not made by mix.sh; remove it or choose another OUT"
fi
run python3 "$ROOT/scripts/mix.py" finish "$TMP" "$UPSAMPLE" "${PARTS[@]}"
replace_folder "$TMP" "$OUT"
echo "$OUT is ready"
