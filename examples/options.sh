# shellcheck shell=bash
# Values of options on an example's command line; sourced after scripts/common.sh.
set -euo pipefail

# The value of an option, as in: --dest) DEST=$(value "$@"); shift 2 ;;
value() {
    [[ $# -ge 2 && -n $2 ]] || die "option $1 needs a value"
    printf '%s' "$2"
}

# How many processors this process may use: nproc alone says at most as many as OMP_NUM_THREADS allows one process.
cores() {
    env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc
}

whole_number() {
    [[ $2 =~ ^[0-9]+$ ]] || die "$1 must be a whole number, but is '$2'"
}

# NAME LOW HIGH VALUE. Bash counts to 2^63 and silently wrong above: digits are counted first.
number_from() {
    whole_number "$1" "$4"
    local number=$4
    while [[ $number == 0?* ]]; do number=${number#0}; done
    [[ ${#number} -le ${#3} && $number -le $3 ]] || die "$1 must be at most $3, but is $4"
    [[ $number -ge $2 ]] || die "$1 must be at least $2, but is $4"
    # Bash would read it as octal.
    [[ $number == "$4" ]] || die "$1 must not begin with a zero, but is $4"
}
