#!/usr/bin/env bash
# One row of the IWSLT14 study, from the archive to its scores.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/iwslt14/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: run.sh ROW [options] [fairseq-train options]

Does all of one row of the study: data (prepare.sh), training, the average of the last five epochs (of ten for
peers/t_fixup), the choice of beam and length penalty by BLEU on the validation set, and with these the translation of
the test set, by the average and by the epoch with the best validation loss. Scores are tokenised BLEU, the same with
compounds split, and sacreBLEU. It can be stopped or killed at any moment; run the same command again to resume.
report.sh shows all rows beside the published figures.

  ROW               a recipe under configs/iwslt14, such as 3.1/10
  --list            show all rows with their published BLEU
  --seeds 1,2,3     one training for each (default: 1)
  --beams 5,4,8     beams to try, the first with every length penalty, the others with the best (default: 5,4,8)
  --lenpens X,X...  length penalties to try (default: 1,0.6,0.8,1.2,1.4,1.6)
  --archive FILE    the archive de-en.tgz, for prepare.sh (default: downloaded)
  --smoke           try the flow on the CPU in a few minutes: a small generated archive, a narrow model of the row's
                    depth and method, six epochs; all in OUT/smoke. --archive, --beams and --lenpens do nothing then
  options           of fairseq-train, which win over the recipe's; report.sh names them. They come last: whatever
                    follows the first of them goes to fairseq-train, too. A training that was begun with others is
                    refused, but for a larger end such as --max-epoch

On several GPUs the tokens of an update stay those of one: each GPU gets its part. These models are small, so that eight
rows on a GPU each are done sooner than one after the other on all: CUDA_VISIBLE_DEVICES=0 run.sh 3.1/10 & ...

environment:
  OUT                    folder for everything that is made (default: output/iwslt14)
  CUDA_VISIBLE_DEVICES   the GPUs to use, as in '0,1'; empty: none

example:
  examples/iwslt14/run.sh 3.1/10 --smoke
  examples/iwslt14/run.sh 3.1/10 --seeds 1,2,3
HELP
}

ROW='' SEEDS=1 BEAMS=5,4,8 PENALTIES=1,0.6,0.8,1.2,1.4,1.6 SMOKE='' ARCHIVE=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --seeds) SEEDS=$(value "$@"); shift ;;
        --beams) BEAMS=$(value "$@"); shift ;;
        --lenpens) PENALTIES=$(value "$@"); shift ;;
        --archive) ARCHIVE=(--archive "$(value "$@")") || exit; shift ;;
        --smoke) SMOKE=true ;;
        --list) study_quietly rows list; exit 0 ;;
        -h | --help) usage; exit 0 ;;
        --seed | --seed=*) die "--seeds must be used in place of --seed" ;;
        -*) OPTIONS=("$@"); break ;;
        *)
            [[ -z $ROW ]] || die "unexpected argument '$1' (see --help)"
            ROW=$1
            ;;
    esac
    shift
done
for OPTION in "${OPTIONS[@]}"; do
    [[ $OPTION != --seed && $OPTION != --seed=* ]] || die "--seeds must be used in place of --seed, before other options"
done
[[ -n $ROW ]] || die "ROW must be given (see --help)"
[[ $SEEDS =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--seeds must be whole numbers such as 1,2,3, but is '$SEEDS'"
[[ $BEAMS =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || die "--beams must be whole numbers such as 5,4,8, but is '$BEAMS'"
[[ $PENALTIES =~ ^[0-9]+(\.[0-9]+)?(,[0-9]+(\.[0-9]+)?)*$ ]] ||
    die "--lenpens must be numbers such as 1,0.6,1.4, but is '$PENALTIES'"
need python3 fairseq-train flock
AVERAGED=$(study_quietly rows show "$ROW")

OUT=${OUT:-$ROOT/output/iwslt14}
ON_INTERRUPT="resume"
PREPARE=("${ARCHIVE[@]}")
if [[ -n $SMOKE ]]; then
    OUT=$OUT/smoke BEAMS=2,3 PENALTIES=1,1.4
    export CUDA_VISIBLE_DEVICES=''
    SHRINK=$(study_quietly rows smoke "$ROW")
    mapfile -t SHRINK <<<"$SHRINK"
    OPTIONS=("${SHRINK[@]}" "${OPTIONS[@]}")
    PREPARE=(--archive "$OUT/small.tgz" --bpe-merges 400 --workers 1)
fi
export OUT
DATA=$OUT/data
IFS=, read -ra SEEDS <<<"$SEEDS"
IFS=, read -ra BEAMS <<<"$BEAMS"
IFS=, read -ra PENALTIES <<<"$PENALTIES"

# One of several that are started together prepares the data.
mkdir -p -- "$OUT"
exec {LOCK}>"$OUT/data.lock"
flock "$LOCK"
GIVEN=''
if [[ ${#ARCHIVE[@]} -gt 0 && -z $SMOKE ]]; then
    [[ -f ${ARCHIVE[1]} ]] || die "--archive must be a file, but there is no '${ARCHIVE[1]}'"
    GIVEN=$(sha256sum <"${ARCHIVE[1]}")
fi
NOTED=$OUT/archive.sha256
if ! [[ -f $DATA/preprocess.json ]]; then
    if [[ -n $SMOKE ]]; then study small_archive "$OUT/small.tgz"; fi
    run "$ROOT/examples/iwslt14/prepare.sh" "${PREPARE[@]}"
    rm -f -- "$NOTED"
    [[ -z $GIVEN ]] || printf '%s\n' "${GIVEN%% *}" >"$NOTED"
elif [[ -n $GIVEN ]]; then
    # Of a download prepare.sh has noted it.
    [[ -f $NOTED ]] || NOTED=$OUT/de-en.tgz.sha256
    [[ ! -f $NOTED || $(<"$NOTED") == "${GIVEN%% *}"* ]] ||
        die "--archive must be the one that $DATA was made from, but '${ARCHIVE[1]}' is another; choose another OUT"
fi
exec {LOCK}>&-

# CHECKPOINT SUBSET NAME BEAM PENALTY: translate and score, unless that has been done with this checkpoint.
translate() {
    RESULT=$RUN/$3.beam$4.lenpen$5
    if [[ $RESULT/scores.json -nt $1 ]]; then return; fi
    run "$ROOT/scripts/generate.sh" "$1" "$DATA" "$RESULT" --subset "$2" --beam "$4" --lenpen "$5"
    run "$ROOT/scripts/score.sh" "$RESULT" --split-compounds
}

for SEED in "${SEEDS[@]}"; do
    RUN=$OUT/runs/$ROW/seed$SEED
    SAVE=$RUN/checkpoints
    mkdir -p -- "$RUN"
    # What a killed run.sh has left running holds the lock as well.
    exec {LOCK}>"$RUN/lock"
    if ! flock --nonblock "$LOCK"; then
        printf '%s: waiting for another training of %s, seed %s, to end\n' "$SCRIPT" "$ROW" "$SEED" >&2
        flock "$LOCK"
    fi

    PYTHONSAFEPATH=1 python3 -m deepnmt.runs.begun "$ROOT/configs/iwslt14/$ROW.yaml" "$DATA" "$SAVE" --seed "$SEED" "${OPTIONS[@]}"
    LOGGED=$(stat --format=%s -- "$SAVE/train.log" 2>/dev/null || echo 0)
    if ! run "$ROOT/scripts/train.sh" "$ROOT/configs/iwslt14/$ROW.yaml" "$DATA" "$SAVE" --seed "$SEED" "${OPTIONS[@]}"; then
        study record failed "$RUN" "$ROW" "$SEED" "$LOGGED" -- "${OPTIONS[@]}"
        printf '%s, seed %s: the training broke down, which report.sh will show\n' "$ROW" "$SEED"
        exec {LOCK}>&-
        continue
    fi

    EPOCHS=$(find "$SAVE" -maxdepth 1 -name 'checkpoint[0-9]*.pt' | wc -l)
    # A training of less than an epoch has none, but its last state.
    EPOCHS=$((EPOCHS > 0 ? EPOCHS : 1))
    AVERAGE=$SAVE/average$AVERAGED.pt
    if ! [[ $AVERAGE -nt $SAVE/checkpoint_last.pt ]]; then
        run "$ROOT/scripts/average.sh" "$SAVE" "$AVERAGE" --last "$((EPOCHS < AVERAGED ? EPOCHS : AVERAGED))"
    fi

    TRIED=()
    for PENALTY in "${PENALTIES[@]}"; do
        translate "$AVERAGE" valid "valid" "${BEAMS[0]}" "$PENALTY"
        TRIED+=("$RESULT")
    done
    CHOSEN=$(study_quietly record best "${TRIED[@]}")
    read -r _ PENALTY <<<"$CHOSEN"
    for BEAM in "${BEAMS[@]:1}"; do
        translate "$AVERAGE" valid "valid" "$BEAM" "$PENALTY"
        TRIED+=("$RESULT")
    done
    CHOSEN=$(study_quietly record best "${TRIED[@]}")
    read -r BEAM PENALTY <<<"$CHOSEN"
    printf '%s, seed %s: beam %s and length penalty %s are best on the validation set\n' "$ROW" "$SEED" "$BEAM" "$PENALTY"

    translate "$SAVE/checkpoint_best.pt" test "test.best" "$BEAM" "$PENALTY"
    OF_BEST=$RESULT
    translate "$AVERAGE" test "test.average$AVERAGED" "$BEAM" "$PENALTY"
    study record finish "$RUN" "$ROW" "$SEED" "$RUN/valid.beam$BEAM.lenpen$PENALTY" "$OF_BEST" "$RESULT" -- "${OPTIONS[@]}"
    printf '%s, seed %s, is done: %s\n' "$ROW" "$SEED" "$RUN/run.json"
    exec {LOCK}>&-
done
