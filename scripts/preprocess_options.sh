# shellcheck shell=bash
# Sourced by preprocess.sh: its help, and its options, read and checked.
# shellcheck disable=SC2034 # what is set here is used there

set -euo pipefail

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
  --vocabulary N         number of subword types, characters included (default for wordpiece and unigram: 10000);
                         for bpe in place of --bpe-merges; not for char
  --min-pair-count N     times that two word pieces must be seen side by side to be merged (default: 30)
  --separate             learn the subwords of each language by itself
  --vocabulary-threshold N                 split types again that occur fewer than N times in a language's training text
  --spell-unknown        cut a word into characters if it would have a type that the training text lacks
  --byte-fallback        cut characters that the training text lacks into bytes, so that nothing is unknown; with
                         --vocabulary-threshold rarer ones too, so that bytes are trained
  --protect FILE         patterns, a regular expression a line: words that one matches are cut neither by the tokeniser
                         nor into subwords
  --placeholders KINDS   numbers, urls, or numbers,urls: replace them by tags, in training where both sides of a pair
                         agree, in translation always; the originals are then put back in their order
  --segment jieba        cut Chinese into words by jieba (pip install 'deepnmt[chinese]')
  --lowercase            lower-case all text by the rules of its language; scores are then case-insensitive
  --truecase             give the first word of each sentence the form that it mostly has elsewhere in the training
                         text; generate.sh and deepnmt-translate begin sentences with a capital again
  --normalise STEPS      unify variants of characters before tokenisation; STEPS are width (full-width and small forms),
                         nfkc (Unicode's NFKC), punctuation (Unicode's punctuation to ASCII) and simplified
                         (traditional Chinese), with commas between them, and are done in this order
  --keep-punctuation     no effect: the punctuation is kept without it, too (earlier versions normalised it; today
                         --normalise punctuation does)
  --pretokenized         the text is already normalised and tokenised; fairseq's <s>, </s>, <pad> and <unk> are refused
  --raw-valid PREFIX, --raw-test PREFIX    with --pretokenized: the same text untokenised, needed for detokenised
                         scores (--raw-test once for each --test; default: none)
  --separate-dictionaries                  make a dictionary for each language (default: one for both)
  --max-len N            longest side of a training pair, in words before BPE; 0: no limit (default: 175). In a language
                         without spaces between words, such as zh, ja or th, each character is a word
  --max-ratio R          highest ratio of the two lengths of a training pair, in the same words; 0: no limit (default: 0)
  --bpe-dropout P --copies N               segment the training text N times, leaving out each merge with probability P,
                         in place of once; the seeds are 1 to N (default: no dropout). For bpe and wordpiece; not with
                         --separate, --vocabulary-threshold, --spell-unknown, --byte-fallback, --protect, --placeholders
  --glossary-training SHARE                for this share of the training pairs, such as 0.5, add a pair whose source has the
                         translations of some of its terms beside them, so that a model learns to follow a glossary
                         (docs/glossary.md); terms come from a word alignment. Not with --copies
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

# As CHINESE of deepnmt/text/languages.py has it.
ANY_CHINESE='^(zh|zho|chi|cmn|yue|wuu|gan|hsn|lzh|cjy|czh|cpx|mnp)([-_].*)?$'
SOURCE='' TARGET='' TRAIN='' VALID='' RAW_VALID='' DEST=''
TESTS=() RAW_TESTS=()
MERGES='' MAX_LEN=175 MAX_RATIO=0 WORKERS=$(cores)
PROTECT='' PLACEHOLDERS='' CHINESE='' GLOSSARY=''
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
        --glossary-training) GLOSSARY=$(value "$@"); shift ;;
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
# As language_fault of deepnmt/text/languages.py has it.
[[ $SOURCE != *[./[:space:]]* ]] || die "--source-lang must be a language such as de, but is '$SOURCE'"
[[ $TARGET != *[./[:space:]]* ]] || die "--target-lang must be a language such as en, but is '$TARGET'"
[[ $SOURCE != "$TARGET" ]] || die "--source-lang and --target-lang must differ, but both are '$SOURCE'"
# fairseq takes either for the end of a path.
PLACE=$(place_of "${DEST%/}")
[[ $PLACE != *,* ]] || die "--dest must not contain a comma, but is '$PLACE'"
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
decimal --max-ratio "$MAX_RATIO"
if [[ -n $DROPOUT || -n $COPIES ]]; then
    [[ -n $DROPOUT && -n $COPIES ]] || die "--bpe-dropout and --copies must be given together"
    decimal --bpe-dropout "$DROPOUT"
    [[ $DROPOUT == 0.*[1-9]* ]] || die "--bpe-dropout must be between 0 and 1, but is '$DROPOUT'"
    number_from --copies 1 1000 "$COPIES"
    [[ $KIND == bpe || $KIND == wordpiece ]] || die "--bpe-dropout is for --subwords bpe or wordpiece, but KIND is $KIND"
    [[ $SEPARATE == false && $LIMITED == false && -z $PROTECT && -z $PLACEHOLDERS ]] ||
        die "--copies must not be given with --separate, --vocabulary-threshold, --spell-unknown, --byte-fallback," \
            "--protect or --placeholders"
fi
if [[ -n $GLOSSARY ]]; then
    decimal --glossary-training "$GLOSSARY"
    [[ $GLOSSARY == 0.*[1-9]* || $GLOSSARY =~ ^1(\.0+)?$ ]] ||
        die "--glossary-training must be above 0 and at most 1, but is '$GLOSSARY'"
    [[ -z $COPIES ]] || die "--glossary-training cannot be combined with --copies; train with --bpe-dropout instead"
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
    [[ ,$NORMALISE, != *,simplified,* || $SOURCE =~ $ANY_CHINESE || $TARGET =~ $ANY_CHINESE ]] ||
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
    [[ $SOURCE =~ $ANY_CHINESE || $TARGET =~ $ANY_CHINESE ]] ||
        die "--segment jieba: one of the languages must be zh, but they are $SOURCE and $TARGET"
    [[ $PRETOKENIZED == false ]] || die "--segment is for text that is not --pretokenized"
fi
case ,$PLACEHOLDERS, in
    ,, | ,numbers, | ,urls, | ,numbers,urls,) ;;
    ,urls,numbers,) PLACEHOLDERS=numbers,urls ;;
    *) die "--placeholders must be numbers, urls or numbers,urls, but is '$PLACEHOLDERS'" ;;
esac
