# shellcheck shell=bash
# Separate slow cores: every vCPU thread of a QEMU process gets a CPU bandwidth group of its own on the
# host, so that a busy vCPU cannot take what an idle one leaves. With cgroup v1 these are groups below
# the cpu controller, with v2 threaded groups. The whole process outweighs everything else on the host, so that
# other work there does not make the cores slower. They are gone after slow_cores_remove.

# Microseconds in which a core of $1 percent gets 2 ms: short, so that a slow core is slow at every moment, but the
# kernel refuses less than 1 ms, and keeps it the worse the less it is.
slow_cores_period() { echo $((200000 / $1 > 10000 ? 200000 / $1 : 10000)); }

# Threads of process $1 whose names match $2 (an extended regular expression), in their order.
slow_cores_threads() {
    local task name
    for task in "/proc/$1"/task/*; do
        { read -r name <"$task/comm"; } 2>/dev/null || continue
        if [[ $name =~ $2 ]]; then printf '%s\n' "${task##*/}"; fi
    done | sort -n
}

slow_cores_v1() { [[ -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us || -e /sys/fs/cgroup/cpu/tasks ]]; }

slow_cores_v2() { grep -qw cpu /sys/fs/cgroup/cgroup.controllers 2>/dev/null; }

# Why it cannot be done here; silent and true if it can.
slow_cores_possible() {
    ((EUID == 0)) || { echo "CPU bandwidth groups need root" && return 1; }
    slow_cores_v1 || slow_cores_v2 || { echo "this host has no cgroup cpu controller below /sys/fs/cgroup" && return 1; }
}

# The most weight that a group can have, against 1024 (v1) or 100 (v2) of a process elsewhere.
slow_cores_shares=262144 slow_cores_weight=10000

# slow_cores_favour NAME PID: a group for the process, before whose threads all others of the host stand back.
slow_cores_favour() {
    local base
    if slow_cores_v1; then
        base=/sys/fs/cgroup/cpu/$1
        mkdir "$base" && echo "$slow_cores_shares" >"$base/cpu.shares" && echo "$2" >"$base/cgroup.procs"
    else
        base=/sys/fs/cgroup/$1
        grep -qw cpu /sys/fs/cgroup/cgroup.subtree_control || echo +cpu >/sys/fs/cgroup/cgroup.subtree_control || return
        mkdir "$base" && echo "$slow_cores_weight" >"$base/cpu.weight" && echo "$2" >"$base/cgroup.procs"
    fi
}

# slow_cores_limit NAME PID PATTERN PERCENT, in the group of slow_cores_favour: prints how many threads were limited.
slow_cores_limit() {
    local name=$1 pid=$2 pattern=$3 period quota thread group count=0 base=/sys/fs/cgroup/$1
    period=$(slow_cores_period "$4")
    quota=$(($4 * period / 100))
    ! slow_cores_v1 || base=/sys/fs/cgroup/cpu/$name
    for thread in $(slow_cores_threads "$pid" "$pattern"); do
        group=$base/core$count
        mkdir "$group" || return
        if slow_cores_v1; then
            echo "$period" >"$group/cpu.cfs_period_us" && echo "$quota" >"$group/cpu.cfs_quota_us" &&
                echo "$thread" >"$group/tasks" || return
        else
            echo threaded >"$group/cgroup.type" || return
            ((count > 0)) || echo +cpu >"$base/cgroup.subtree_control" || return
            echo "$quota $period" >"$group/cpu.max" && echo "$thread" >"$group/cgroup.threads" || return
        fi
        count=$((count + 1))
    done
    printf '%s\n' "$count"
}

# After the process has ended.
slow_cores_remove() {
    local group
    for group in /sys/fs/cgroup/cpu/"$1" /sys/fs/cgroup/"$1"; do
        [[ -d $group ]] || continue
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
    done
    return 0
}
