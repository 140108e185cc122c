# shellcheck shell=bash
# A private Slurm cluster in one folder: own munge, slurmctld, any number of slurmd on this host, if
# asked slurmdbd with MariaDB, and adloader's controller and plugin. Nothing outside the folder is
# read or changed (but for the cgroups of --confine), so it may run beside a real Slurm.
#
# Source it and call cluster_start, cluster_stop ...; or use the program `cluster` beside it.
#
#   DIR/slurm.conf, cgroup.conf, plugstack.conf, adloader.conf, env (to be sourced by clients)
#   DIR/run/  records of the daemons (proc.sh), sockets     DIR/log/  their logs
#   DIR/munge/ key and socket     DIR/spool/NODE, DIR/state     DIR/db/

cluster_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=proc.sh
. "$cluster_here/proc.sh"
PATH=$PATH:/usr/sbin:/sbin

CLUSTER_DIR_MAX=48 # bytes: Unix sockets below it must stay within 107

# What cluster_start makes; the program `cluster` explains each. Empty means no.
cluster_defaults() {
    opt_nodes=1
    opt_cpus=$(nproc)
    opt_prefix=n
    opt_dbd=
    opt_confine=
    opt_build=
    opt_tcp=
    opt_no_controller=
    opt_no_plugin=
    opt_plugstack=
    opt_conf=
    opt_adl_conf=
    opt_files=()
}

cluster_fail() {
    echo "cluster: $*" >&2
    return 1
}

# Use folder $1 from now on.
cluster_use() {
    [[ $1 == /* ]] || cluster_fail "DIR must be an absolute path, not '$1'" || return
    ((${#1} <= CLUSTER_DIR_MAX)) ||
        cluster_fail "'$1' is too long for the sockets below it ($CLUSTER_DIR_MAX bytes at most); take something like /tmp/adl-NAME" || return
    CLUSTER=$1
    PROC_DIR=$1
    cluster_load_settings
}

# What the cluster that lies in the folder was started with.
cluster_load_settings() {
    cluster_defaults
    if [[ -r $CLUSTER/settings ]]; then
        # shellcheck disable=SC1091
        . "$CLUSTER/settings"
    fi
}

# An empty folder that only we can write to. What an interrupted run left in it is stopped first.
cluster_make_folder() {
    if [[ -e $CLUSTER || -L $CLUSTER ]]; then
        [[ -d $CLUSTER && ! -L $CLUSTER && -O $CLUSTER ]] ||
            cluster_fail "$CLUSTER is not a folder of ours" || return
        if [[ -e $CLUSTER/.adloader-cluster ]]; then
            cluster_stop
        elif [[ -n $(ls -A "$CLUSTER") ]]; then
            cluster_fail "$CLUSTER is not empty and was not made by this program" || return
        fi
        find "$CLUSTER" -mindepth 1 -delete
    else
        mkdir -p "$(dirname "$CLUSTER")" && mkdir -m 755 "$CLUSTER" || return
    fi
    chmod 755 "$CLUSTER"
    : >"$CLUSTER/.adloader-cluster"
    mkdir -m 755 "$CLUSTER"/{run,log,munge,spool,state,adloader}
}

# Print $1 free TCP ports below the range that the kernel hands out itself.
cluster_free_ports() {
    local want=$1 port used
    used=" $(awk 'FNR > 1 { split($2, a, ":"); print a[2] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | tr '\n' ' ')"
    port=$((17000 + ($(cksum <<<"$CLUSTER" | cut -d' ' -f1) + RANDOM) % 13000))
    while ((want > 0)); do
        ((port++))
        ((port < 32000)) || port=17000
        [[ $used == *" $(printf '%04X' "$port") "* ]] && continue
        printf '%s\n' "$port"
        ((want--))
    done
}

cluster_cgroup_v1() { [[ -d /sys/fs/cgroup/cpuset && -e /sys/fs/cgroup/cpuset/cpuset.cpus ]]; }

# Version 2 is used without systemd alone: there slurmd would ask it for a scope.
cluster_cgroup_v2() {
    [[ ! -d /run/systemd/system ]] && grep -qsw cpuset /sys/fs/cgroup/system.slice/cgroup.controllers
}

# Why cores cannot be confined with cpusets here; silent and true if they can.
cluster_can_confine() {
    local controller
    if cluster_cgroup_v2; then
        return 0
    fi
    for controller in cpuset freezer; do
        if [[ ! -e /sys/fs/cgroup/$controller/cgroup.procs ]]; then
            echo "no cgroup v1 hierarchy /sys/fs/cgroup/$controller on this host"
            return 1
        fi
    done
    if ! mkdir "/sys/fs/cgroup/cpuset/adloader-try-$$" 2>/dev/null; then
        echo "/sys/fs/cgroup/cpuset cannot be written to"
        return 1
    fi
    rmdir "/sys/fs/cgroup/cpuset/adloader-try-$$"
}

# Confined nodes have cgroups by their names, which all clusters of the host share, and job numbers
# are the same everywhere: so the names are made of the folder's.
cluster_pick_prefix() {
    local sum letters=abcdefghijklmnopqrstuvwxyz name=n
    [[ $opt_confine && $opt_prefix == n ]] || return 0
    for ((sum = $(cksum <<<"$CLUSTER" | cut -d' ' -f1); ${#name} < 5; sum /= 26)); do
        name+=${letters:sum % 26:1}
    done
    opt_prefix=$name
}

cluster_write_slurm_conf() {
    local host i proctrack=proctrack/linuxproc task=task/affinity
    host=$(hostname -s 2>/dev/null || cat /proc/sys/kernel/hostname)
    if [[ $opt_confine ]]; then
        proctrack=proctrack/cgroup
        task=task/cgroup,task/affinity
    fi
    cat <<CONF
ClusterName=adloader
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$CLUSTER/munge/socket,cred_expire=5
SlurmctldPort=${CLUSTER_PORTS[0]}
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool/%n
SlurmctldPidFile=$CLUSTER/run/slurmctld.slurmpid
SlurmdPidFile=$CLUSTER/run/slurmd-%n.slurmpid
SlurmctldLogFile=$CLUSTER/log/slurmctld.log
SlurmdLogFile=$CLUSTER/log/slurmd-%n.log
SlurmctldDebug=verbose
SlurmdDebug=debug
PlugStackConfig=$CLUSTER/plugstack.conf
ProctrackType=$proctrack
TaskPlugin=$task
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=5,bf_interval=5
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
MessageTimeout=15
InactiveLimit=0
KillWait=2
UnkillableStepTimeout=20
CONF
    if [[ $opt_dbd ]]; then
        cat <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=${CLUSTER_PORTS[1]}
AccountingStoragePass=$CLUSTER/munge/socket
CONF
    fi
    for ((i = 1; i <= opt_nodes; i++)); do
        echo "NodeName=$opt_prefix$i NodeHostname=$host NodeAddr=127.0.0.1 Port=${CLUSTER_PORTS[4 + i]} CPUs=$opt_cpus State=UNKNOWN"
    done
    echo "PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    printf '%s' "$opt_conf"
}

cluster_write_cgroup_conf() {
    echo "CgroupAutomount=no"
    if [[ $opt_confine ]] && cluster_cgroup_v2; then
        printf '%s\n' "CgroupPlugin=cgroup/v2" "IgnoreSystemd=yes"
    elif cluster_cgroup_v1 || [[ $(slurmd -V) == *" 22."* ]]; then
        # 22.05 knows no "disabled"; with v1 named and no plugin that uses it, nothing is touched.
        echo "CgroupPlugin=cgroup/v1"
    else
        echo "CgroupPlugin=disabled"
    fi
    if [[ $opt_confine ]]; then
        printf '%s\n' "CgroupMountpoint=/sys/fs/cgroup" "ConstrainCores=yes" "ConstrainRAMSpace=no"
    fi
}

cluster_write_slurmdbd_conf() {
    cat <<CONF
AuthType=auth/munge
AuthInfo=socket=$CLUSTER/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=${CLUSTER_PORTS[1]}
SlurmUser=root
LogFile=$CLUSTER/log/slurmdbd.log
PidFile=$CLUSTER/run/slurmdbd.slurmpid
DebugLevel=verbose
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=${CLUSTER_PORTS[2]}
StorageUser=slurm
StoragePass=$1
StorageLoc=slurm_acct
CONF
}

# The controller's file. Short times, so that tests see a lease end without waiting long for it.
cluster_write_adloader_conf() {
    cat <<CONF
ControllerSocket=$CLUSTER/adloader/ctld.sock
ListenAddress=$([[ $opt_tcp ]] && echo 127.0.0.1 || echo none)
ControllerPort=${CLUSTER_PORTS[3]}
MungeSocket=$CLUSTER/munge/socket
PidFile=$CLUSTER/run/adloaderctld.ownpid
StateDir=$CLUSTER/adloader/state
LogTarget=stderr
LogLevel=debug
CONF
    printf '%s' "$opt_adl_conf"
}

cluster_write_plugstack() {
    local path words
    if [[ $opt_build && ! $opt_no_plugin ]]; then
        path=$(cluster_plugin_path) && words=$(cluster_plugin_arguments) || return
        echo "optional $path $words"
    fi
    printf '%s' "$opt_plugstack"
}

# The first of the given files below opt_build that exists: as built, or as installed there.
cluster_built() {
    local path
    for path in "$@"; do
        if [[ -e $opt_build/$path ]]; then
            printf '%s\n' "$opt_build/$path"
            return
        fi
    done
    cluster_fail "no ${1##*/} below $opt_build: build it first"
}

# A copy in the cluster's folder: the build's may lie where plain users cannot read it.
cluster_plugin_path() {
    local path
    local -a installed
    mapfile -t installed < <(cd "$opt_build" && compgen -G 'lib/slurm*/spank_adloader.so'
        cd "$opt_build" && compgen -G 'lib/*/slurm*/spank_adloader.so')
    path=$(cluster_built .libs/spank_adloader.so "${installed[@]}") || return
    install -m 755 "$path" "$CLUSTER/spank_adloader.so" && echo "$CLUSTER/spank_adloader.so"
}

cluster_plugin_arguments() {
    local words tool
    tool=$(cluster_built adloader bin/adloader) || return
    words="rundir=$CLUSTER/adloader topology=$tool log=debug"
    if [[ $opt_tcp ]]; then
        echo "controller=127.0.0.1:${CLUSTER_PORTS[3]} munge_socket=$CLUSTER/munge/socket $words"
    else
        echo "controller=unix:$CLUSTER/adloader/ctld.sock $words"
    fi
}

# Further configuration files: name and text in turn.
cluster_write_files() {
    local i
    for ((i = 0; i < ${#opt_files[@]}; i += 2)); do
        printf '%s\n' "${opt_files[i + 1]}" >"$CLUSTER/${opt_files[i]}" || return
    done
}

# Slurm's version as a number: 2205, 2411, 2605.
cluster_slurm_version() { slurmd -V | sed 's/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/'; }

# What a client's shell needs.
cluster_write_env() {
    local nodes
    nodes=$(seq -f "$opt_prefix%.0f" -s ' ' "$opt_nodes")
    cat <<CONF
export SLURM_CONF='$CLUSTER/slurm.conf'
export ADL_CLUSTER='$CLUSTER'
export ADL_CLUSTER_NODES='$nodes'
export ADL_CONF='$CLUSTER/adloader.conf'
export ADLOADER_CONTROLLER='unix:$CLUSTER/adloader/ctld.sock'
export ADL_SOCKET='$CLUSTER/adloader/ctld.sock'
export ADL_BUILD='$opt_build'
export MUNGE_SOCKET='$CLUSTER/munge/socket'
CONF
}

# What cluster_use reads back.
cluster_write_settings() {
    local name
    for name in opt_nodes opt_prefix opt_build opt_confine opt_dbd opt_tcp opt_no_plugin opt_plugstack; do
        printf '%s=%q\n' "$name" "${!name}"
    done
    echo "CLUSTER_PORTS=(${CLUSTER_PORTS[*]})"
}

# Start a daemon and wait for the condition "$3 ..." ; shows the log if it dies or is not ready in $2 s.
#   cluster_ready NAME SECONDS CONDITION...
cluster_ready() {
    local name=$1 end=$((SECONDS + $2 + 1))
    shift 2
    until "$@"; do
        if ! proc_pid "$name" >/dev/null; then
            cluster_fail "$name died at its start" || true
            proc_tail "$name"
            return 1
        fi
        if ((SECONDS >= end)); then
            cluster_fail "$name is not ready in time" || true
            proc_tail "$name"
            return 1
        fi
        sleep 0.2
    done
}

cluster_munge_works() { munge -S "$CLUSTER/munge/socket" -n >/dev/null 2>&1; }

cluster_start_munged() {
    (umask 077 && head -c 128 /dev/urandom >"$CLUSTER/munge/key")
    proc_spawn munged munged --foreground --force --socket="$CLUSTER/munge/socket" \
        --key-file="$CLUSTER/munge/key" --seed-file="$CLUSTER/munge/seed" \
        --pid-file="$CLUSTER/munge/pid" --log-file="$CLUSTER/log/munged.log" \
        --origin=127.0.0.1 --num-threads=2
    cluster_ready munged 10 cluster_munge_works
}

cluster_port_listens() {
    awk -v port="$(printf '%04X' "$1")" '{ split($2, a, ":") } a[2] == port && $4 == "0A" { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

cluster_start_database() {
    local password
    password=$(head -c 18 /dev/urandom | od -An -tx1 | tr -d ' \n')
    mkdir -m 700 "$CLUSTER/db"
    mariadb-install-db --no-defaults --user=root --datadir="$CLUSTER/db/data" \
        --force --skip-name-resolve --skip-test-db --auth-root-authentication-method=normal >"$CLUSTER/log/mariadb-install.out" 2>&1 || {
        cluster_fail "mariadb-install-db failed" || true
        tail -n 15 "$CLUSTER/log/mariadb-install.out" >&2
        return 1
    }
    (umask 077 && cat >"$CLUSTER/db/init.sql") <<SQL
CREATE DATABASE IF NOT EXISTS slurm_acct;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON slurm_acct.* TO 'slurm'@'127.0.0.1';
SQL
    proc_spawn mariadbd mariadbd --no-defaults --user=root --datadir="$CLUSTER/db/data" \
        --socket="$CLUSTER/db/socket" --port="${CLUSTER_PORTS[2]}" --bind-address=127.0.0.1 \
        --pid-file="$CLUSTER/db/pid" --init-file="$CLUSTER/db/init.sql" --skip-name-resolve \
        --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 \
        --innodb-flush-log-at-trx-commit=2
    cluster_ready mariadbd 30 cluster_port_listens "${CLUSTER_PORTS[2]}" || return
    (umask 077 && cluster_write_slurmdbd_conf "$password" >"$CLUSTER/slurmdbd.conf")
    SLURM_CONF=$CLUSTER/slurm.conf proc_spawn slurmdbd slurmdbd -D
    cluster_ready slurmdbd 30 cluster_port_listens "${CLUSTER_PORTS[1]}" || return
    # slurmctld wants to be known before it starts
    cluster_ready slurmdbd 20 cluster_known_to_dbd
}

cluster_known_to_dbd() {
    cluster_run sacctmgr -n -P show cluster format=cluster 2>/dev/null | grep -qx adloader ||
        { cluster_run sacctmgr -i add cluster adloader >>"$CLUSTER/log/sacctmgr.out" 2>&1 && false; }
}

# Run a client command against this cluster, 10 s at most.
cluster_run() { SLURM_CONF=$CLUSTER/slurm.conf timeout 10 "$@"; }

cluster_slurmctld_answers() { cluster_run scontrol ping 2>/dev/null | grep -q ' is UP'; }

cluster_nodes_idle() {
    [[ $(cluster_run sinfo -h -N -o %T 2>/dev/null | grep -cx idle) == "$opt_nodes" ]]
}

cluster_start_slurm() {
    local i
    proc_spawn slurmctld slurmctld -D -f "$CLUSTER/slurm.conf"
    cluster_ready slurmctld 20 cluster_slurmctld_answers || return
    for ((i = 1; i <= opt_nodes; i++)); do
        proc_spawn "slurmd-$opt_prefix$i" slurmd -D -f "$CLUSTER/slurm.conf" -N "$opt_prefix$i"
    done
    local end=$((SECONDS + 30 + opt_nodes))
    until cluster_nodes_idle; do
        for ((i = 1; i <= opt_nodes; i++)); do
            if ! proc_pid "slurmd-$opt_prefix$i" >/dev/null; then
                cluster_fail "slurmd of $opt_prefix$i died at its start" || true
                proc_tail "slurmd-$opt_prefix$i"
                return 1
            fi
        done
        if ((SECONDS >= end)); then
            cluster_fail "the nodes do not become idle:" || true
            cluster_run sinfo -N -o '%N %T %E' >&2 || true
            proc_tail slurmctld
            return 1
        fi
        sleep 0.2
    done
}

cluster_controller_answers() { [[ -S $CLUSTER/adloader/ctld.sock ]]; }

cluster_start_controller() {
    mkdir -p "$CLUSTER/adloader/state"
    rm -f "$CLUSTER/adloader/ctld.sock"
    SLURM_CONF=$CLUSTER/slurm.conf proc_spawn adloaderctld "$(cluster_built adloaderctld sbin/adloaderctld)" --foreground --config "$CLUSTER/adloader.conf"
    cluster_ready adloaderctld 10 cluster_controller_answers
}

# Bring everything up; the opt_ variables say what. On failure nothing is left running.
cluster_start() {
    cluster_check_host || return
    cluster_make_folder || return
    cluster_pick_prefix
    mapfile -t CLUSTER_PORTS < <(cluster_free_ports $((5 + opt_nodes)))
    cluster_write_settings >"$CLUSTER/settings"
    cluster_write_slurm_conf >"$CLUSTER/slurm.conf"
    cluster_write_cgroup_conf >"$CLUSTER/cgroup.conf"
    cluster_write_plugstack >"$CLUSTER/plugstack.conf" || return
    cluster_write_adloader_conf >"$CLUSTER/adloader.conf"
    cluster_write_env >"$CLUSTER/env"
    cluster_write_files || return
    if cluster_start_munged &&
        { [[ ! $opt_dbd ]] || cluster_start_database; } &&
        { [[ ! $opt_build || $opt_no_controller ]] || cluster_start_controller; } &&
        cluster_start_slurm; then
        return 0
    fi
    cluster_stop
    return 1
}

cluster_check_host() {
    local program reason missing=()
    local -a wanted=(munged munge slurmctld slurmd scontrol srun setsid)
    ((EUID == 0)) || cluster_fail "a private cluster needs root (slurmd does)" || return
    [[ $opt_dbd ]] && wanted+=(slurmdbd mariadbd mariadb-install-db sacctmgr)
    for program in "${wanted[@]}"; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    [[ ${#missing[@]} == 0 ]] || cluster_fail "missing programs: ${missing[*]} (see scripts/packages.sh)" || return
    if [[ $opt_confine ]] && ! reason=$(cluster_can_confine); then
        cluster_fail "--confine is impossible: $reason" || return
    fi
}

# Cancel what runs, then end the daemons, then whatever else was started by them. In a subshell,
# since what lies in the folder may be a cluster with other settings than the one to be started.
cluster_stop() {
    [[ -d $CLUSTER/run ]] || return 0
    (cluster_load_settings && cluster_stop_all)
}

cluster_stop_all() {
    local name
    for name in $(proc_names); do
        proc_signal "$name" CONT || true
    done
    cluster_cancel_jobs
    for name in adloaderctld slurmctld; do
        proc_stop "$name"
    done
    for name in $(proc_names | grep '^slurmd-'); do
        proc_signal "$name" TERM || true
    done
    for name in $(proc_names | grep '^slurmd-'); do
        proc_stop "$name"
    done
    proc_stop slurmdbd
    proc_stop mariadbd 15
    proc_stop munged
    for name in $(proc_names); do
        proc_stop "$name"
    done
    cluster_sweep
    cluster_remove_cgroups
}

cluster_no_jobs() { [[ -z $(cluster_run squeue -h -o %A 2>/dev/null) ]]; }

cluster_cancel_jobs() {
    local jobs
    proc_pid slurmctld >/dev/null && cluster_munge_works || return 0
    jobs=$(cluster_run squeue -h -o %A 2>/dev/null | tr '\n' ' ') || return 0
    [[ $jobs ]] || return 0
    # shellcheck disable=SC2086
    cluster_run scancel $jobs 2>/dev/null || true
    wait_until 4 cluster_no_jobs || true
}

# Step daemons of this cluster: they overwrite their environment with a title, but hold files below
# the folder open.
cluster_step_daemons() {
    local exe pid
    for exe in /proc/[0-9]*/exe; do
        [[ $(readlink "$exe" 2>/dev/null) == */slurmstepd* ]] || continue
        pid=${exe#/proc/}
        pid=${pid%/exe}
        if find "/proc/$pid/fd" -lname "$CLUSTER/*" -print -quit 2>/dev/null | grep -q .; then
            printf '%s\n' "$pid"
        fi
    done
}

# Step daemons, other daemons, tasks and clients of this cluster that outlived it: known by the
# folder's name in the environment they were started with.
cluster_strays() {
    local pid
    cluster_step_daemons
    proc_with_environment "ADL_CLUSTER_DAEMON=$CLUSTER"
    for pid in $(proc_with_environment "SLURM_CONF=$CLUSTER/slurm.conf"); do
        if grep -zq '^SLURM_STEP_ID=\|^SLURM_JOB_ID=' "/proc/$pid/environ" 2>/dev/null; then
            printf '%s\n' "$pid"
        else
            case $(cat "/proc/$pid/comm" 2>/dev/null) in
                srun | sbatch | salloc | scancel | squeue | sinfo | scontrol | sacct | sacctmgr) printf '%s\n' "$pid" ;;
            esac
        fi
    done
}

cluster_sweep() {
    local signal strays
    for signal in TERM KILL KILL; do
        strays=$(cluster_strays)
        [[ $strays ]] || return 0
        # shellcheck disable=SC2086
        kill -s "$signal" $strays 2>/dev/null || true
        # shellcheck disable=SC2086
        kill -s CONT $strays 2>/dev/null || true
        wait_until 2 cluster_no_strays || true
    done
    cluster_no_strays || cluster_fail "processes that do not die: $(cluster_strays | tr '\n' ' ')"
}

cluster_no_strays() { [[ -z $(cluster_strays) ]]; }

# Empty cgroups that a killed slurmd could not remove any more.
cluster_remove_cgroups() {
    local i root
    [[ $opt_confine ]] || return 0
    for ((i = 1; i <= opt_nodes; i++)); do
        for root in /sys/fs/cgroup/*/slurm_"$opt_prefix$i"; do
            [[ -d $root ]] || continue
            find "$root" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        done
    done
}

cluster_status() {
    local name pid state answers=''
    [[ -e $CLUSTER/.adloader-cluster ]] || cluster_fail "no cluster in $CLUSTER" || return
    for name in $(proc_names); do
        if pid=$(proc_pid "$name"); then
            state=running
            [[ $(proc_state "$pid") == T ]] && state=frozen
            [[ $name == slurmctld && $state == running ]] && answers=yes
        else
            pid=-
            state=dead
        fi
        printf '%-14s %-8s %s\n' "$name" "$state" "$pid"
    done
    [[ $answers ]] && cluster_run sinfo -N -o '%10N %10T %C' 2>/dev/null
    return 0
}

# One daemon: cluster_daemon NAME start|stop|restart|kill|freeze|thaw|reload
cluster_daemon() {
    local name=$1
    case $2 in
        start)
            if [[ $name == adloaderctld ]]; then
                cluster_start_controller
            else
                proc_respawn "$name"
                [[ $name == munged ]] && cluster_ready munged 10 cluster_munge_works
                return 0
            fi
            ;;
        stop) proc_stop "$name" ;;
        restart) cluster_daemon "$name" stop && cluster_daemon "$name" start ;;
        kill)
            proc_signal "$name" KILL || cluster_fail "$name does not run" || return
            wait_until 5 proc_gone "$name"
            ;;
        freeze) proc_signal "$name" STOP || cluster_fail "$name does not run" ;;
        thaw) proc_signal "$name" CONT || cluster_fail "$name does not run" ;;
        reload) proc_signal "$name" HUP || cluster_fail "$name does not run" ;;
        *) cluster_fail "what is '$2'? start, stop, restart, kill, freeze, thaw or reload" ;;
    esac
}
