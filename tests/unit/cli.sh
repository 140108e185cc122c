#!/bin/sh
# The adloader tool against a fake controller (fake_ctld.c): tables, --json, filters, and everything
# that a controller can do wrong.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adloader=$ADL_BUILDDIR/adloader
fake=$ADL_BUILDDIR/fake_ctld
data=$ADL_SRCDIR/tests/unit/data/cli
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-cli.XXXXXX") || exit 99
fake_pid=
munged_pid=
trap 'stop_fake; [ -z "$munged_pid" ] || { kill "$munged_pid"; wait "$munged_pid"; }; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
unset ADLOADER_CONTROLLER

stop_fake()
{
    [ -z "$fake_pid" ] || { kill "$fake_pid"; wait "$fake_pid"; } 2> /dev/null
    fake_pid=
}

# start_fake ADDRESS MODE...: returns when it listens; $port is its TCP port
start_fake()
{
    stop_fake
    : > "$work/fake.log"
    "$fake" "$@" > "$work/fake.log" 2>&1 &
    fake_pid=$!
    for _ in $(seq 100); do
        port=$(sed -n 's/^ready //p' "$work/fake.log")
        [ -n "$port" ] && return
        sleep 0.05
    done
    echo "Bail out! the fake controller does not start"
    exit 1
}

# call ARGUMENTS...: $status, $out and $err
call()
{
    timeout 30 "$adloader" "$@" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

socket=unix:$work/ctl
ask="--controller=$socket"

# ---- the command line ---------------------------------------------------------------------

call --help
is $status 0 "--help succeeds"
for sub in status top explain topology; do
    like "$out" "^  $sub " "--help lists $sub"
    call $sub --help
    is $status 0 "$sub --help succeeds"
    like "$out" "^Usage: adloader $sub " "and says how it is used"
    call --help
done
call --version
like "$out" '^adloader [0-9]+\.[0-9]' "--version"
call
is $status 2 "no subcommand: wrong usage"
call statsu
is "$status" 2 "an unknown subcommand: wrong usage"
like "$err" "no subcommand 'statsu'\. Did you mean status\?" "with the nearest one"
call xyzzy
unlike "$err" "Did you mean" "without one where none is near"
call status --jsno
is $status 2 "an unknown option: wrong usage"
like "$err" "no option '--jsno'\. Did you mean --json\?" "with the nearest one"
mkfifo "$work/pipe"
call topology --export "$work/pipe"
is "$status" 1 "topology --export to what is no regular file is refused"
like "$err" "no regular file" "with the reason"
is "$(stat -c %F "$work/pipe")" fifo "and what is there is left alone"
call topology --export "$work/none/"
is "$status" 1 "topology --export to a folder's name is refused"
is "$(ls -d "$work/none" 2>/dev/null)" "" "and makes no folder"
call topology --exprot=x
like "$err" "'--exprot=x'\. Did you mean --export\?" "a subcommand's own options are found, too"
call --exprot x topology
like "$err" "before the subcommand" "an option of a subcommand before it is refused"
call status --json=3
like "$err" "--json takes no value" "a flag takes no value"
call status --node
like "$err" "--node needs a value" "an option with a value needs one"
call status extra
is $status 2 "an argument too many"
call explain
like "$err" "explain needs JOB" "an argument too few"
for job in x 12. .0 12.0.1 12.0/../.. -- 12345678901; do
    call explain "$ask" -- "$job"
    is $status 2 "explain '$job': wrong usage"
done
call status --job "12; rm"
is $status 2 "--job is checked"
for address in unix:relative : host: host:0 host:65536 host:1x ::1:5 '[::1' "unix:/$(printf %0200d 0)"; do
    call status --controller "$address"
    is $status 2 "--controller $(echo "$address" | cut -c-20): wrong usage"
done

# ---- no controller ------------------------------------------------------------------------

call status "$ask"
is $status 1 "no socket: failure"
like "$err" "no controller at $socket: No such file.*Is adloaderctld running.*--controller" \
    "it says what failed, where, and what to do"
is "$out" "" "and prints nothing to standard output"
call status --controller 127.0.0.1:1
like "$err" "no controller at 127.0.0.1:1: Connection refused" "nobody listens on TCP"
call status --controller host.invalid
like "$err" "no controller at host.invalid:[0-9]+: " "a host that does not exist, default port"
ADLOADER_CONTROLLER=unix:$work/elsewhere call status
like "$err" "no controller at unix:$work/elsewhere" "the environment names the controller"
ADLOADER_CONTROLLER=unix:$work/elsewhere call status "$ask"
like "$err" "no controller at $socket" "but --controller goes first"
echo "ControllerSocket=$work/configured" > "$work/conf"
call status --config "$work/conf"
like "$err" "no controller at unix:$work/configured" "the configuration names it otherwise"
echo "ControllerSokcet=/x" > "$work/conf"
call status --config "$work/conf"
is $status 1 "a bad configuration: failure"
like "$err" "ControllerSokcet" "with the offending key"

# ---- status -------------------------------------------------------------------------------

start_fake "$socket" answer "$data/status.json"
call status "$ask"
is $status 0 "status succeeds"
is "$err" "" "without a complaint"
like "$out" '^adloaderctld 0\.1\.0, up 1 d 2 h, policy gpu-busy, guarantee own, 3 members on 2 nodes$' \
    "who answered"
like "$out" '^n1 +known +28 +2 +1-6,8-13 +- +27$' "a node's row"
like "$out" '^12\.0 +n1 +managed +6 -> 8 +2 from 13\.0 +- +1-6,9-10 +7\.62 +97 % +2310\.4 +gpu-bound$' \
    "a borrower's row"
like "$out" '^13\.0 +n1 +managed +6 -> 4 +- +2 to 12\.0 +8,11-13 +3\.10 +- +- +unknown$' \
    "a lender's row, unknown numbers as -"
like "$out" '^14\.batch +n2 +learning +3 +- +- +1-3 +- +- +- +unknown$' "a member that only learns"
is "$(sed -n 2p "$work/fake.log")" "query status - -" "the question asked"
call status "$ask" --job 12
like "$out" '^12\.0 ' "--job 12 shows 12.0"
unlike "$out" '^1[34]\.|^n2' "and no other job and node"
is "$(tail -1 "$work/fake.log")" "query status 12 -" "the job is part of the question"
call status "$ask" --job 12.0
like "$out" '^12\.0 ' "--job 12.0 shows it, too"
call status "$ask" --job 1
unlike "$out" '^1[234]\.' "--job 1 is not 12"
is $status 1 "a job that is not there is a failure"
like "$err" 'no running step of job 1 with --adloader is known' "and is said in words"
call status "$ask" --node NOPE
is $status 1 "so is a node"
like "$err" 'no node NOPE is known' "in words, too"
is "$out" "" "and no empty table"
call status "$ask" --node NOPE --json
is $status 1 "with --json as well"
like "$out" '"error": *"no node NOPE is known' "in the document"
call status "$ask" --node n2
like "$out" '^14\.batch' "--node n2 shows what is there"
unlike "$out" '^1[23]\.0|^n1' "and nothing else"
like "$(tail -1 "$work/fake.log")" '^query status - n2$' "the node is part of the question"
call status "$ask" --json
is $status 0 "--json succeeds"
same='import json,sys; a=json.load(open(sys.argv[1])); b=json.load(open(sys.argv[2])); sys.exit(a!=b)'
if command -v python3 > /dev/null; then
    python3 -c "$same" "$data/status.json" "$work/out"
    result $? "--json passes the document through"
    call status "$ask" --json --job 13
    python3 -c 'import json,sys; d=json.load(open(sys.argv[1]))
sys.exit([m["id"] for m in d["members"]] != ["13.0"] or [n["name"] for n in d["nodes"]] != ["n1"])' "$work/out"
    result $? "filtered by --job"
    call --json status "$ask" --node n2
    python3 -c 'import json,sys; d=json.load(open(sys.argv[1]))
sys.exit([m["id"] for m in d["members"]] != ["14.batch"] or [n["name"] for n in d["nodes"]] != ["n2"])' "$work/out"
    result $? "filtered by --node"
else
    skip "--json passes the document through" "no python3 to compare with"
fi
sed 's/"cpus": "9-10"/"cpus": "9"/' "$data/status.json" > "$work/doc"
start_fake "$socket" answer "$work/doc"
call status "$ask"
like "$out" '^12\.0 .* 2 from 13\.0, pool +- ' "a core that no member lent comes from the pool"
start_fake "$socket" answer "$data/status.json"
call top "$ask"
like "$out" '^12\.0 +n1 ' "top prints once where there is no terminal"
if command -v script > /dev/null; then
    script=$(command -v script)
    # q comes when it has asked twice (beside the call before), or after 15 s
    (for _ in $(seq 150); do
        [ "$(grep -c '^query' "$work/fake.log")" -ge 3 ] && break
        sleep 0.1
    done
        printf q
        sleep 1) |
        TERM=xterm timeout 20 "$script" -qec "$adloader top $ask --interval 0.5; stty -a < /dev/tty | tr ';' '\n' | grep -E ' echo| icanon'" /dev/null > "$work/out" 2>&1
    is $? 0 "top in a terminal ends on q"
    out=$(tr -d '\r' < "$work/out")
    like "$out" '12\.0 +n1 ' "it showed the table"
    like "$out" "$(printf '\033')\\[\\?1049l" "and left the second screen"
    like "$out" '(^| )icanon' "the terminal is as it was"
    like "$(grep -c '^query' "$work/fake.log")" '^([3-9]|[1-9][0-9]+)$' "it asked more than once"
    for term in dumb ''; do
        TERM=$term timeout 20 "$script" -qec "$adloader top $ask" /dev/null < /dev/null > "$work/out" 2>&1
        is $? 0 "TERM='$term': top prints once"
        is "$(grep -c "$(printf '\033')" "$work/out")" 0 "without an escape sequence"
        like "$(cat "$work/out")" '12\.0 +n1 ' "but with the table"
    done
else
    skip "top in a terminal" "no script(1)"
fi

# ---- explain ------------------------------------------------------------------------------

start_fake "$socket" answer "$data/explain.json"
call explain 12 "$ask"
is $status 0 "explain succeeds"
is "$(sed -n 2p "$work/fake.log")" "query explain 12 -" "the question asked"
like "$out" '^Step 12\.0 on node n1, running for 1 h 2 min$' "which step"
like "$out" 'own CPUs +0-6 \(7 CPUs\), of them for main threads: 0 \(1 CPU\)$' "own CPUs"
like "$out" 'loaders on +1-6,9-10 \(8 CPUs\)$' "the loaders' CPUs"
like "$out" 'borrowed +9-10 \(2 CPUs\) from 13\.0$' "who lent"
like "$out" 'verdict +gpu-bound: data is never late' "the verdict in words"
like "$out" 'predicted +2310\.4 samples/s; 2161\.0 samples/s with its own cores' "the rates"
like "$out" 'why +2 cores of 13\.0' "the reason"
like "$out" '^ +8 .*#+-* *\| +gpu +<- now *$|^ +8 .*#+-* *\| +loader +<- now *$' "the curve's present point"
like "$out" '^  at the margin: limited by (gpu|loader); a core more would bring \+35\.3; a core less would cost 51\.9 samples/s$' \
    "what one core more or less would change"
like "$out" '^ +6 .*<- own *$' "and the own one"
like "$out" 'flat +more than 10 cores would bring nothing: limited by io$' "from where on more cores bring nothing"
like "$out" '1 min 1 s +8 +1-6,9-10 +13\.0 leaves two cores idle' "the history"
call explain 12.0 "$ask" --json
if command -v python3 > /dev/null; then
    python3 -c "$same" "$data/explain.json" "$work/out"
    result $? "--json passes the document through"
fi
printf '{"controller":{},"members":[{"id":"7.0","node":"n"}]}' > "$work/doc"
start_fake "$socket" answer "$work/doc"
call explain 7 "$ask"
is $status 0 "a member of which nothing is known is no failure"
like "$out" "measured +nothing yet" "and that is said"
unlike "$out" "nan|curve|history" "nothing is made up"
sed 's/"loader_cores": [0-9]*/"loader_cores": 0/; s/"own_loader_cores": [0-9]*/"own_loader_cores": 0/; s/"rate_now": [0-9.]*/"rate_now": 0.0/' "$data/explain.json" > "$work/doc"
start_fake "$socket" answer "$work/doc"
call explain 12 "$ask"
like "$out" "predicted +not predicted: it has no core for its loaders alone" "no loader core: nothing is predicted"
unlike "$out" "predicted +0\.0" "least of all a rate of 0"
sed 's/"loader_tasks": 8/"loader_tasks": 0/; s/"failed_binds": 0/"failed_binds": 3/' "$data/explain.json" > "$work/doc"
start_fake "$socket" answer "$work/doc"
call explain 12 "$ask"
unlike "$out" "curve|^  predicted|demand" "without loader tasks there is nothing to predict"
like "$out" "masks +3 binds that did not hold" "binds that failed are said"
printf '{"controller":{},"members":[]}' > "$work/doc"
start_fake "$socket" answer "$work/doc"
call explain 7 "$ask"
is $status 1 "no member: failure"
like "$err" "job 7 has no running step with --adloader" "and it says so"
python3 -c 'import json
r=[float(min(c,20)) for c in range(200)]
m={"id":"8.0","node":"n","loader_tasks":1,"loader_cores":100,"own_loader_cores":30,"curve":{"unit":"relative","rate":r,"gpu_rate":20.0,"source":"measured","limit":["loader"]*200}}
print(json.dumps({"controller":{},"members":[m]}))' > "$work/doc" 2> /dev/null &&
    start_fake "$socket" answer "$work/doc" && call explain 8 "$ask" &&
    is "$(sed -n 's/^ *\([0-9][0-9]*\)  *[0-9.]* .*|.*|.*/\1/p' "$work/out" | xargs)" \
        "0 30 96 97 98 99 100 101 102 103 104 199" "a long curve is shown around the present point"
start_fake "$socket" refuse 6 "job 99 is not registered"
call explain 99 "$ask"
is $status 1 "an unknown job: failure"
like "$err" "job 99 is not registered.*adloader status" "said by the controller, with what to do"
start_fake "$socket" refuse 2 "uid 7 may not"
call status "$ask"
is $status 1 "a refusal: failure"
like "$err" "refused: uid 7 may not" "with its reason"

# ---- hostile answers ----------------------------------------------------------------------

# hostile NAME PATTERN: what was written to $work/doc is refused with a reason
hostile()
{
    start_fake "$socket" answer "$work/doc"
    call status "$ask"
    is $status 1 "$1: failure"
    like "$err" "$2" "$1: the reason"
    is "$out" "" "$1: nothing is printed"
}
printf '{"controller":{},"nodes":[],"members":' > "$work/doc"
hostile "a document cut off" 'malformed'
printf '[]' > "$work/doc"
hostile "an array" 'malformed: the document is not an object'
printf 'null' > "$work/doc"
hostile "null" 'malformed: the document'
printf 'hello' > "$work/doc"
hostile "no JSON" 'malformed'
printf '{"controller":{},"nodes":[]}' > "$work/doc"
hostile "no members" 'malformed: members is missing'
printf '{"controller":{},"nodes":[],"members":[{"id":"1.0","node":7}]}' > "$work/doc"
hostile "a number for a name" 'malformed: members\[0\]\.node is not a string'
printf '{"controller":{},"nodes":[],"members":[{"id":"1.0","node":"n","lent_to":[{"id":null}]}]}' > "$work/doc"
hostile "a loan without a name" 'malformed: members\[0\]\.lent_to\[0\]\.id is missing'
printf '{"controller":{},"nodes":[null],"members":[]}' > "$work/doc"
hostile "null for an object" 'malformed: nodes\[0\] is not an object'
printf '{"controller":{"uptime_s":NaN},"nodes":[],"members":[]}' > "$work/doc"
hostile "NaN for a number" 'malformed: controller\.uptime_s is not a number'
printf '{"controller":{"version":"a\\u0000b"},"nodes":[],"members":[]}' > "$work/doc"
hostile "a NUL in a text" 'malformed: controller\.version is not a string'
{ printf '{"controller":'; printf '%0.s[' $(seq 100); printf '%0.s]' $(seq 100); printf '}'; } > "$work/doc"
hostile "a deep document" 'malformed: nesting too deep'
head -c 6000000 /dev/zero | tr '\0' ',' > "$work/doc"
hostile "a document of too many values" 'malformed: the document is too large'
{ printf '{"controller":{},"nodes":[],"members":['; yes '[],' | head -1000000; printf '[]]}'; } > "$work/doc"
hostile "a document of too many arrays" 'malformed: the document is too large'
printf '{"controller":{"version":"\\u001b[2J\\nforged"},"nodes":[],"members":[{"id":"1.0\\u009b","node":"\\u001b]0;x\\u0007"}]}' > "$work/doc"
start_fake "$socket" answer "$work/doc"
call status "$ask"
is $status 0 "control characters in texts do no harm"
is "$(tr -d '\n -~' < "$work/out" | wc -c)" 0 "nothing but printable ASCII reaches the terminal"
printf '{"controller":{},"nodes":[],"members":[{"id":"1.0","node":"%0500d","own_cpus":"x","loader_cores":1e308,"age_s":-1}]}' 0 > "$work/doc"
start_fake "$socket" answer "$work/doc"
call status "$ask"
is $status 0 "absurd but well-typed values do no harm"
is "$(awk 'length > 700' "$work/out" | wc -l)" 0 "and long cells are cut"

printf 'HTTP/1.1 400 Bad Request\r\n\r\n' > "$work/doc"
start_fake "$socket" raw "$work/doc"
call status "$ask"
is $status 1 "another server: failure"
like "$err" "does not speak adloader's protocol" "and it says so"
printf '\377\377\377\360\001\021\000\000' > "$work/doc"
start_fake "$socket" rawanswer "$work/doc"
call status "$ask"
is $status 1 "a frame of 4 GB is not waited for"
start_fake "$socket" cut "$data/status.json"
call status "$ask"
like "$err" "closed the connection in the middle of its answer" "an answer cut off"
start_fake "$socket" close
call status "$ask"
like "$err" "closed the connection without an answer" "a connection that closes at once"
stop_fake

# ---- slow controllers: all three at once, since each takes the whole deadline -----------------

for mode in silent greet "drip $data/status.json"; do
    name=${mode%% *}
    # shellcheck disable=SC2086
    "$fake" "unix:$work/$name" $mode > "$work/$name.log" &
    eval "pid_$name=$!"
done
sleep 0.5
for name in silent greet drip; do
    (timeout 20 "$adloader" status --controller "unix:$work/$name" > "$work/$name.out" 2>&1
        echo $? > "$work/$name.rc") &
    eval "tool_$name=$!"
done
for name in silent greet drip; do
    eval "wait \$tool_$name; kill \$pid_$name; wait \$pid_$name" 2> /dev/null
    is "$(cat "$work/$name.rc")" 1 "a controller that is slow ($name): failure"
    like "$(cat "$work/$name.out")" "did not answer within 5 s" "and it says so ($name)"
done

# ---- TCP, with a munge credential from a private munged ----------------------------------------

start_munged()
{
    command -v munged > /dev/null || return 1
    mkdir "$work/munge" && chmod 755 "$work" "$work/munge" || return 1
    (umask 077 && head -c 1024 /dev/urandom > "$work/munge/key") || return 1
    munged --foreground --force --num-threads=2 --socket="$work/munge/socket" \
        --key-file="$work/munge/key" --log-file="$work/munge/log" --pid-file="$work/munge/pid" \
        --seed-file="$work/munge/seed" > "$work/munge/out" 2>&1 &
    munged_pid=$!
    for _ in $(seq 100); do
        munge -S "$work/munge/socket" -n > /dev/null 2>&1 && return
        kill -0 "$munged_pid" 2> /dev/null || break
        sleep 0.05
    done
    return 1
}
echo "MungeSocket=$work/munge/none" > "$work/conf"
start_fake tcp credential "$data/status.json" "$work/munge/socket"
call status --controller "127.0.0.1:$port" --config "$work/conf"
is $status 1 "no munged: failure"
like "$err" "cannot get a munge credential.*Is munged running" "and it says so"
if start_munged; then
    echo "MungeSocket=$work/munge/socket" > "$work/conf"
    call status --controller "127.0.0.1:$port" --config "$work/conf"
    is $status 0 "TCP with a credential"
    like "$(cat "$work/fake.log")" "^credential of uid $(id -u)$" "which names the caller"
    like "$out" '^12\.0 +n1 ' "the table"
    start_fake tcp answer "$data/status.json"
    call status --controller "127.0.0.1:$port" --config "$work/conf"
    is $status 0 "TCP where no credential is wanted"
else
    skip "TCP with a credential" "no munged to be had: $(tail -1 "$work/munge/out" 2> /dev/null)"
fi
stop_fake
done_testing
