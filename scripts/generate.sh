#!/usr/bin/env bash
# Translate a subset of the data; write translations in the order of the corpus, beside their references.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: generate.sh CHECKPOINT[:CHECKPOINT2...] DATA OUT_DIR [--subset SUBSET] [--reverse] [--nbest N]
                   [--glossary FILE | --terms FILE] [fairseq-generate options]

Translates a subset of DATA, a folder made by preprocess.sh, with one checkpoint or an ensemble: on the GPU in half
precision if there is one, else on the CPU.

  --subset SUBSET   valid, test, test1, ... (default: test)
  --reverse         translate the other way, from DATA's target language to its source language; DATA must have no
                    placeholders
  --nbest N         write the N best translations of each sentence to OUT_DIR/nbest.tsv as well: sentence (from 0),
                    rank, subwords, and features as name=value: model (log P in nats), length, coverage, unk

  --glossary FILE   follow a glossary: on each line a term, a tab, and its translation, which the model reads beside the
                    term; for models and data of preprocess.sh --glossary-training (docs/glossary.md)
  --terms FILE      force translations of terms: a file as for --glossary; the output contains the translation wherever
                    the source has the term, for any model, but the rest of the sentence suffers; slower, and excludes
                    this package's search options

All other options go to fairseq-generate and override the defaults --beam 5 --batch-size 128. docs/search.md lists those
of this package: length and coverage penalties, length ranges, when to stop, ensembles. They and --nbest need the
package's task, which is the default.

OUT_DIR gets the translations (hyp.LANG; hyp.tok.LANG as tokens without BPE), the references (ref.LANG, ref.tok.LANG),
src.LANG, generate.log (all output of fairseq-generate) and generate.json; with --glossary, inline.LANG too, what the
model read. An existing OUT_DIR is replaced when
everything is done.

example:
  scripts/generate.sh checkpoints/de-en/average.pt data/de-en results/de-en --beam 4 --lenpen 0.6
HELP
}

SUBSET=test REVERSE=() NBEST=() TERMS='' GLOSSARY='' MORE=() POSITIONAL=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --subset | --gen-subset) SUBSET=$(value "$@"); shift ;;
        --reverse) REVERSE=(--reverse) ;;
        --terms) TERMS=$(value "$@"); shift ;;
        --glossary) GLOSSARY=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        *)
            [[ $1 != --nbest && $1 != --nbest=* ]] || NBEST=(--nbest-file nbest.tsv)
            sort_argument "$1"
            ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 3 ]] || die "CHECKPOINT, DATA and OUT_DIR must be given, before any option (see --help)"
[[ -z $TERMS || -z $GLOSSARY ]] || die "--glossary cannot be combined with --terms"
CHECKPOINT=${POSITIONAL[0]} DATA=${POSITIONAL[1]%/} OUT=${POSITIONAL[2]%/}

need python3 fairseq-generate
if [[ -e $OUT && ! -d $OUT ]]; then
    die "$OUT exists, and is not a folder; remove it or choose another OUT_DIR"
fi
# Others write a generate.json, too.
if [[ -d $OUT && -n $(ls -A -- "$OUT") && ! (-f $OUT/generate.json && -f $OUT/generate.log) ]]; then
    die "$OUT exists, and was not made by generate.sh; remove it or choose another OUT_DIR"
fi

CHECKED=$(python3 "$ROOT/scripts/translations.py" check "${REVERSE[@]}" "$DATA" "$SUBSET" "${OPTIONS[@]}")
read -r SOURCE TARGET SENTENCES <<<"$CHECKED"

build_beside "$OUT"
mkdir -p -- "$TMP"
[[ ${#NBEST[@]} -eq 0 ]] || NBEST=(--nbest-file "$TMP/nbest.tsv")
if [[ -n $TERMS ]]; then
    run python3 "$ROOT/scripts/translations.py" terms "$TERMS" "$DATA" "$SUBSET" "$TMP/constraints" "${REVERSE[@]}"
    MORE=(--constraints unordered --constraint-file "$TMP/constraints")
fi
READ=$DATA
if [[ -n $GLOSSARY ]]; then
    READ=$TMP/read MORE=(--inline-targets)
    run python3 "$ROOT/scripts/glossary.py" inline "$GLOSSARY" "$DATA" "$SUBSET" "$READ" "${REVERSE[@]}"
fi
if ! PYTHONSAFEPATH=1 run python3 "$ROOT/scripts/translations.py" watch "$TMP/generate.log" "$SENTENCES" \
    python3 -m deepnmt.commands.generate "$READ" --path "$CHECKPOINT" "${REVERSE[@]}" --selected-on "$TMP/selected-on" \
    --user-dir "$ROOT/deepnmt" --task deep_translation --gen-subset "$SUBSET" --source-lang "$SOURCE" \
    --target-lang "$TARGET" --beam 5 --batch-size 128 --post-process subword_nmt \
    --skip-invalid-size-inputs-valid-test --no-progress-bar "${NBEST[@]}" "${MORE[@]}" "${OPTIONS[@]}"; then
    # Refused before anything was translated.
    if grep "^$SCRIPT: error: " -- "$TMP/generate.log" >&2; then exit 2; fi
    mv -- "$TMP/generate.log" "$OUT.failed.log"
    # fairseq's parser lists all its tasks, or criterions, of which there are many.
    FAULTS=$(grep '^deepnmt: error: ' -- "$OUT.failed.log" || tail -n 1 -- "$OUT.failed.log" |
        sed -E 's/ [(]choose from .{200,}[)]$/ (see fairseq-generate --help)/')
    die "fairseq-generate failed: $FAULTS (all of its output is in $OUT.failed.log)"
fi
run python3 "$ROOT/scripts/translations.py" extract "$TMP/generate.log" "$DATA" "$SUBSET" "$TMP" "${REVERSE[@]}" \
    --selected-on "$TMP/selected-on" ${TERMS:+--constraints "$TMP/constraints"}
if [[ -n $GLOSSARY ]]; then
    run python3 "$ROOT/scripts/glossary.py" note "$READ" "$DATA" "$TMP" "${REVERSE[@]}"
    rm -r -- "$READ"
fi
rm -f -- "$TMP/selected-on"
replace_folder "$TMP" "$OUT"
rm -f -- "$OUT.failed.log"
echo "$OUT is ready: translations in $OUT/hyp.$TARGET"
