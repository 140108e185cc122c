# shellcheck shell=bash
# Daemons by record: started in a session of their own, remembered as "pid starttime", and signalled
# only while that very process lives. Nothing here ever looks for a process by its program's name.
#
# Needs PROC_DIR, a folder with run/ (records and commands) and log/ (output).

# The kernel's start time of a process in clock ticks since boot, empty when there is none (or only
# its zombie).  The name in field 2 may hold spaces and parentheses, so count behind the last ')'.
proc_start_time() {
    local line rest
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    read -r -a rest <<<"${line##*) }"
    [[ ${rest[0]} != Z && ${rest[0]} != X ]] || return 1
    printf '%s\n' "${rest[19]}"
}

# One letter of state (R, S, D, T, Z ...).
proc_state() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    line=${line##*) }
    printf '%s\n' "${line%% *}"
}

# The pid of a recorded daemon that is alive.
proc_pid() {
    local pid start boot
    [[ -r $PROC_DIR/run/$1.pid ]] || return 1
    read -r pid start boot <"$PROC_DIR/run/$1.pid" || return 1
    [[ $boot == "$(</proc/sys/kernel/random/boot_id)" ]] || return 1
    [[ $(proc_start_time "$pid") == "$start" ]] || return 1
    printf '%s\n' "$pid"
}

# Run "$@" once more or for the first time as daemon $1.
proc_spawn() {
    local name=$1 pid start
    shift
    if pid=$(proc_pid "$name"); then
        echo "proc: $name runs already (pid $pid)" >&2
        return 1
    fi
    printf '%q ' "$@" >"$PROC_DIR/run/$name.cmd"
    # A session of its own: no terminal, no hang-up, no signal meant for the script that starts it.
    (
        export ADL_CLUSTER_DAEMON=$PROC_DIR
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            ((fd > 2)) && eval "exec $fd>&-"
        done 2>/dev/null
        exec setsid "$@" </dev/null >>"$PROC_DIR/log/$name.out" 2>&1
    ) &
    pid=$!
    disown "$pid" 2>/dev/null || true
    start=$(proc_start_time "$pid") || start=gone
    echo "$pid $start $(</proc/sys/kernel/random/boot_id)" >"$PROC_DIR/run/$name.pid"
}

# Start a recorded daemon again with the command it had.
proc_respawn() {
    local -a command
    [[ -r $PROC_DIR/run/$1.cmd ]] || {
        echo "proc: $1 was never started here" >&2
        return 1
    }
    eval "command=($(<"$PROC_DIR/run/$1.cmd"))"
    proc_spawn "$1" "${command[@]}"
}

proc_signal() {
    local pid
    pid=$(proc_pid "$1") || return 1
    kill -s "$2" "$pid" 2>/dev/null
}

# Poll a command until it succeeds: wait_until SECONDS COMMAND...   ADL_PATIENCE times as long on slow machines.
wait_until() {
    local end=$((SECONDS + $1 * ${ADL_PATIENCE:-1} + 1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}

proc_gone() { ! proc_pid "$1" >/dev/null; }

# Ask a daemon to end, and after $2 (default 5) seconds make it.
proc_stop() {
    local name=$1 patience=${2:-5}
    if proc_pid "$name" >/dev/null; then
        proc_signal "$name" TERM || true
        proc_signal "$name" CONT || true
        if ! wait_until "$patience" proc_gone "$name"; then
            proc_signal "$name" KILL || true
            wait_until 5 proc_gone "$name" || echo "proc: $name does not die" >&2
        fi
    fi
    rm -f "$PROC_DIR/run/$name.pid"
}

# Names of all daemons that have a record, dead ones too.
proc_names() {
    local record
    for record in "$PROC_DIR"/run/*.pid; do
        [[ -e $record ]] || continue
        record=${record##*/}
        printf '%s\n' "${record%.pid}"
    done
}

# What a daemon had to say, for people who want to know why it died.
proc_tail() {
    local name=$1 lines=${2:-15} file
    for file in "$PROC_DIR/log/$name.log" "$PROC_DIR/log/$name.out"; do
        [[ -s $file ]] || continue
        echo "--- last lines of $file" >&2
        tail -n "$lines" "$file" >&2
    done
}

# Pids whose initial environment has the entry $1 (KEY=VALUE, exactly), our own ancestors excepted.
proc_with_environment() {
    local file pid self=$$ ancestors=" "
    while ((self > 1)); do
        ancestors+="$self "
        { read -r _ _ _ self _ < <(sed 's/.*) /0 0 /' "/proc/$self/stat" 2>/dev/null); } || break
    done
    grep -lzxF -e "$1" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        [[ $ancestors == *" $pid "* || $pid == "$BASHPID" ]] || printf '%s\n' "$pid"
    done
}
