#!/usr/bin/env bash
# The best system on Multi30k without further data: members, their ensemble, a student of it, and their scores.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=examples/multi30k/long.sh
source "$(dirname "${BASH_SOURCE[0]}")/long.sh"

usage() {
    cat <<'HELP'
usage: best.sh [--short] [--direction en-de|de-en] [--stage STAGE]... [--member RECIPE[:SEED]]... [--seed SEED]...
               [--generations N] [--student RECIPE[:SEED]]... [--students N] [--generation N] [--lenpens X,X...]
               [--jobs N] [--limit N] [fairseq-train options]

Takes Multi30k task 1 from text to the scores of the best system: two models of both directions, seeds 1 and 2, each
trained further with R-Drop, and two that go on from these with their own translations of the training text beside it.
The four translate together, and a model of the other direction chooses among what they propose. With --generations 2 a
student of the ensemble, or several, learn what it predicts at each word of the real pairs, beside the references, and
join it. Every system translates as the protocol says, by the average of the last ten checkpoints, with beam 5 and
length penalty 1. Test 2016 is scored once for each. It can be stopped at any moment; run the same command again to
resume, also stage by stage.

  --stage STAGE      one of these (default: all, in this order; with --short data, members, test and pictures). The
                     times are for a processor with AVX-512 BF16; one with AVX2 alone takes about three times as long.
    data        BPE by the protocol
    control     the reference protocol, seed 1                            (1.2 to 2 hours of a core)
    members     of each generation: a training for each, and validation   (1 to 3 hours of a core each)
    ensemble    of each generation and those before it, on validation     (a minute)
    rerank      of 20 translations by the last ensemble, the best by it and a model of the other direction, per token,
                weighted on validation (5 minutes, and the training of that model, the other direction's first member)
    test        test 2016 by members, ensembles and reranking, compared with the control: table.tsv
    pictures    BLEU and loss on validation against hours: bleu.svg, loss.svg
  --member RECIPE[:SEED]   recipe of configs/multi30k for a member of the first generation, with every --seed or the one
                     given (default: both_diverse and both_r_drop, with --short short_settled). r_drop trains the
                     control of its seed further with R-Drop, both_r_drop a model of both directions, and
                     r_drop_settled r_drop_recut, which itself begins with that control; short_settled trains
                     short_recut further, and that control_56; both_diverse trains both_r_drop further, on five times
                     the text: the pairs, and each side as the models both_r_drop and both, seeds 1 and 2, translate
                     the other; models of both directions are trained once for both
  --seed SEED        of the members (default: 1 and 2, with --short 1)
  --generations N    of them, the first one included (default: 1)
  --student RECIPE[:SEED]  recipe of configs/multi30k, from student.yaml on, for a member of each generation after the
                     first, with the first --students seeds or the one given (default: student)
  --students N       seeds of each --student (default: 1)
  --generation N     do the stages members and ensemble for this one alone (default: all, one after the other)
  --lenpens X,X...   length penalties; of several, members and ensembles take the best on validation (default: 1, the
                     protocol's)
  --direction D      (default: en-de)
  --short            one member, in an hour of two cores: 56 epochs of the control, 20 of R-Drop with the source
                     segmented anew in each, and 10 of R-Drop on the text as it is; without a GPU by two processes on
                     half of the cores each, unless PROCESSES or OMP_NUM_THREADS says otherwise
  --jobs N           members to train at the same time, each on its share of the cores (default: 1)
  --limit N          the first N pairs (at least 40) of training, validation and test only, to try it; results go to
                     OUT/best/limit-N
  options            of fairseq-train, which win over the recipes' in all trainings; one that was begun with others is
                     refused, but for a larger end

environment:
  MULTI30K_DIR       folder with train, val and test_2016_flickr as LANG.gz and lc.norm.tok.LANG.gz
                     (default: downloaded from the public repository multi30k/dataset, checksums verified)
  OUT                folder for everything that is made (default: output/multi30k); results go to OUT/best, or
                     OUT/best/de-en
  MERGES             of the BPE (default: 10000); results with another number go to OUT/best-MERGES

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/best.sh --stage members --seed 2
HELP
}

STAGES=() MEMBERS=() TAUGHT=() SEEDS=() DIRECTION=en-de SHORT='' LIMIT='' JOBS='' LAST='' STUDENTS=1 ONLY=''
PENALTIES=1 OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --stage) STAGES+=("$(value "$@")") || exit; shift ;;
        --member) MEMBERS+=("$(value "$@")") || exit; shift ;;
        --student) TAUGHT+=("$(value "$@")") || exit; shift ;;
        --seed) SEEDS+=("$(value "$@")") || exit; shift ;;
        --direction) DIRECTION=$(value "$@"); shift ;;
        --limit) LIMIT=$(value "$@"); shift ;;
        --generations) LAST=$(value "$@") || exit; shift ;;
        --students) STUDENTS=$(value "$@") || exit; shift ;;
        --generation) ONLY=$(value "$@") || exit; shift ;;
        --lenpens) PENALTIES=$(value "$@") || exit; shift ;;
        --jobs) JOBS=$(value "$@") || exit; shift ;;
        --short) SHORT=yes ;;
        --seed=*) die "--seed must be followed by a space and its value, but is '$1'" ;;
        -h | --help) usage; exit 0 ;;
        *) OPTIONS+=("$1") ;;
    esac
    shift
done
KNOWN=(data control members ensemble rerank test pictures)
for stage in "${STAGES[@]}"; do
    [[ " ${KNOWN[*]} " == *" $stage "* ]] || die "--stage must be one of ${KNOWN[*]}, but is '$stage'"
done
for seed in "${SEEDS[@]}"; do number_from --seed 1 1000000 "$seed"; done
[[ $DIRECTION == en-de || $DIRECTION == de-en ]] || die "--direction must be en-de or de-en, but is '$DIRECTION'"
[[ $PENALTIES =~ ^[0-9]+(\.[0-9]+)?(,[0-9]+(\.[0-9]+)?)*$ ]] ||
    die "--lenpens must be numbers such as 1 or 0.8,1,1.2, but is '$PENALTIES'"
[[ -z $LIMIT ]] || number_from --limit 40 29000 "$LIMIT"
[[ -z $JOBS ]] || number_from --jobs 1 64 "$JOBS"
[[ -z $LAST ]] || number_from --generations 1 9 "$LAST"
need python3 fairseq-train
ON_INTERRUPT="resume"

# Of the results of --short.
KIND=${SHORT:+short-}
if [[ -n $SHORT ]]; then
    [[ ${#STAGES[@]} -gt 0 ]] || STAGES=(data members test pictures)
    [[ ${#MEMBERS[@]} -gt 0 ]] || MEMBERS=(short_settled)
    [[ ${#SEEDS[@]} -gt 0 ]] || SEEDS=(1)
    # Two processes of half the cores each take less time than one of all; on GPUs train.sh has one for each.
    if [[ ${JOBS:-1} -eq 1 && -z ${PROCESSES:-}${OMP_NUM_THREADS:-} && $(cores) -gt 1 ]] &&
        python3 -c 'import sys, torch; sys.exit(torch.cuda.is_available())'; then
        export PROCESSES=2 OMP_NUM_THREADS=$(($(cores) / 2))
    fi
fi
LAST=${LAST:-1} JOBS=${JOBS:-1}
[[ -z $ONLY ]] || number_from --generation 1 "$LAST" "$ONLY"
[[ ${#STAGES[@]} -gt 0 ]] || STAGES=("${KNOWN[@]}")
[[ ${#MEMBERS[@]} -gt 0 ]] || MEMBERS=(both_diverse both_r_drop)
[[ ${#SEEDS[@]} -gt 0 ]] || SEEDS=(1 2)
number_from --students 1 ${#SEEDS[@]} "$STUDENTS"
[[ ${#TAUGHT[@]} -gt 0 ]] || TAUGHT=(student)

# Set EACH to RECIPE:SEED of members, with the seed given or each of some: seeded OPTION 'SEEDS' RECIPE[:SEED]...
seeded() {
    local option=$1 seeds seed member recipe fits which='without a teacher'
    read -ra seeds <<<"$2"
    [[ $option == --member ]] || which='from student.yaml on'
    EACH=()
    for member in "${@:3}"; do
        recipe=${member%%:*}
        [[ $recipe == student* ]] && fits=--student || fits=--member
        [[ -f $ROOT/configs/multi30k/$recipe.yaml && $fits == "$option" ]] ||
            die "$option must be a recipe of configs/multi30k $which, but is '$recipe'"
        if [[ $member == *:* ]]; then
            number_from "$option" 1 1000000 "${member#*:}"
            EACH+=("$member")
        else
            for seed in "${seeds[@]}"; do EACH+=("$recipe:$seed"); done
        fi
    done
}

seeded --member "${SEEDS[*]}" "${MEMBERS[@]}"
FIRST=("${EACH[@]}")
seeded --student "${SEEDS[*]::STUDENTS}" "${TAUGHT[@]}"
LATER=("${EACH[@]}")
places "$DIRECTION" "$LIMIT"
if [[ $MERGES != 10000 || -n $LIMIT ]]; then DATA=$BASE/data-like; fi
PLAIN=$DATA
[[ $DIRECTION == de-en ]] && OTHER=en-de || OTHER=de-en

# Set EACH to the members of a generation, RECIPE:SEED, and NAMES to those of their results: members_of GENERATION
members_of() {
    local each
    EACH=("${FIRST[@]}") NAMES=()
    [[ $1 -eq 1 ]] || EACH=("${LATER[@]}")
    for each in "${EACH[@]}"; do
        if [[ $1 -gt 1 ]]; then
            NAMES+=("${each%%:*}-$1-${each#*:}")
        else
            NAMES+=("${each/:/-}")
        fi
    done
}

# Train the members of a generation and choose their averages, one after the other: members GENERATION
members() {
    local number teachers='' here=("${OPTIONS[@]}")
    if [[ $1 -gt 1 ]]; then
        teachers=$(best checkpoint "$HERE/results/${KIND}ensemble-$(($1 - 1))")
        here=(--teacher "$teachers" "${here[@]}")
    fi
    members_of "$1"
    for number in "${!EACH[@]}"; do
        train_member "${EACH[number]%%:*}" "${NAMES[number]}" "${EACH[number]#*:}" "${here[@]}"
        validate "${NAMES[number]}"
    done
}

# The same, several at a time: each by this script, whose lines then begin with RECIPE:SEED.
members_at_a_time() {
    local share=$(($(cores) / JOBS)) of=--member
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((share > 0 ? share : 1))}
    members_of "$1"
    [[ $1 -eq 1 ]] || of=--student
    # shellcheck disable=SC2016  # the inner shell expands these.
    run xargs -0 -n 1 -P "$JOBS" bash -o pipefail -c '"$@" 2>&1 | sed -u "s/^/${!#}: /"' "$SCRIPT" \
        "$ROOT/examples/multi30k/best.sh" ${SHORT:+--short} --stage members --generation "$1" --generations "$LAST" --direction "$DIRECTION" \
        --lenpens "$PENALTIES" ${LIMIT:+--limit "$LIMIT"} --jobs 1 "${OPTIONS[@]}" "$of" < <(printf '%s\0' "${EACH[@]}")
}

# Translate validation by the average of a member's last ten checkpoints: validate NAME
validate() {
    sweep "$1" trained --last "$(averaged "$1")" --lenpen "$PENALTIES"
    run python3 "$HELPER" choose "$HERE/results/$1"
}

# Make the data folders: by the protocol, or else like it, and in both directions for recipes that begin so.
data() {
    if [[ $DATA == "$OUT/data" ]]; then
        prepare_data
    else
        take_text
        preprocess "$MERGES" "$DATA"
    fi
    join_directions "$DATA"
}

# Translate validation by all members of a generation and those before it together: ensemble GENERATION
ensemble() {
    local models='' generation name lenpens lenpen folder result=$HERE/results/${KIND}ensemble-$1
    for ((generation = 1; generation <= $1; generation++)); do
        members_of "$generation"
        for name in "${NAMES[@]}"; do
            models+=:$(best checkpoint "$HERE/results/$name")
        done
    done
    # Only those of now compete.
    rm -f -- "$result"/lenpen*/chosen.json
    IFS=, read -ra lenpens <<<"$PENALTIES"
    for lenpen in "${lenpens[@]}"; do
        folder=$result/lenpen$lenpen
        translate "${models#:}" "$PLAIN" "$folder" --subset valid --lenpen "$lenpen"
        run python3 "$HELPER" note "$folder" "${models#:}" "$PLAIN" 5 "$lenpen" "$folder"
    done
    run python3 "$HELPER" choose "$result"
}

# Choose the weights of the last ensemble and the other direction's first member. Sums of log P would prefer translations that
# leave something out; a reward of length would be fitted to validation's, which are longer for their sources than other text's.
rerank() {
    local models lenpen back result=$HERE/results/${KIND}reranked
    run "$ROOT/examples/multi30k/best.sh" --direction "$OTHER" --stage members --generation 1 --member "${FIRST[0]}" \
        --lenpens "$PENALTIES" ${LIMIT:+--limit "$LIMIT"} "${OPTIONS[@]}"
    back=$(best checkpoint "$THERE/results/${FIRST[0]/:/-}")
    models=$(best checkpoint "$HERE/results/${KIND}ensemble-$LAST")
    lenpen=$(best lenpen "$HERE/results/${KIND}ensemble-$LAST")
    rerank_subset "$result" "$models" "$back" "$lenpen" valid --tune --per-token
    printf '%s\n' "$back" >"$result/back"
    run python3 "$HELPER" note "$result" "$models" "$PLAIN" 20 "$lenpen" "$result/valid"
}

# Choose from lists of 20 translations, and score: rerank_subset FOLDER MODELS BACK LENPEN SUBSET HOW...
rerank_subset() {
    local folder=$1 models=$2 back=$3 lenpen=$4 subset=$5 model same=''
    shift 5
    lists "$models" "$PLAIN" "$folder/lists.$subset" --subset "$subset" --beam 20 --nbest 20 --lenpen "$lenpen"
    [[ ! -f $folder/$subset/by || $(<"$folder/$subset/by") != "$models $back model $*" ]] || same=yes
    # Of the lists, the weights, or a model of the other direction, some may be newer.
    while [[ -n $same ]] && read -r -d : model; do
        [[ ! $model -nt $folder/$subset/by ]] || same=''
    done <<<"$folder/lists.$subset/by:${2:-$back}:$back:"
    if [[ -z $same ]]; then
        run deepnmt rerank --nbest "$folder/lists.$subset" --features model --data "$PLAIN" --reverse "back=$back" "$@" \
            "$folder/$subset"
        run "$ROOT/scripts/score.sh" "$folder/$subset" "${REVERSE[@]}"
        printf '%s\n' "$models $back model $*" >"$folder/$subset/by"
    fi
}

# Do the stages members and ensemble, as far as they are wanted, for each generation that is.
generations() {
    local generation
    for ((generation = ${ONLY:-1}; generation <= ${ONLY:-$LAST}; generation++)); do
        if [[ " ${STAGES[*]} " == *' members '* ]]; then
            printf '== members of generation %s\n' "$generation" >&2
            members_of "$generation"
            if [[ $JOBS -gt 1 && ${#EACH[@]} -gt 1 ]]; then
                members_at_a_time "$generation"
            else
                members "$generation"
            fi
        fi
        if [[ " ${STAGES[*]} " == *' ensemble '* ]]; then
            printf '== ensemble of generation %s\n' "$generation" >&2
            ensemble "$generation"
        fi
    done
}

DONE=''
for stage in "${STAGES[@]}"; do
    case $stage in
        members | ensemble)
            # Both at once: students need the ensemble before them.
            [[ -n $DONE ]] || generations
            DONE=yes
            continue
            ;;
    esac
    printf '== %s\n' "$stage" >&2
    case $stage in
        data) data ;;
        control)
            train_member control control-1 1 "${OPTIONS[@]}"
            validate control-1
            ;;
        rerank) rerank ;;
        test)
            FOUND=$(python3 "$HELPER" systems "$HERE/results")
            [[ -n $FOUND ]] || die "the stage test must have results to translate with, but $HERE/results has none"
            mapfile -t SYSTEMS <<<"$FOUND"
            for system in "${SYSTEMS[@]}"; do
                if [[ $system == *reranked ]]; then
                    setting_of "$system"
                    rerank_subset "$system" "${SETTING[0]}" "$(<"$system/back")" "${SETTING[3]}" test --weights "$system/valid/weights.json"
                else
                    translate_test "$system"
                fi
            done
            run python3 "$HELPER" table "$HERE/results" "$HERE/table.tsv"
            ;;
        pictures) run python3 "$ROOT/examples/multi30k/curves.py" "$HERE" ;;
    esac
done
