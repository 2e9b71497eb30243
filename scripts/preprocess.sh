#!/usr/bin/env bash
# Turn raw parallel text into the binarised data that fairseq reads.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: preprocess.sh --source-lang LANG --target-lang LANG --train PREFIX (--valid PREFIX | --valid-every N)
                     --dest DIR [options]

Turns parallel text, PREFIX.LANG with one sentence per line, into binarised data: normalises punctuation,
tokenises (Moses, by sacremoses), learns and applies a joint BPE (subword-nmt), and runs fairseq-preprocess.

  --source-lang LANG, --target-lang LANG   languages, which are also the endings of the files
  --train PREFIX         training text; pairs that are empty, too long or out of ratio are skipped and counted, and in
                         all texts pairs with a word of more than 1,000 characters
  --valid PREFIX         validation text; pairs with an empty side are skipped and counted
  --valid-every N        instead of --valid: use every Nth remaining training pair for validation
  --test PREFIX          test text, as --valid; repeat it for the subsets test, test1, ... (default: none)
  --dest DIR             folder to make; it must not exist, unless the same command made it
  --bpe-merges N         merge operations of the BPE, learnt on both languages together (default: 10000)
  --subwords KIND        bpe (subword-nmt), wordpiece, unigram (learnt by sentencepiece), or char (default: bpe)
  --vocabulary N         types of the subwords, characters included; for bpe in place of --bpe-merges (default: 10000)
  --min-pair-count N     times that two word pieces must be seen side by side to be merged (default: 30)
  --separate             learn the subwords of each language by itself
  --vocabulary-threshold N                 take types apart again that a language's training text has fewer than N times
  --spell-unknown        cut words into characters that would have a type that the training text lacks
  --byte-fallback        cut characters that the training text lacks into bytes, so that nothing is unknown; with
                         --vocabulary-threshold rarer ones too, so that bytes are trained
  --protect FILE         patterns, a regular expression a line: words that one matches are cut neither by the tokeniser
                         nor into subwords
  --placeholders KINDS   numbers, urls, or both with a comma: tags stand in their place where both sides of a training
                         pair agree, and always in the source of a translation, where they are put back by their order
  --segment jieba        cut Chinese into words by jieba (pip install 'deepnmt[chinese]')
  --lowercase            lower-case all text; scores are then case-insensitive
  --truecase             give the first word of each sentence the form that it mostly has elsewhere in the training
                         text; generate.sh and deepnmt-translate begin sentences with a capital again
  --normalise STEPS      one code for one sign, before tokenisation; STEPS are width (full-width and small forms),
                         nfkc (Unicode's NFKC), punctuation (Unicode's punctuation to ASCII) and simplified
                         (traditional Chinese), with commas between them, and are done in this order
  --keep-punctuation     tokenise without normalising the punctuation
  --pretokenized         the text is already normalised and tokenised
  --raw-valid PREFIX, --raw-test PREFIX    with --pretokenized: the same text untokenised, needed for detokenised
                         scores (--raw-test once for each --test; default: none)
  --separate-dictionaries                  make a dictionary for each language (default: one for both)
  --max-len N            longest side of a training pair, in tokens before BPE; 0: no limit (default: 175)
  --max-ratio R          highest ratio of the two lengths of a training pair; 0: no limit (default: 0)
  --bpe-dropout P --copies N               segment the training text N times, leaving out each merge with probability P,
                         in place of once; the seeds are 1 to N (default: no dropout)
  --workers N            processes (default: one per core)

DIR gets fairseq's dict.LANG.txt, *.bin and *.idx; the BPE's codes; preprocess.json (settings, checksums of the
input, counts, sizes of the files); and text/SPLIT.KIND.LANG, where KIND is raw, tok (tokenised) or bpe. It appears
only when everything is done. Run again with the same input and options, the script checks the files and does nothing.

With --copies, DIR holds the first copy, and DIR/copy1, DIR/copy2, ... the others. Train on all, an epoch each, with
train.sh RECIPE DIR:DIR/copy1:DIR/copy2:... SAVE. The dictionary has the types of the text without dropout and every
symbol that dropout can leave; text/train.bpe.LANG is without dropout.

example:
  scripts/preprocess.sh --source-lang de --target-lang en --train raw/train --valid raw/valid --test raw/test \
      --dest data/de-en --bpe-merges 8000
HELP
}

SOURCE='' TARGET='' TRAIN='' VALID='' RAW_VALID='' DEST=''
TESTS=() RAW_TESTS=()
MERGES='' MAX_LEN=175 MAX_RATIO=0 WORKERS=$(cores)
PROTECT='' PLACEHOLDERS='' CHINESE=''
KIND=bpe VOCABULARY='' PAIR_COUNT='' SEPARATE=false THRESHOLD=0 SPELL=false BYTES=false
LOWERCASE=false PRETOKENIZED=false JOINED=true KEEP_PUNCTUATION=false NORMALISE='' TRUECASE=false VALID_EVERY='' DROPOUT='' COPIES=''

while [[ $# -gt 0 ]]; do
    case $1 in
        --source-lang) SOURCE=$(value "$@"); shift ;;
        --target-lang) TARGET=$(value "$@"); shift ;;
        --train) TRAIN=$(value "$@"); shift ;;
        --valid) VALID=$(value "$@"); shift ;;
        --valid-every) VALID_EVERY=$(value "$@"); shift ;;
        --test) TESTS+=("$(value "$@")") || exit; shift ;;
        --raw-valid) RAW_VALID=$(value "$@"); shift ;;
        --raw-test) RAW_TESTS+=("$(value "$@")") || exit; shift ;;
        --dest) DEST=$(value "$@"); shift ;;
        --bpe-merges) MERGES=$(value "$@"); shift ;;
        --protect) PROTECT=$(value "$@"); shift ;;
        --placeholders) PLACEHOLDERS=$(value "$@"); shift ;;
        --segment) CHINESE=$(value "$@"); shift ;;
        --subwords) KIND=$(value "$@"); shift ;;
        --vocabulary) VOCABULARY=$(value "$@"); shift ;;
        --min-pair-count) PAIR_COUNT=$(value "$@"); shift ;;
        --vocabulary-threshold) THRESHOLD=$(value "$@"); shift ;;
        --separate) SEPARATE=true ;;
        --spell-unknown) SPELL=true ;;
        --byte-fallback) BYTES=true ;;
        --max-len) MAX_LEN=$(value "$@"); shift ;;
        --max-ratio) MAX_RATIO=$(value "$@"); shift ;;
        --bpe-dropout) DROPOUT=$(value "$@"); shift ;;
        --copies) COPIES=$(value "$@"); shift ;;
        --workers) WORKERS=$(value "$@"); shift ;;
        --normalise) NORMALISE=$(value "$@"); shift ;;
        --lowercase) LOWERCASE=true ;;
        --truecase) TRUECASE=true ;;
        --pretokenized) PRETOKENIZED=true ;;
        --keep-punctuation) KEEP_PUNCTUATION=true ;;
        --separate-dictionaries) JOINED=false ;;
        -h | --help) usage; exit 0 ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
    shift
done

[[ -n $SOURCE ]] || die "--source-lang must be given"
[[ -n $TARGET ]] || die "--target-lang must be given"
[[ -n $TRAIN ]] || die "--train must be given"
[[ -n $VALID || -n $VALID_EVERY ]] || die "--valid or --valid-every must be given"
[[ -z $VALID && -z $RAW_VALID || -z $VALID_EVERY ]] || die "--valid-every stands in place of --valid and --raw-valid"
[[ -n $DEST ]] || die "--dest must be given"
[[ $SOURCE != *[/[:space:]]* ]] || die "--source-lang must be a language such as de, but is '$SOURCE'"
[[ $TARGET != *[/[:space:]]* ]] || die "--target-lang must be a language such as en, but is '$TARGET'"
[[ $SOURCE != "$TARGET" ]] || die "--source-lang and --target-lang must differ, but both are '$SOURCE'"
# fairseq takes either for the end of a path.
[[ $DEST != *,* ]] || die "--dest must not contain a comma, but is '$DEST'"
[[ $DEST != *:* ]] || die "--dest must not contain a colon, but is '$DEST'"
case $KIND in
    bpe) [[ -z $MERGES || -z $VOCABULARY ]] || die "--bpe-merges and --vocabulary must not be given together" ;;
    unigram | wordpiece | char)
        [[ -z $MERGES ]] || die "--bpe-merges is for --subwords bpe, but KIND is $KIND; use --vocabulary"
        [[ $KIND != char || -z $VOCABULARY ]] || die "--vocabulary must not be given with --subwords char"
        ;;
    *) die "--subwords must be bpe, wordpiece, unigram or char, but is '$KIND'" ;;
esac
[[ $KIND == wordpiece || -z $PAIR_COUNT ]] || die "--min-pair-count is for --subwords wordpiece, but KIND is $KIND"
if [[ $KIND == bpe && -z $VOCABULARY ]]; then MERGES=${MERGES:-10000}; else VOCABULARY=${VOCABULARY:-10000}; fi
PAIR_COUNT=${PAIR_COUNT:-30} MERGES=${MERGES:-0}
[[ $MERGES == 0 && -n $VOCABULARY ]] || number_from --bpe-merges 1 2147483647 "$MERGES"
number_from --vocabulary 1 2147483647 "${VOCABULARY:-1}"
number_from --min-pair-count 1 2147483647 "$PAIR_COUNT"
number_from --vocabulary-threshold 0 2147483647 "$THRESHOLD"
LIMITED=false
if [[ $THRESHOLD -gt 0 || $SPELL == true || $BYTES == true ]]; then LIMITED=true; fi
number_from --max-len 0 2147483647 "$MAX_LEN"
number_from --workers 1 1024 "$WORKERS"
[[ $MAX_RATIO =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--max-ratio must be a number, but is '$MAX_RATIO'"
if [[ -n $DROPOUT || -n $COPIES ]]; then
    [[ -n $DROPOUT && -n $COPIES ]] || die "--bpe-dropout and --copies must be given together"
    [[ $DROPOUT =~ ^0?\.[0-9]+$ && $DROPOUT =~ [1-9] ]] || die "--bpe-dropout must be between 0 and 1, but is '$DROPOUT'"
    number_from --copies 1 1000 "$COPIES"
    [[ $KIND == bpe || $KIND == wordpiece ]] || die "--bpe-dropout is for --subwords bpe or wordpiece, but KIND is $KIND"
    [[ $SEPARATE == false && $LIMITED == false && -z $PROTECT && -z $PLACEHOLDERS ]] ||
        die "--copies must not be given with --separate, --vocabulary-threshold, --spell-unknown, --byte-fallback," \
            "--protect or --placeholders"
fi
if [[ -n $VALID_EVERY ]]; then
    number_from --valid-every 2 2147483647 "$VALID_EVERY"
fi
if [[ $PRETOKENIZED == true && $KEEP_PUNCTUATION == true ]]; then
    die "--keep-punctuation is for text that is not --pretokenized"
fi
if [[ $LOWERCASE == true && $TRUECASE == true ]]; then
    die "--truecase must not be given with --lowercase, which leaves no case"
fi
if [[ -n $NORMALISE ]]; then
    [[ $PRETOKENIZED == false ]] || die "--normalise is for text that is not --pretokenized"
    [[ $KEEP_PUNCTUATION == false || ,$NORMALISE, != *,punctuation,* ]] ||
        die "--normalise punctuation must not be given with --keep-punctuation"
    IFS=, read -r -a GIVEN <<<"$NORMALISE"
    for step in "${GIVEN[@]}"; do
        [[ $step =~ ^(width|nfkc|punctuation|simplified)$ ]] ||
            die "--normalise must have steps of width, nfkc, punctuation, simplified, but has '$step'"
    done
    [[ ,$NORMALISE, != *,simplified,* || $SOURCE =~ ^(zh|yue)([-_].*)?$ || $TARGET =~ ^(zh|yue)([-_].*)?$ ]] ||
        die "--normalise simplified must have a language zh, but has $SOURCE and $TARGET"
    # In the order in which they are done.
    STEPS=''
    for step in width nfkc punctuation simplified; do
        [[ ,$NORMALISE, != *,$step,* ]] || STEPS+=,$step
    done
    NORMALISE=${STEPS#,}
fi
if [[ $PRETOKENIZED == false && (-n $RAW_VALID || ${#RAW_TESTS[@]} -gt 0) ]]; then
    die "--raw-valid and --raw-test are for --pretokenized text alone; otherwise the input is the raw text"
fi
if [[ ${#RAW_TESTS[@]} -gt 0 && ${#RAW_TESTS[@]} -ne ${#TESTS[@]} ]]; then
    die "--raw-test must be given once for each --test (${#TESTS[@]}), but is given ${#RAW_TESTS[@]} times"
fi

[[ -z $CHINESE || $CHINESE == jieba ]] || die "--segment must be jieba, but is '$CHINESE'"
if [[ -n $CHINESE ]]; then
    [[ ${SOURCE%%_*} == zh || ${TARGET%%_*} == zh ]] ||
        die "--segment jieba: one of the languages must be zh, but they are $SOURCE and $TARGET"
    [[ $PRETOKENIZED == false ]] || die "--segment is for text that is not --pretokenized"
fi
case ,$PLACEHOLDERS, in
    ,, | ,numbers, | ,urls, | ,numbers,urls,) ;;
    ,urls,numbers,) PLACEHOLDERS=numbers,urls ;;
    *) die "--placeholders must be numbers, urls or numbers,urls, but is '$PLACEHOLDERS'" ;;
esac
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

# Named in the record only where they are used, so that folders made without them stay what they are.
EXTRA=()
if [[ -n $PLACEHOLDERS ]]; then EXTRA+=("placeholders=$PLACEHOLDERS"); fi
if [[ -n $CHINESE ]]; then EXTRA+=("segment=$CHINESE"); fi
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

DEST=${DEST%/}
build_beside "$DEST"
mkdir -p -- "$TMP/text" "$TMP/counts"
RECORD=$TMP/preprocess.json
python3 "$ROOT/scripts/manifest.py" describe "$RECORD" "source_lang=$SOURCE" "target_lang=$TARGET" \
    "lowercase=$LOWERCASE" "pretokenized=$PRETOKENIZED" "bpe_merges=$MERGES" "joined_dictionary=$JOINED" \
    "max_len=$MAX_LEN" "max_ratio=$MAX_RATIO" "${EXTRA[@]}" --protect "$PROTECT" --inputs "${INPUTS[@]}"

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
    if [[ $PRETOKENIZED == true ]]; then options+=(--pretokenized); fi
    if [[ $KEEP_PUNCTUATION == true ]]; then options+=(--keep-punctuation); fi
    if [[ -n $NORMALISE ]]; then options+=(--normalise "$NORMALISE"); fi
    if [[ -n ${RAWS[i]} ]]; then options+=(--raw "${RAWS[i]}"); fi
    if [[ -n $PROTECT ]]; then options+=(--protect "$RECORD"); fi
    if [[ -n $PLACEHOLDERS ]]; then options+=(--placeholders "$PLACEHOLDERS"); fi
    if [[ -n $CHINESE ]]; then options+=(--segment "$CHINESE"); fi
    COUNTS+=("$TMP/counts/$split.json")
    run python3 "$ROOT/scripts/prepare_text.py" --source-lang "$SOURCE" --target-lang "$TARGET" \
        --input "${PREFIXES[i]}" --output "$TMP/text/$split" --counts "${COUNTS[-1]}" "${options[@]}"
    if [[ $split == train && -n $VALID_EVERY ]]; then
        COUNTS+=("$TMP/counts/valid.json")
        run python3 "$ROOT/scripts/hold_out.py" "$TMP/text/train" "$TMP/text/valid" "$VALID_EVERY" --counts "${COUNTS[@]}"
    fi
done
TEXTS=("${SPLITS[@]}")
if [[ -n $VALID_EVERY ]]; then TEXTS+=(valid); fi
if [[ $TRUECASE == true ]]; then
    for lang in "$SOURCE" "$TARGET"; do
        run python3 "$ROOT/scripts/truecase.py" learn "$TMP/text/train.tok.$lang" "$TMP/truecase.$lang"
        for split in "${TEXTS[@]}"; do
            run python3 "$ROOT/scripts/truecase.py" apply "$TMP/truecase.$lang" "$TMP/text/$split.tok.$lang" \
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

TRAIN_TEXT=$TMP/text/train.bpe TEST_TEXTS=()
for split in "${SPLITS[@]}"; do
    if [[ $split == test* ]]; then TEST_TEXTS+=("$TMP/text/$split.bpe"); fi
done
options=()
# LANG FOLDER [--types FILE... [--bytes]]: a dictionary with more types than the text has.
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
elif [[ $LIMITED == true ]]; then
    mkdir -- "$TMP/dictionaries"
    for lang in "$SOURCE" "$TARGET"; do
        types=("$TMP/vocabulary.$lang")
        if [[ $JOINED == true ]]; then types=("$TMP/vocabulary.$SOURCE" "$TMP/vocabulary.$TARGET"); fi
        if [[ $BYTES == true ]]; then types+=(--bytes); fi
        dictionary "$lang" "$TMP/dictionaries" --types "${types[@]}"
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
