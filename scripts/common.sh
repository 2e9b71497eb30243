# shellcheck shell=bash
# Sourced by the scripts beside it: where things are, how commands are shown and run, how a script ends.
#
# A script may set ON_INTERRUPT, the end of "interrupted; run the same command again to ...", or, where it trains,
# RESUMED, the folder of its checkpoints. It puts whatever it builds under one temporary path, TMP, which is removed
# however the script ends. BEGUN is a folder of work that this run has begun; it is removed if no result is in it, since
# work that was begun for a faulty file would refuse the command with the right one.

set -euo pipefail

# In the background of a script a shell starts commands with SIGINT ignored, which bash can neither trap nor
# reset: the script starts itself once more with the signal as it usually is. Where `env` is older than
# coreutils 8.31 and cannot do that, only SIGTERM ends the script.
if [[ $(trap -p INT) == "trap -- '' SIGINT" && -f $0 ]] && env --default-signal=INT true 2>/dev/null; then
    exec env --default-signal=INT "$BASH" "$0" "$@"
fi

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SCRIPT=$(basename "$0")
# What the errors of its Python begin with.
export DEEPNMT_SCRIPT=$SCRIPT
TMP=
RUNNING=
LOG=
ON_INTERRUPT="start over"
RESUMED=
BEGUN=

# The Python beside the scripts imports the package, which DEEPNMT_PYTHON_BIN need not have installed.
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}

# As in deepnmt/console.py, for Python that is no command of the package.
export PYTHONWARNINGS="ignore:\`torch.jit.script\` is deprecated:FutureWarning${PYTHONWARNINGS:+,$PYTHONWARNINGS}"
# What Python reads and writes is UTF-8 in any locale; fairseq's commands print text, too.
export PYTHONUTF8=1 PYTHONIOENCODING=utf-8

BIN=${DEEPNMT_PYTHON_BIN:-$ROOT/.venv/bin}
if [[ -d $BIN ]]; then
    PATH=$BIN:$PATH
fi

# In a log file, progress bars are lines: fewer of them.
if [[ ! -t 2 ]]; then
    export TQDM_MININTERVAL=${TQDM_MININTERVAL:-5}
fi

die() {
    printf '%s: error: %.5000s\n' "$SCRIPT" "$*" >&2
    exit 2
}

if [[ -n ${DEEPNMT_PYTHON_BIN:-} && ! -d $DEEPNMT_PYTHON_BIN ]]; then
    die "DEEPNMT_PYTHON_BIN must be a folder, but is '$DEEPNMT_PYTHON_BIN'"
fi

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null ||
            die "$tool is not installed; run 'make setup' in $ROOT, or let DEEPNMT_PYTHON_BIN name the bin folder that has it"
    done
}

# Become the program; its messages begin with the name of the script.
deepnmt() {
    need python3
    # Not with a package of that name in the folder where it is called.
    PYTHONSAFEPATH=1 exec python3 -m deepnmt "$@"
}

# The value of an option, as in: --dest) DEST=$(value "$@"); shift 2 ;;
value() {
    [[ $# -ge 2 && -n $2 ]] || die "option $1 needs a value"
    printf '%s' "$2"
}

# Of a command whose other words Python checks: --workers into WORKERS, which is empty without it, and all else into WORDS.
sort_words() {
    WORKERS='' WORDS=()
    while [[ $# -gt 0 ]]; do
        case $1 in
            --workers) WORKERS=$(value "$@"); shift ;;
            -h | --help) usage; exit 0 ;;
            *) WORDS+=("$1") ;;
        esac
        shift
    done
    [[ -z $WORKERS ]] || number_from --workers 1 1024 "$WORKERS"
}

# How many processors this process may use: nproc alone says at most as many as OMP_NUM_THREADS allows one process.
cores() {
    env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc
}

# Of a command with three arguments before the options of fairseq-generate: into POSITIONAL or OPTIONS.
sort_argument() {
    if [[ $1 != -* && ${#POSITIONAL[@]} -lt 3 && ${#OPTIONS[@]} -eq 0 ]]; then
        POSITIONAL+=("$1")
    else
        OPTIONS+=("$1")
    fi
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

# NAME VALUE. Each number has one form, which is one in JSON too: records are compared, and read again.
decimal() {
    [[ $2 =~ ^(0|[1-9][0-9]{0,8})(\.[0-9]{1,16})?$ ]] ||
        die "$1 must be a number in the form of 12 or 0.5, but is '$2'"
}

# The command gets a process group of its own, so that on Ctrl-C this script alone is told, ends the
# whole group, and says one line, where every Python process would have printed a traceback.
# Where LOG names a file, the file gets a copy of what the command prints.
run() {
    { printf '+'; printf ' %q' "$@"; printf '\n'; } >&2
    run_unshown "$@"
}

# The same for a command that shows itself what it runs.
run_unshown() {
    set -m
    if [[ -n $LOG ]]; then
        "$@" > >(exec tee -ia -- "$LOG") 2> >(exec tee -ia -- "$LOG" >&2) &
    else
        "$@" &
    fi
    RUNNING=$!
    set +m
    local status=0
    wait "$RUNNING" || status=$?
    RUNNING=
    return "$status"
}

stop_running() {
    if [[ -n $RUNNING ]]; then
        kill -TERM -- "-$RUNNING" 2>/dev/null || true
        wait "$RUNNING" 2>/dev/null || true
        RUNNING=
    fi
}

# What the same command would do after this one has ended early.
what_next() {
    if [[ -n $RESUMED && -f $RESUMED/checkpoint_last.pt ]]; then
        printf 'resume from the last checkpoint in %s' "$RESUMED"
    else
        printf '%s' "$ON_INTERRUPT"
    fi
}

on_exit() {
    stop_running
    if [[ -d $BEGUN && -z $(find "$BEGUN" -type f ! -name lock ! -name job.json ! -name "${SCRIPT%.sh}.json" 2>/dev/null) ]]; then
        rm -rf -- "$BEGUN"
    fi
    if [[ -n $TMP ]]; then
        rm -rf -- "$TMP" "$TMP.lock"
    fi
}

on_signal() {
    trap '' INT TERM HUP
    stop_running
    if [[ $1 == INT ]]; then
        printf '\n%s: interrupted; run the same command again to %s\n' "$SCRIPT" "$(what_next)" >&2
        exit 130
    fi
    exit 143
}

trap on_exit EXIT
trap 'on_signal INT' INT
trap 'on_signal TERM' TERM HUP

# Let one run at a time use the folder $1, $2 on the command line, once it is there; a second call does nothing. All
# commands inherit the lock: one that outlives a killed script still writes there. Some machines have no flock.
HELD=''
hold() {
    [[ -z $HELD && -d $1 ]] && command -v flock >/dev/null || return 0
    exec {HELD}>"$1/lock"
    flock --wait 10 "$HELD" && return
    # It is the other one's.
    BEGUN=
    die "$2 must not be in use, but a command of an earlier run is still running in '$1'"
}

# Where a folder $1 is built: where it leads to, if it is a link, such as to a larger disk; the link stays.
place_of() {
    if [[ ! -L $1 && ! $1 =~ (^|/)\.\.?/*$ ]] || ! realpath -m -- "$1" 2>/dev/null; then
        printf '%s\n' "$1"
    fi
}

# Refuse a place $1 that is a link to nowhere, which a folder cannot take.
no_lost_link() {
    if [[ -L $1 && ! -e $1 ]]; then
        # A script that was killed between two renamings leaves it so.
        PYTHONSAFEPATH=1 python3 -m deepnmt.beside "$(place_of "$1")"
    fi
    [[ ! -L $1 || -e $1 ]] || die "$1: must be a new folder or one of this script, but is a link that leads nowhere"
}

# Set TMP to the name beside $1, or beside what it links to, under which it is built, as deepnmt/beside.py does, and
# remove what killed scripts have left there. Commands inherit the lock: one that outlives the killed script still
# writes to TMP.
build_beside() {
    no_lost_link "$1"
    local place
    place=$(place_of "$1")
    PYTHONSAFEPATH=1 python3 -m deepnmt.beside "$place"
    TMP=$place.tmp.$$
    mkdir -p -- "$(dirname -- "$place")" 2>/dev/null || true
    # Some file systems have no locks, and some machines no flock.
    if { exec {BUILDING}>"$TMP.lock"; } 2>/dev/null; then
        flock "$BUILDING" 2>/dev/null || true
    fi
    local reason
    if ! reason=$({ rm -rf -- "$TMP" && mkdir -- "$TMP" && rmdir -- "$TMP"; } 2>&1); then
        TMP=
        die "$place: must be in a folder that can be written to, but is not: ${reason##*: }"
    fi
}

# Put the finished folder $1 in the place of $2; what was there stays until the new one is in place.
replace_folder() {
    local place old
    place=$(place_of "$2")
    old=$place.old.$$
    if [[ -e $place ]]; then
        mv -T -- "$place" "$old"
    fi
    mv -T -- "$1" "$place"
    rm -rf -- "$old"
}
