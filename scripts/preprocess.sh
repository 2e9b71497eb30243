#!/usr/bin/env bash
# Turn raw parallel text into the binarised data that fairseq reads.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# shellcheck source=scripts/preprocess_options.sh
source "$ROOT/scripts/preprocess_options.sh"
need python3 fairseq-preprocess

SPLITS=(train) PREFIXES=("$TRAIN") RAWS=('')
if [[ -n $VALID ]]; then
    SPLITS+=(valid) PREFIXES+=("$VALID") RAWS+=("$RAW_VALID")
fi
for i in "${!TESTS[@]}"; do
    SPLITS+=("test${i#0}")
    PREFIXES+=("${TESTS[i]}")
    RAWS+=("${RAW_TESTS[i]:-}")
done

INPUTS=()
for i in "${!SPLITS[@]}"; do
    for lang in "$SOURCE" "$TARGET"; do
        INPUTS+=("${SPLITS[i]}.$lang=${PREFIXES[i]}.$lang")
        if [[ -n ${RAWS[i]} ]]; then
            INPUTS+=("${SPLITS[i]}.raw.$lang=${RAWS[i]}.$lang")
        fi
    done
done

# A folder of an earlier version, whose record lacks a setting, is up to date as it is.
is_recorded() {
    ! [[ -f $DEST/preprocess.json ]] || grep -q "\"$1\": " -- "$DEST/preprocess.json"
}

# Named in the record only where they are used, so that folders made without them stay what they are.
EXTRA=()
if [[ -n $PLACEHOLDERS ]]; then EXTRA+=("placeholders=$PLACEHOLDERS"); fi
if [[ -n $CHINESE ]]; then EXTRA+=("segment=$CHINESE"); fi
if [[ -n $PROTECT$PLACEHOLDERS ]] && is_recorded units_first; then EXTRA+=(units_first=true); fi
CASE=false
if [[ $LOWERCASE == true || $TRUECASE == true ]] && is_recorded language_case; then
    CASE=true
    EXTRA+=(language_case=true)
fi
if [[ $PRETOKENIZED == false ]] && is_recorded reversible; then EXTRA+=(reversible=true); fi
if [[ $KIND != bpe ]]; then EXTRA+=("subwords=$KIND"); fi
if [[ -n $VOCABULARY && $KIND != char ]]; then EXTRA+=("vocabulary=$VOCABULARY"); fi
if [[ $KIND == wordpiece ]]; then EXTRA+=("min_pair_count=$PAIR_COUNT"); fi
if [[ $SEPARATE == true ]]; then EXTRA+=(separate=true); fi
if [[ $THRESHOLD -gt 0 ]]; then EXTRA+=("vocabulary_threshold=$THRESHOLD"); fi
if [[ $SPELL == true ]]; then EXTRA+=(spell_unknown=true); fi
if [[ $BYTES == true ]]; then EXTRA+=(byte_fallback=true); fi
if [[ $KEEP_PUNCTUATION == true ]]; then EXTRA+=(keep_punctuation=true); fi
if [[ -n $NORMALISE ]]; then EXTRA+=("normalise=$NORMALISE"); fi
if [[ $TRUECASE == true ]]; then EXTRA+=(truecase=true); fi
if [[ -n $VALID_EVERY ]]; then EXTRA+=("valid_every=$VALID_EVERY"); fi
if [[ -n $COPIES ]]; then EXTRA+=("bpe_dropout=$DROPOUT" "copies=$COPIES"); fi
if [[ -n $GLOSSARY ]]; then EXTRA+=(glossary=true "glossary_training=$GLOSSARY"); fi

DEST=${DEST%/}
build_beside "$DEST"
mkdir -p -- "$TMP/text" "$TMP/counts"
RECORD=$TMP/preprocess.json
python3 "$ROOT/scripts/manifest.py" describe "$RECORD" "source_lang=$SOURCE" "target_lang=$TARGET" \
    "lowercase=$LOWERCASE" "pretokenized=$PRETOKENIZED" "bpe_merges=$MERGES" "joined_dictionary=$JOINED" \
    "max_len=$MAX_LEN" "max_ratio=$MAX_RATIO" "${EXTRA[@]}" ${PROTECT:+--protect "$PROTECT"} --inputs "${INPUTS[@]}"

if [[ -f $DEST/preprocess.json ]]; then
    python3 "$ROOT/scripts/manifest.py" compare "$DEST/preprocess.json" "$RECORD"
    echo "$DEST is up to date"
    exit 0
elif [[ -e $DEST ]] && ! [[ -d $DEST && -z $(ls -A -- "$DEST") ]]; then
    die "$DEST exists, and was not made by preprocess.sh; remove it or choose another --dest"
fi

COUNTS=()
for i in "${!SPLITS[@]}"; do
    split=${SPLITS[i]}
    options=(--workers "$WORKERS")
    if [[ $split == train ]]; then
        options+=(--max-len "$MAX_LEN" --max-ratio "$MAX_RATIO")
    fi
    if [[ $LOWERCASE == true ]]; then options+=(--lowercase); fi
    if [[ $CASE == true ]]; then options+=(--language-case); fi
    if [[ $PRETOKENIZED == true ]]; then options+=(--pretokenized); fi
    if [[ $KEEP_PUNCTUATION == true ]]; then options+=(--keep-punctuation); fi
    if [[ -n $NORMALISE ]]; then options+=(--normalise "$NORMALISE"); fi
    if [[ -n ${RAWS[i]} ]]; then options+=(--raw="${RAWS[i]}"); fi
    if [[ -n $PROTECT$PLACEHOLDERS ]]; then options+=(--protect "$RECORD"); fi
    if [[ -n $PLACEHOLDERS ]]; then options+=(--placeholders "$PLACEHOLDERS"); fi
    if [[ -n $CHINESE ]]; then options+=(--segment "$CHINESE"); fi
    COUNTS+=("$TMP/counts/$split.json")
    run python3 "$ROOT/scripts/prepare_text.py" --source-lang "$SOURCE" --target-lang "$TARGET" \
        --input="${PREFIXES[i]}" --output "$TMP/text/$split" --counts "${COUNTS[-1]}" "${options[@]}"
    if [[ $split == train && -n $VALID_EVERY ]]; then
        COUNTS+=("$TMP/counts/valid.json")
        run python3 "$ROOT/scripts/hold_out.py" "$TMP/text/train" "$TMP/text/valid" "$VALID_EVERY" --counts "${COUNTS[@]}"
    fi
done
TEXTS=("${SPLITS[@]}")
if [[ -n $VALID_EVERY ]]; then TEXTS+=(valid); fi
if [[ $TRUECASE == true ]]; then
    for lang in "$SOURCE" "$TARGET"; do
        run python3 "$ROOT/scripts/truecase.py" learn --lang "$lang" "$TMP/text/train.tok.$lang" "$TMP/truecase.$lang"
        for split in "${TEXTS[@]}"; do
            run python3 "$ROOT/scripts/truecase.py" apply --lang "$lang" --like "$TMP" "$TMP/truecase.$lang" "$TMP/text/$split.tok.$lang" \
                "$TMP/text/$split.tok.$lang" --workers "$WORKERS"
        done
    done
fi

# What is cut into subwords: TOKENS/SPLIT MIDDLE .LANG
TOKENS=$TMP/text MIDDLE=.tok
if [[ -n $PLACEHOLDERS ]]; then
    TOKENS=$TMP/tagged MIDDLE=
    mkdir -- "$TOKENS"
    for split in "${TEXTS[@]}"; do
        training=()
        if [[ $split == train ]]; then training=(--train); fi
        run python3 "$ROOT/scripts/tag_units.py" tag "$TMP" "$split" "$TOKENS/$split" "${training[@]}"
    done
fi
PLAIN=true
if [[ $KIND != bpe || $SEPARATE == true || $LIMITED == true || -n $PROTECT || -n $PLACEHOLDERS ]]; then PLAIN=false; fi

# CODES TEXT...
learn() {
    if [[ $MERGES != 0 ]]; then
        run python3 "$ROOT/scripts/segment.py" learn "$1" "$MERGES" "${@:2}"
    else
        run python3 "$ROOT/scripts/learn_subwords.py" "$KIND" "$1" "${VOCABULARY:-0}" "${@:2}" \
            --min-pair-count "$PAIR_COUNT"
    fi
}
if [[ $SEPARATE == true ]]; then
    learn "$TMP/codes.$SOURCE" "$TOKENS/train$MIDDLE.$SOURCE"
    learn "$TMP/codes.$TARGET" "$TOKENS/train$MIDDLE.$TARGET"
else
    learn "$TMP/codes" "$TOKENS/train$MIDDLE.$SOURCE" "$TOKENS/train$MIDDLE.$TARGET"
fi
if [[ $LIMITED == true ]]; then
    CHARACTERS=()
    if [[ $SPELL == true ]]; then CHARACTERS=(--characters); fi
    for lang in "$SOURCE" "$TARGET"; do
        run python3 "$ROOT/scripts/segment.py" apply "$TMP" --lang "$lang" --unlimited --workers "$WORKERS" \
            --text "$TOKENS/train$MIDDLE.$lang" "$TMP/text/train.bpe.$lang"
        run python3 "$ROOT/scripts/segment.py" vocabulary "$TMP/vocabulary.$lang" $((THRESHOLD > 0 ? THRESHOLD : 1)) \
            "$TMP/text/train.bpe.$lang" "${CHARACTERS[@]}"
    done
fi
SEGMENT=()
for split in "${TEXTS[@]}"; do
    for lang in "$SOURCE" "$TARGET"; do
        SEGMENT+=(--text "$TOKENS/$split$MIDDLE.$lang" "$TMP/text/$split.bpe.$lang")
        if [[ $PLAIN == false ]]; then
            run python3 "$ROOT/scripts/segment.py" apply "$TMP" --lang "$lang" --workers "$WORKERS" "${SEGMENT[@]}"
            SEGMENT=()
        fi
    done
done
if [[ ${#SEGMENT[@]} -gt 0 ]]; then
    run python3 "$ROOT/scripts/segment.py" apply "$TMP/codes" --workers "$WORKERS" "${SEGMENT[@]}"
fi

if [[ -n $GLOSSARY ]]; then
    run "$ROOT/scripts/align.sh" "$TOKENS/train${MIDDLE}" "$TMP/aligned" --source-lang "$SOURCE" --target-lang "$TARGET" \
        --workers "$WORKERS"
    run python3 "$ROOT/scripts/inline_terms.py" make "$TMP" "$TOKENS/train$MIDDLE" "$TMP/aligned/joined.align" \
        "$GLOSSARY" "$TMP/counts" --workers "$WORKERS"
    for lang in "$SOURCE-$TARGET" "$TARGET-$SOURCE"; do COUNTS+=("$TMP/counts/train1.$lang.json"); done
    rm -r -- "$TMP/aligned"
fi

TRAIN_TEXT=$TMP/text/train.bpe TEST_TEXTS=()
for split in "${SPLITS[@]}"; do
    if [[ $split == test* ]]; then TEST_TEXTS+=("$TMP/text/$split.bpe"); fi
done
options=()
# LANG FOLDER [--types FILE... [--bytes]] [--marks]: a dictionary with more types than the text has.
dictionary() {
    if [[ $JOINED == true && $1 == "$TARGET" ]]; then
        cp -- "$2/dict.$SOURCE.txt" "$2/dict.$TARGET.txt"
        return
    fi
    local texts=("$TMP/text/train.bpe.$1")
    if [[ $JOINED == true ]]; then texts=("$TMP/text/train.bpe.$SOURCE" "$TMP/text/train.bpe.$TARGET"); fi
    run python3 "$ROOT/scripts/segment.py" dictionary "$TMP/codes" "$2/dict.$1.txt" "${texts[@]}" "${@:3}"
}
if [[ -n $COPIES ]]; then
    mkdir -- "$TMP/copies"
    for ((copy = 0; copy < COPIES; copy++)); do
        SEGMENT=()
        for lang in "$SOURCE" "$TARGET"; do
            SEGMENT+=(--text "$TOKENS/train$MIDDLE.$lang" "$TMP/copies/$copy.$lang")
        done
        run python3 "$ROOT/scripts/segment.py" apply "$TMP/codes" --workers "$WORKERS" --dropout "$DROPOUT" \
            --seed $((copy + 1)) "${SEGMENT[@]}"
    done
    for lang in "$SOURCE" "$TARGET"; do
        dictionary "$lang" "$TMP/copies"
    done
    options+=(--srcdict "$TMP/copies/dict.$SOURCE.txt" --tgtdict "$TMP/copies/dict.$TARGET.txt")
    TRAIN_TEXT=$TMP/copies/0
    TESTS_ALONE=${#TEST_TEXTS[@]}
    # fairseq-preprocess starts once, and takes one training text, but any number for the test.
    for ((copy = 1; copy < COPIES; copy++)); do
        TEST_TEXTS+=("$TMP/copies/$copy")
    done
elif [[ $LIMITED == true || -n $GLOSSARY ]]; then
    mkdir -- "$TMP/dictionaries"
    for lang in "$SOURCE" "$TARGET"; do
        types=() files=()
        if [[ $LIMITED == true ]]; then files=("$TMP/vocabulary.$lang"); fi
        if [[ $LIMITED == true && $JOINED == true ]]; then files=("$TMP/vocabulary.$SOURCE" "$TMP/vocabulary.$TARGET"); fi
        # Inline targets are words of the other language.
        if [[ -n $GLOSSARY && $JOINED == false ]]; then
            for other in "$SOURCE" "$TARGET"; do
                run python3 "$ROOT/scripts/segment.py" vocabulary "$TMP/dictionaries/$other" 1 "$TMP/text/train.bpe.$other"
                files+=("$TMP/dictionaries/$other")
            done
        fi
        if [[ ${#files[@]} -gt 0 ]]; then types=(--types "${files[@]}"); fi
        if [[ $BYTES == true ]]; then types+=(--bytes); fi
        if [[ -n $GLOSSARY ]]; then types+=(--marks); fi
        dictionary "$lang" "$TMP/dictionaries" "${types[@]}"
    done
    options+=(--srcdict "$TMP/dictionaries/dict.$SOURCE.txt" --tgtdict "$TMP/dictionaries/dict.$TARGET.txt")
elif [[ $JOINED == true ]]; then
    options+=(--joined-dictionary)
fi
if [[ ${#TEST_TEXTS[@]} -gt 0 ]]; then
    options+=(--testpref "$(IFS=,; printf '%s' "${TEST_TEXTS[*]}")")
fi
# What it writes to standard error are warnings that no one can act on, and at worst a traceback; its last line says why.
fairseq-preprocess() {
    command fairseq-preprocess "$@" 2>"$TMP/error"
}
run fairseq-preprocess --source-lang "$SOURCE" --target-lang "$TARGET" --trainpref "$TRAIN_TEXT" \
    --validpref "$TMP/text/valid.bpe" --destdir "$TMP" --workers "$WORKERS" "${options[@]}" || {
    # Where the disk is full, the reason found no room either.
    REASON=$(tail -n 1 -- "$TMP/error")
    die "fairseq-preprocess failed: ${REASON:-it could not write why, nor perhaps its files: is the disk full?}"
}
if [[ -n $GLOSSARY ]]; then run python3 "$ROOT/scripts/inline_terms.py" binarise "$TMP"; fi
rm -rf -- "$TMP/error" "$TMP/dictionaries" "$TMP/tagged"

ALL=$DEST
if [[ -n $COPIES ]]; then
    for ((copy = 1; copy < COPIES; copy++)); do
        mkdir -- "$TMP/copy$copy"
        number=$((TESTS_ALONE + copy - 1))
        for lang in "$SOURCE" "$TARGET"; do
            for end in bin idx; do
                mv -- "$TMP/test${number#0}.$SOURCE-$TARGET.$lang.$end" "$TMP/copy$copy/train.$SOURCE-$TARGET.$lang.$end"
            done
            cp -- "$TMP/dict.$lang.txt" "$TMP/copy$copy"
        done
        ALL+=:$DEST/copy$copy
    done
    rm -r -- "$TMP/copies"
fi

python3 "$ROOT/scripts/manifest.py" finish "$RECORD" "$TMP" "${COUNTS[@]}"
rm -r -- "$TMP/counts"
replace_folder "$TMP" "$DEST"
echo "$DEST is ready"
if [[ -n $COPIES ]]; then echo "train on all copies with: scripts/train.sh RECIPE $ALL SAVE"; fi
