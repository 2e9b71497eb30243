#!/usr/bin/env bash
# Back-translation or distillation in rounds: models make text for the models of the next round.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: iterate.sh RECIPE [--rounds N] [--min-gain G] [--KEY VALUE...]

Runs the rounds of a recipe, such as those under configs/synthetic/, and stops after a round that gains less than
--min-gain on validation, or after N. It can be stopped at any moment; run the same command again to resume.

  kind: back     round 0 trains a model of each direction on DATA; in each further round, a model of the other direction
                 translates monolingual text of the target, and a new model is trained on DATA and these pairs
  kind: distil   round 0 trains several students on DATA, or takes a teacher; in each further round, their ensemble
                 translates DATA's source, and new students are trained on these translations

  --rounds N     rounds after round 0, at most (default: the recipe's, or 3)
  --min-gain G   least gain in BLEU of a round that is followed by another (default: the recipe's, or 0.1)
  --KEY VALUE    any other key of the recipe but kind, which wins over the recipe's: --data, --mono-source,
                 --mono-target, --save, --teacher, --options '--max-update 500', ...

The folder that `save` names gets round-N/ with checkpoints, synthetic pairs and translations of the validation set, and
rounds.tsv, a line a round.

example:
  scripts/iterate.sh configs/synthetic/iterative.yaml --data data/de-en --mono-source data/mono-de \
      --mono-target data/mono-en --save checkpoints/iterative --rounds 2
HELP
}

for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
done
[[ $# -ge 1 ]] || die "RECIPE must be given (see --help)"
need python3 fairseq-train fairseq-generate flock column
ON_INTERRUPT="resume"

SAVE=$(python3 "$ROOT/scripts/iterate.py" check "$@")
hold "$SAVE" save

TMP=$(mktemp)
while true; do
    python3 "$ROOT/scripts/iterate.py" next "$@" >"$TMP"
    mapfile -d '' -t STEP <"$TMP"
    [[ ${#STEP[@]} -gt 0 ]] || break
    run "$ROOT/scripts/${STEP[1]}" "${STEP[@]:2}"
    if [[ -n ${STEP[0]} ]]; then
        touch -- "${STEP[0]}"
    fi
done
python3 "$ROOT/scripts/iterate.py" table "$@" | column -t -s "$(printf '\t')"
echo "$SAVE is ready"
