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
               [--jobs N] [--limit N] [fairseq-train options]

Takes Multi30k task 1 from text to the scores of the best system: members that differ by their seeds, each finished by a
cool-down and minimum-risk training, their ensemble, and a student distilled from it. Averages, beams and length penalties
are chosen by BLEU on validation alone; test 2016 is then scored once for each system. It can be stopped at any moment; run
the same command again to resume, also stage by stage.

  --stage STAGE      one of these, in this order (default: all):
    data        4,000 BPE merges, with twelve copies of the training text by BPE-dropout, and the text without
    control     the reference protocol                                                               (1.3 hours on one core)
    members     a training for each member, its averages on validation, cool-down, minimum risk      (6 hours each)
    ensemble    of all members: length penalty on validation                                         (10 minutes)
    student     the ensemble's translations of the training text, and a training on them             (6 hours)
    test        test 2016 by control, members, ensemble and student: table.tsv
    pictures    BLEU and loss on validation against hours: bleu.svg, loss.svg
  --member RECIPE[:SEED]   recipe of configs/multi30k for a member, with every --seed or the one given
                     (default: tiny_4k_simcut_bpedrop)
  --seed SEED        of the members (default: 1, 2 and 3)
  --direction D      (default: en-de)
  --short            two members, configs/multi30k/short.yaml, and their ensemble, without cool-down, minimum risk and
                     student: an hour of two cores
  --jobs N           members that are trained at a time, each on its share of the cores (default: 1, with --short 2)
  --limit N          the first N pairs of training, validation and test only, to try it
  options            of fairseq-train, which win over the recipes' in all trainings but the control's

environment:
  MULTI30K_DIR, OUT  as for run.sh; results go to OUT/best, or OUT/best/de-en

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/best.sh --stage members --seed 2
HELP
}

STAGES=() MEMBERS=() SEEDS=() DIRECTION=en-de SHORT='' LIMIT='' JOBS='' OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --stage) STAGES+=("$(value "$@")") || exit; shift ;;
        --member) MEMBERS+=("$(value "$@")") || exit; shift ;;
        --seed) SEEDS+=("$(value "$@")") || exit; shift ;;
        --direction) DIRECTION=$(value "$@"); shift ;;
        --limit) LIMIT=$(value "$@"); shift ;;
        --jobs) JOBS=$(value "$@") || exit; shift ;;
        --short) SHORT=yes ;;
        -h | --help) usage; exit 0 ;;
        *) OPTIONS+=("$1") ;;
    esac
    shift
done
KNOWN=(data control members ensemble student test pictures)
for stage in "${STAGES[@]}"; do
    [[ " ${KNOWN[*]} " == *" $stage "* ]] || die "--stage must be one of ${KNOWN[*]}, but is '$stage'"
done
for seed in "${SEEDS[@]}"; do number_from --seed 1 1000000 "$seed"; done
[[ $DIRECTION == en-de || $DIRECTION == de-en ]] || die "--direction must be en-de or de-en, but is '$DIRECTION'"
[[ -z $LIMIT ]] || number_from --limit 40 29000 "$LIMIT"
[[ -z $JOBS ]] || number_from --jobs 1 64 "$JOBS"
need python3 fairseq-train
ON_INTERRUPT="resume"

if [[ -n $SHORT ]]; then
    [[ ${#MEMBERS[@]} -gt 0 ]] || MEMBERS=(short)
    [[ ${#SEEDS[@]} -gt 0 ]] || SEEDS=(1 2)
    [[ ${#STAGES[@]} -gt 0 ]] || STAGES=(data members ensemble test pictures)
    [[ -n $JOBS ]] || JOBS=2
fi
[[ ${#STAGES[@]} -gt 0 ]] || STAGES=("${KNOWN[@]}")
[[ ${#MEMBERS[@]} -gt 0 ]] || MEMBERS=(tiny_4k_simcut_bpedrop)
[[ ${#SEEDS[@]} -gt 0 ]] || SEEDS=(1 2 3)
EACH=()
for member in "${MEMBERS[@]}"; do
    [[ -f $ROOT/configs/multi30k/${member%%:*}.yaml ]] ||
        die "--member must be a recipe of configs/multi30k, but is '${member%%:*}'"
    if [[ $member == *:* ]]; then
        number_from --member 1 1000000 "${member#*:}"
        EACH+=("$member")
    else
        for seed in "${SEEDS[@]}"; do EACH+=("$member:$seed"); done
    fi
done
places "$DIRECTION" "$LIMIT"

# Cool down, then minimise the risk, each from the best average so far; the best of all is the member: finish NAME RECIPE SEED
finish() {
    local name=$1 stack=tiny_4k seed=$3
    case $2 in
        dlcl_8_3*) stack=dlcl_8_3 ;;
        wide_192*) stack=wide_192 ;;
    esac
    sweep "$name" trained
    if [[ -z $SHORT ]]; then
        train "${stack}_cooldown" "$HERE/checkpoints/$name/cooldown" "$PLAIN" --seed "$seed" \
            --finetune-from-model "$(best checkpoint "$HERE/results/$name/trained")" "${OPTIONS[@]}"
        sweep "$name" cooldown
        local from=("$HERE/results/$name/trained" "$HERE/results/$name/cooldown")
        train "${stack}_mrt" "$HERE/checkpoints/$name/mrt" "$PLAIN" --seed "$seed" \
            --mrt-lenpen "$(best lenpen "${from[@]}")" --finetune-from-model "$(best checkpoint "${from[@]}")" \
            "${OPTIONS[@]}"
        sweep "$name" mrt
    fi
    run python3 "$HELPER" choose "$HERE/results/$name"
}

# Train the members and finish them, one after the other.
members() {
    local each
    for each in "${EACH[@]}"; do
        train_member "${each%%:*}" "${each/:/-}" "${each#*:}" "${OPTIONS[@]}"
        finish "${each/:/-}" "${each%%:*}" "${each#*:}"
    done
}

# The same, several at a time: each by this script, whose lines then begin with its name.
members_at_a_time() {
    local share=$(($(cores) / JOBS))
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((share > 0 ? share : 1))}
    # shellcheck disable=SC2016  # the inner shell expands these.
    run xargs -0 -n 1 -P "$JOBS" bash -o pipefail -c '"$@" 2>&1 | sed -u "s/^/${!#}: /"' "$SCRIPT" \
        "$0" --stage members --direction "$DIRECTION" ${SHORT:+--short} ${LIMIT:+--limit "$LIMIT"} --jobs 1 \
        "${OPTIONS[@]}" --member < <(printf '%s\0' "${EACH[@]}")
}

# Train the control, and choose as run.sh does.
control() {
    local result=$HERE/results/control/valid
    if [[ -z $LIMIT ]]; then
        prepare_data
    else
        DATA=$PLAIN
    fi
    train control "$CONTROL" "$DATA" ${LIMIT:+"${OPTIONS[@]}"}
    choose "$CONTROL" "$DATA" "$result" "${REVERSE[@]}"
    run python3 "$HELPER" note "$HERE/results/control" "$CHOSEN" "$DATA" 5 1 "$result/valid.$(basename "$CHOSEN" .pt)"
}

ensemble() {
    local models='' each lenpen folder
    for each in "${EACH[@]}"; do
        models+=:$(best checkpoint "$HERE/results/${each/:/-}")
    done
    for lenpen in 0.6 0.8 1 1.2 1.4 1.6 1.8 2; do
        folder=$HERE/results/ensemble/lenpen$lenpen
        translate "${models#:}" "$PLAIN" "$folder" --subset valid --lenpen "$lenpen"
        run python3 "$HELPER" note "$folder" "${models#:}" "$PLAIN" 5 "$lenpen" "$folder"
    done
    run python3 "$HELPER" choose "$HERE/results/ensemble"
}

student() {
    local models seed=${SEEDS[0]}
    models=$(best checkpoint "$HERE/results/ensemble")
    run "$ROOT/scripts/synthesise.sh" distil "$models" "$PLAIN" "$HERE/pairs/distilled" "${REVERSE[@]}"
    run "$ROOT/scripts/synthesise.sh" distil "$models" "$PLAIN" "$HERE/pairs/closest" --nbest 5 --closest "${REVERSE[@]}"
    run "$ROOT/scripts/mix.sh" "$HERE/pairs/student" "$PLAIN" "$HERE/pairs/distilled" "$HERE/pairs/closest"
    train student "$HERE/checkpoints/student/trained" "$HERE/pairs/student" --seed "$seed" "${OPTIONS[@]}"
    finish student student "$seed"
}

for stage in "${STAGES[@]}"; do
    printf '== %s\n' "$stage" >&2
    case $stage in
        data) long_data ;;
        members)
            if [[ ${JOBS:-1} -gt 1 && ${#EACH[@]} -gt 1 ]]; then
                members_at_a_time
            else
                members
            fi
            ;;
        control) control ;;
        ensemble) ensemble ;;
        student) student ;;
        test)
            mapfile -t SYSTEMS < <(python3 "$HELPER" systems "$HERE/results")
            for system in "${SYSTEMS[@]}"; do
                translate_test "$system"
            done
            run python3 "$HELPER" table "$HERE/results" "$HERE/table.tsv"
            ;;
        pictures) run python3 "$ROOT/examples/multi30k/curves.py" "$HERE" "$CONTROL/train.log" ;;
    esac
done
