#!/usr/bin/env bash
# Give the first words of sentences the case that they mostly have elsewhere, and the way back.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: truecase.sh learn TEXT MODEL [--lang LANG]
       truecase.sh apply MODEL TEXT OUT [--lang LANG] [--workers N]
       truecase.sh undo TEXT OUT [--lang LANG] [--workers N]

TEXT is tokenised, a line each. preprocess.sh --truecase does all of this by itself.

  learn       count the forms of each word where they are not the first of a sentence; MODEL is a file as Moses has it
  apply       give the first word of each sentence its commonest form; other words keep theirs
  undo        begin each sentence with a capital
  --lang LANG   language whose rules hold, such as tr for ı and İ (default: none)
  --workers N   processes (default: one per core)

OUT appears only when everything is done, and may be TEXT.

example:
  scripts/truecase.sh learn text/train.tok.en truecase.en --lang en
  scripts/truecase.sh apply truecase.en text/news.tok.en text/news.true.en --lang en
HELP
}

WORDS=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --workers)
            workers=$(value "$@")
            number_from --workers 1 1024 "$workers"
            OPTIONS+=(--workers "$workers")
            shift
            ;;
        --lang) OPTIONS+=("--lang=$(value "$@")"); shift ;;
        -h | --help) usage; exit 0 ;;
        -*) die "unknown option '$1' (see --help)" ;;
        *) WORDS+=("$1") ;;
    esac
    shift
done
case ${WORDS[0]:-} in
    apply) [[ ${#WORDS[@]} -eq 4 ]] || die "apply must be followed by MODEL, TEXT and OUT (see --help)" ;;
    learn) [[ ${#WORDS[@]} -eq 3 ]] || die "learn must be followed by TEXT and MODEL (see --help)" ;;
    undo) [[ ${#WORDS[@]} -eq 3 ]] || die "undo must be followed by TEXT and OUT (see --help)" ;;
    *) die "the first argument must be learn, apply or undo, but is '${WORDS[0]:-}' (see --help)" ;;
esac
need python3
run python3 "$ROOT/scripts/truecase.py" "${WORDS[@]}" "${OPTIONS[@]}"
