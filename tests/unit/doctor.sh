#!/bin/sh
# adloader doctor on installations that are broken on purpose: each defect is found, named with the
# file that has it, told how to mend, and shows in the exit status. Slurm's commands are stand-ins
# here; files, folders, sockets, munged and controllers are real ones.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adloader=$ADL_BUILDDIR/adloader
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-doctor.XXXXXX") || exit 99
fake_pid=
munged_pid=
trap 'stop_fake; stop_munged; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
unset ADLOADER_CONTROLLER SLURM_CONF
export LC_ALL=C
root=no
[ "$(id -u)" -ne 0 ] || root=yes
chmod 755 "$work"
mkdir "$work/bin" "$work/plugins" "$work/run"
PATH=$work/bin:$PATH
version=$("$adloader" --version | cut -d' ' -f2)

# ---- stand-ins --------------------------------------------------------------------------------

cat > "$work/bin/scontrol" <<END
#!/bin/sh
case \$1 in
--version) echo "slurm-wlm \$(cat '$work/slurm-version')" ;;
*) [ -s '$work/slurm-config' ] || { echo 'scontrol: error: slurm_load_ctl_conf: Unable to contact slurm controller' >&2; exit 1; }
   cat '$work/slurm-config' ;;
esac
END
cat > "$work/bin/srun" <<END
#!/bin/sh
cat '$work/srun-help'
END
cat > "$work/bin/sacctmgr" <<END
#!/bin/sh
[ ! -e '$work/no-dbd' ] || { echo 'sacctmgr: error: Unable to contact slurmdbd' >&2; exit 1; }
echo 'cluster|host'
END
chmod 755 "$work/bin/scontrol" "$work/bin/srun" "$work/bin/sacctmgr"

# slurm KEY=VALUE...: what scontrol shows, over a good configuration
slurm()
{
    {
        echo "Configuration data as of 2026-01-01T00:00:00"
        for pair in "PluginDir=$work/plugins" "PlugStackConfig=$work/plugstack.conf" \
            TaskPlugin=task/cgroup,task/affinity ProctrackType=proctrack/cgroup SlurmdParameters='(null)' \
            AccountingStorageType=accounting_storage/slurmdbd SLURM_VERSION=22.05.8 ConstrainCores=yes "$@"; do
            printf '%-23s = %s\n' "${pair%%=*}" "${pair#*=}"
        done | awk '{ line[$1] = $0; if (!($1 in seen)) order[++n] = $1; seen[$1] = 1 } END { for (i = 1; i <= n; i++) print line[order[i]] }'
    } > "$work/slurm-config"
}

stop_fake()
{
    [ -z "$fake_pid" ] || { kill "$fake_pid"; wait "$fake_pid"; } 2> /dev/null
    fake_pid=
}

stop_munged()
{
    [ -z "$munged_pid" ] || { kill -CONT "$munged_pid"; kill "$munged_pid"; wait "$munged_pid"; } 2> /dev/null
    munged_pid=
}

# start_fake ADDRESS MODE...
start_fake()
{
    stop_fake
    "$ADL_BUILDDIR/fake_ctld" "$@" > "$work/fake.log" 2>&1 &
    fake_pid=$!
    for _ in $(seq 200); do
        port=$(sed -n 's/^ready //p' "$work/fake.log")
        [ -n "$port" ] && return
        sleep 0.05
    done
    echo "Bail out! the fake controller does not start"
    exit 1
}

start_munged()
{
    command -v munged > /dev/null || return 1
    mkdir -p "$work/munge" && chmod 755 "$work/munge" || return 1
    (umask 077 && head -c 1024 /dev/urandom > "$work/munge/key") || return 1
    munged --foreground --force --num-threads=2 --socket="$work/munge/socket" \
        --key-file="$work/munge/key" --log-file="$work/munge/log" --pid-file="$work/munge/pid" \
        --seed-file="$work/munge/seed" > "$work/munge/out" 2>&1 &
    munged_pid=$!
    for _ in $(seq 200); do
        munge -S "$work/munge/socket" -n > /dev/null 2>&1 && return
        kill -0 "$munged_pid" 2> /dev/null || break
        sleep 0.05
    done
    munged_pid=
    return 1
}

# plugin FILE NUMBER: a shared object with that plugin_version
plugin()
{
    printf '%s\n' 'const char plugin_name[] = "adloader";' "const unsigned plugin_version = $2;" > "$work/plugin.c"
    ${CC:-cc} -shared -fPIC -o "$1" "$work/plugin.c" 2> /dev/null
}

# A healthy installation.
healthy()
{
    slurm
    echo 22.05.8 > "$work/slurm-version"
    echo '      --adloader=[on|off|key=value,...]' > "$work/srun-help"
    echo "optional spank_adloader.so controller=unix:$work/run/ctl rundir=$work/run" > "$work/plugstack.conf"
    printf '%s\n' "ControllerSocket=$work/run/ctl" "StateDir=$work/state" ListenAddress=none > "$work/adloader.conf"
    mkdir -p "$work/state" "$work/run/node"
    chmod 755 "$work/state" "$work/run"
    chmod 700 "$work/run/node"
    [ -e "$work/run/topology.xml" ] || "$adloader" topology --export "$work/run/topology.xml" > /dev/null
}

# call ARGUMENTS...: $status, $out and $err
call()
{
    timeout 60 "$adloader" doctor --config "$work/adloader.conf" --role node,controller "$@" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

# finds LEVEL PATTERN NAME: a call finds that, and ends accordingly
finds()
{
    call
    like "$out" "^$1: $2" "$3"
    case $1 in
    problem) is $status 2 "... which is a problem" ;;
    warning) is $status 1 "... which is a warning" ;;
    esac
}

if ! plugin "$work/plugins/spank_adloader.so" 0x160508; then
    skip "adloader doctor" "no compiler to make a plugin with"
    done_testing
    exit
fi
sed "s/\"version\": *\"[^\"]*\"/\"version\": \"$version\"/" "$ADL_SRCDIR/tests/unit/data/cli/status.json" > "$work/status.json"
healthy
start_fake "unix:$work/run/ctl" answer "$work/status.json"

# ---- all is well --------------------------------------------------------------------------------

if [ $root = yes ]; then
    chmod 666 "$work/run/ctl"
    call
    is $status 0 "a healthy installation: exit status 0"
    is "$(printf '%s\n' "$out" | grep -vc -e '^ok: ' -e '^[0-9]* ok, 0 warnings, 0 problems$')" 0 "and nothing but ok"
    is "$err" "" "and nothing on standard error"
    before=$(find "$work/run" "$work/state" | sort)
    is "$(find "$work/run" "$work/state" | sort)" "$before" "nothing was changed"
else
    skip "a healthy installation" "not root, to whom it would have to belong"
fi
call --json
is "$(printf '%s' "$out" | jq -r '.roles | join(" ")')" "node controller" "--json: the roles"
is "$(printf '%s' "$out" | jq -r '[.findings[].level] | unique | map(select(. != "ok" and . != "warning" and . != "problem")) | length')" 0 \
    "--json: levels"
is "$(printf '%s' "$out" | jq '.ok_count + .warning_count + .problem_count == (.findings | length)')" true "--json: and they add up"
timeout 60 "$adloader" doctor --role cook > "$work/out" 2>&1
is $? 2 "an unknown role is refused"
like "$(cat "$work/out")" "login, node or controller" "with those that there are"
timeout 60 "$adloader" doctor --role login > "$work/out" 2>&1
unlike "$(cat "$work/out")" "StateDir|run directory|kernel" "a login host is not asked for what it does not need"

# ---- plugstack.conf and the plugin ----------------------------------------------------------------

rm "$work/plugstack.conf"
finds problem "plugstack.conf: .*optional spank_adloader.so" "no plugstack.conf"
echo "# optional spank_adloader.so" > "$work/plugstack.conf"
finds problem "plugstack.conf: $work/plugstack.conf.*has no line.*add the line" "no line in it"
mkdir -p "$work/plugstack.conf.d"
echo "include plugstack.conf.d/*" > "$work/plugstack.conf"
echo "required $work/plugins/spank_adloader.so controller=unix:$work/run/ctl rundir=$work/run" > "$work/plugstack.conf.d/adloader"
finds warning "plugstack.conf: $work/plugstack.conf.d/adloader line 1 says required.*optional instead" "required, in an included file"
echo "include plugstack.conf" > "$work/plugstack.conf"
finds problem "plugstack.conf: cannot include .*too deeply" "a file that includes itself"
rm -r "$work/plugstack.conf.d"
healthy
echo "optional spank_adloader.so controller=unix:$work/run/ctl rundir=$work/run" >> "$work/plugstack.conf"
finds warning "plugstack.conf: 2 lines name" "the line twice"
healthy
echo "optional $work/nowhere/spank_adloader.so rundir=$work/run controller=unix:$work/run/ctl" > "$work/plugstack.conf"
finds problem "plugin: there is no $work/nowhere/spank_adloader.so; install" "a path to nowhere"
echo "optional spank_adloader.so controler=unix:$work/run/ctl" > "$work/plugstack.conf"
finds problem "plugin's words: .*unknown word \"controler=.*known are controller=" "an unknown word"
echo "optional spank_adloader.so controller=here log=loud" > "$work/plugstack.conf"
finds problem "plugin's words: .*\"controller=here\" is not understood: controller= takes" "a bad value"
healthy
plugin "$work/plugins/spank_adloader.so" 0x180b05
finds problem "plugin: $work/plugins/spank_adloader.so is for Slurm 24.11, and this is 22.05.8.*build adloader" "built for another release"
echo '#!/bin/sh' > "$work/plugins/spank_adloader.so"
finds problem "plugin: .*spank_adloader.so is no shared object" "a script in its place"
plugin "$work/plugins/spank_adloader.so" 0x160508
head -c 900 "$work/plugins/spank_adloader.so" > "$work/cut" && cp "$work/cut" "$work/plugins/spank_adloader.so"
finds problem "plugin: .*spank_adloader.so is damaged" "a plugin cut short"
plugin "$work/plugins/spank_adloader.so" 0x160500
call
like "$out" "^ok: plugin: .*for Slurm 22.05; this is 22.05.8" "another point release will do"
if [ $root = yes ]; then
    chmod 775 "$work/plugins/spank_adloader.so"
    finds problem "plugin: .*can be changed by others than root" "a plugin that a group may write"
    chmod 755 "$work/plugins/spank_adloader.so"
fi
echo "      --other" > "$work/srun-help"
finds problem "loading: srun does not know --adloader" "Slurm does not take it"
healthy

# ---- Slurm ------------------------------------------------------------------------------------

: > "$work/slurm-config"
finds problem "slurm: scontrol show config fails: .*Unable to contact" "slurmctld is gone"
slurm TaskPlugin=task/none
finds problem "task plugin: TaskPlugin=task/none gives steps no CPUs" "no task plugin that binds"
slurm TaskPlugin=task/cgroup ConstrainCores=no
finds problem "task plugin: TaskPlugin=task/cgroup gives steps no CPUs" "task/cgroup that does not constrain"
slurm TaskPlugin=task/affinity ConstrainCores=no
call
like "$out" "^ok: task plugin: TaskPlugin=task/affinity" "task/affinity alone will do"
slurm ProctrackType=proctrack/pgid
finds warning "process tracking: proctrack/pgid.*set ProctrackType" "proctrack/pgid"
slurm AccountingStorageType=accounting_storage/none
finds warning "accounting: .*not slurmdbd" "records without slurmdbd"
slurm
: > "$work/no-dbd"
finds warning "accounting: slurmdbd does not answer: .*Unable to contact slurmdbd" "a slurmdbd that is down"
rm "$work/no-dbd"
echo SacctField=Comment >> "$work/adloader.conf"
slurm
finds warning "accounting: SacctField=Comment, but.*add job_comment" "comments that are not stored"
slurm AccountingStoreFlags=job_comment
call
like "$out" "^ok: accounting" "comments that are"
printf '#!/bin/sh\nsleep 100\n' > "$work/bin/srun"
healthy
finds warning "loading: not tried: srun did not end within" "a command that hangs does not hang the doctor"
printf '#!/bin/sh\nexec cat %s\n' "$work/srun-help" > "$work/bin/srun"

# ---- adloader.conf, folders, sockets ----------------------------------------------------------------

healthy
echo "LeaseTme=3" >> "$work/adloader.conf"
finds problem "adloader.conf: $work/adloader.conf is refused: .*LeaseTme" "an unknown key"
healthy
rmdir "$work/state"
: > "$work/state"
finds problem "StateDir: $work/state is no folder" "StateDir is a file"
rm "$work/state"
sed -i "s,^StateDir=.*,StateDir=$work/no/where," "$work/adloader.conf"
finds problem "StateDir: $work/no/where is not there, and cannot be made" "StateDir cannot be made"
healthy
if [ $root = yes ]; then
    chmod 777 "$work/state"
    finds problem "StateDir: others than root can write to $work/state; chown root and chmod 755" "StateDir that everybody may write"
    chmod 755 "$work/state"
    chmod 777 "$work/run"
    finds problem "run directory: mode 777 of $work/run lets others in.*chmod 755" "a run directory that everybody may write"
    chmod 700 "$work/run"
    finds problem "run directory: mode 700 of $work/run keeps users' programs" "one that nobody can enter"
    chmod 755 "$work/run" "$work/run/node"
    finds problem "run directory: mode 755 of $work/run/node lets others in.*chmod 700" "the agents' folder open to all"
    chmod 700 "$work/run/node"
    mv "$work/run/node" "$work/node" && ln -s "$work/node" "$work/run/node"
    finds problem "run directory: $work/run/node is a symbolic link" "a symbolic link in its place"
    rm "$work/run/node" && mv "$work/node" "$work/run/node"
    mkdir "$work/run/node/n1" && chmod 700 "$work/run/node/n1"
    printf 'adloader-cpuset 1\nversion2 0\nholder 4194303 1 %s\nlevel 0 /nowhere\n' "$(cat /proc/sys/kernel/random/boot_id)" \
        > "$work/run/node/n1/12.0.cpuset"
    finds warning "leftovers: a step daemon that was killed has left widened cpusets, on record in $work/run/node/n1" \
        "a record of a step daemon that was killed"
    chmod 660 "$work/run/ctl"
    finds warning "ControllerSocket: mode 660.*keeps users from asking" "a socket that users cannot reach"
    chmod 666 "$work/run/ctl"
    rm -r "$work/run/node/n1"
    python3 - "$work/run/step-12.0-n1.sock" <<'END' 2> /dev/null && {
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
END
        finds warning "leftovers: 1 socket of step daemons that were killed" "a socket that a killed step daemon has left"
        is "$(ls "$work/run/step-12.0-n1.sock")" "$work/run/step-12.0-n1.sock" "... and it is left there"
        rm "$work/run/step-12.0-n1.sock"
    }
else
    skip "modes and owners" "not root"
fi
echo 0123456789abcdef > "$work/run/topology.digest"
finds warning "topology: .*topology.xml is not what hwloc sees now; restart slurmd" "an old topology"
rm "$work/run/topology.xml" "$work/run/topology.digest"
finds warning "topology: .*is not there: all cores" "no topology exported"
healthy

# ---- the controller, munge --------------------------------------------------------------------------

stop_fake
finds problem "controller: no controller at unix:$work/run/ctl" "nobody listens"
rm -f "$work/run/ctl"
sed "s/\"version\": *\"[^\"]*\"/\"version\": \"0.0.9\"/" "$work/status.json" > "$work/old.json"
start_fake "unix:$work/run/ctl" answer "$work/old.json"
finds warning "controller: unix:$work/run/ctl is version 0.0.9, and this host has $version; install the same" "a controller of another version"
rm -f "$work/run/ctl"
start_fake "unix:$work/run/ctl" answer "$work/status.json"
# --controller and the environment go before the configuration, as with the other commands
sed -i "s,^ControllerSocket=.*,ControllerSocket=$work/run/none," "$work/adloader.conf"
finds problem "controller: no controller at unix:$work/run/none" "the configuration names another socket"
call --controller "unix:$work/run/ctl"
unlike "$out" "run/none" "--controller goes before it"
is "$(printf '%s\n' "$out" | grep -c '^ok: controller:')" 1 "and is asked once, being the agents' too"
ADLOADER_CONTROLLER=$work/run/ctl
export ADLOADER_CONTROLLER
call
unlike "$out" "run/none" "so does the environment"
is "$(printf '%s\n' "$out" | grep -c '^ok: controller:')" 1 "and is asked once"
sed -i "s,run/ctl,run/other," "$work/plugstack.conf"
call
like "$out" "^problem: controller: no controller at unix:$work/run/other" "the agents' is another one"
like "$out" "^ok: controller: unix:$work/run/ctl answers" "that of the environment is asked, too"
call --controller "unix:$work/run/none"
like "$out" "^problem: controller: no controller at unix:$work/run/none" "--controller goes before the environment"
unlike "$out" "run/ctl" "... which is not asked then"
ADLOADER_CONTROLLER=unix:relative
call
like "$out" "^problem: controller: ADLOADER_CONTROLLER unix:relative cannot be used" "an address that is none"
is $status 2 "is a problem"
ADLOADER_CONTROLLER=127.0.0.1:1
call
like "$out" "^(problem: munge|problem: controller: no controller at 127.0.0.1:1)" "one over TCP takes munge"
unset ADLOADER_CONTROLLER
healthy
sed -i "s,controller=,controller=unix:$work/run/none\,," "$work/plugstack.conf"
finds warning "controller: no controller at unix:$work/run/none" "one of two controllers is dead"
like "$out" "^ok: controller: unix:$work/run/ctl answers" "the other one answers"
like "$out" "^warning: controllers: .*controller=unix:$work/run/none,unix:$work/run/ctl, and adloader.conf Controllers=;" \
    "agents know of two controllers, and these not of each other"
echo "optional spank_adloader.so controller=127.0.0.1:1,127.0.0.1:2 munge_socket=$work/munge/socket rundir=$work/run" > "$work/plugstack.conf"
sed -i "s/^ListenAddress=.*/ListenAddress=127.0.0.1/" "$work/adloader.conf"
echo "Controllers=127.0.0.1:2,127.0.0.1:1" >> "$work/adloader.conf"
call
like "$out" "^warning: controllers: .*same order" "two controllers in another order"
sed -i 's/^Controllers=.*/Controllers=127.0.0.1:1,127.0.0.1:2/' "$work/adloader.conf"
call
like "$out" "^ok: controllers: " "two controllers, the same on both sides"
healthy
echo "optional spank_adloader.so controller=127.0.0.1:1 munge_socket=$work/munge/socket rundir=$work/run" > "$work/plugstack.conf"
finds problem "munge: no credential: .*munged runs here" "no munged"
if start_munged; then
    call
    like "$out" "^ok: munge: a credential was made and read" "munged runs"
    kill -STOP "$munged_pid"
    finds problem "munge: (munged at $work/munge/socket does not answer|no credential:)" "munged is stopped"
    stop_munged
else
    skip "munged runs" "no munged to be had"
fi
done_testing
