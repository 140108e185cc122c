# shellcheck shell=bash
# The one place that names the Debian packages which building, testing and trying adloader needs,
# and that installs the missing ones without starting any service of theirs.

# The packages of a group.
packages_of() {
    case $1 in
        build) # the tools, a C library to build against, what configure looks for
            echo gcc libc6-dev make autoconf automake libtool pkg-config \
                libslurm-dev libhwloc-dev libjson-c-dev libmunge-dev libevent-dev libinih-dev libjpeg62-turbo-dev
            ;;
        cluster) # a private cluster: Slurm, munge, and what the scripts around it call
            echo slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge \
                procps util-linux hostname jq
            ;;
        check) # what the tests need besides: unit tests, accounting, a program that answers nonsense
            echo libcmocka-dev xz-utils socat slurmdbd slurm-wlm-mysql-plugin mariadb-server
            ;;
        lint) # ./check alone: a second compiler, linters
            echo clang mandoc shellcheck
            ;;
        pytorch) # what examples/train.py needs; tests that run it skip without
            echo python3-torch python3-torchvision python3-pil python3-numpy
            ;;
        *)
            echo "packages: no group '$1'" >&2
            return 1
            ;;
    esac
}

packages_missing() {
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            printf '%s\n' "$package"
    done
}

packages_policy=/usr/sbin/policy-rc.d
packages_mark="# put here by adloader's scripts/packages.sh while it installs; may be removed"

# Debian starts a service as soon as it is installed, unless this file forbids it. One that an
# administrator put there is left alone.
packages_forbid_services() {
    if [[ ! -e $packages_policy ]]; then
        printf '%s\n' '#!/bin/sh' "$packages_mark" 'exit 101' >"$packages_policy"
        chmod 755 "$packages_policy"
    fi
}

packages_allow_services() {
    if grep -qsxF "$packages_mark" "$packages_policy"; then
        rm -f "$packages_policy"
    fi
}

# Install what is missing of the named groups. Says nothing if nothing is.
packages_install() {
    local -a wanted=() missing
    local group log status=0
    for group in "$@"; do
        read -r -a missing < <(packages_of "$group")
        wanted+=("${missing[@]}")
    done
    packages_allow_services # left over from an interrupted run
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "This is no Debian: install what corresponds to: ${wanted[*]}" >&2
        return 0
    fi
    mapfile -t missing < <(packages_missing "${wanted[@]}")
    ((${#missing[@]})) || return 0
    if ((EUID != 0)); then
        echo "missing packages: ${missing[*]} (run as root to have them installed)" >&2
        return 1
    fi
    echo "Installing ${#missing[@]} packages: ${missing[*]}"
    log=$(mktemp)
    packages_forbid_services
    (
        trap packages_allow_services EXIT
        trap 'exit 130' INT TERM
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q &&
            apt-get install -q -y --no-install-recommends "${missing[@]}"
    ) >"$log" 2>&1 </dev/null || status=$?
    if ((status)); then
        echo "apt-get failed; its last words:" >&2
        tail -n 20 "$log" >&2
    fi
    rm -f "$log"
    return "$status"
}
