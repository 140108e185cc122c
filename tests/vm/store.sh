# shellcheck shell=bash
# What the many-core test machine and the matrix of Slurm versions (../matrix) are made of, kept in one
# folder and made once: a Debian root with Slurm and compilers, a disk image of it, a kernel, a QEMU, and
# adloader built for that root. Packages come from where the host's own apt gets them.
#
#   $store/root-RELEASE/  disk-RELEASE.ext4  kernel/vmlinuz  qemu/ (only with --qemu trixie)
#   $store/build-RELEASE[-COMMIT]/{source,objects,install}    $store/run/PID (a running machine)

# Who sources this may set these before.
store=${store:-${ADLOADER_VM:-/var/tmp/adloader-vm}}
store_name=${store_name:-machine}
declare -p store_groups >/dev/null 2>&1 || store_groups=(build cluster)
store_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
store_top=$(cd "$store_here/../.." && pwd)
# shellcheck source-path=SCRIPTDIR source=../../scripts/packages.sh
. "$store_top/scripts/packages.sh"

store_say() { printf '%s: %s\n' "$store_name" "$*" >&2; }

store_fail() {
    store_say "$*"
    return 1
}

# store_logged LOG COMMAND...: quiet, unless it fails
store_logged() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 20 "$log" >&2
        store_fail "'$1' failed; the whole log is $log"
    }
}

# One process at a time makes things; who comes second finds them made.
store_lock() {
    mkdir -p "$store/log" || return
    exec 8>"$store/lock"
    flock -w 1800 8 || store_fail "another process has been making $store for half an hour"
}

store_unlock() { exec 8>&-; }

# Lines of a sources.list for release $1, from the archives that the host's apt uses for Debian. The
# unstable release has neither updates nor security fixes of its own.
store_sources() {
    local release=$1 host
    host=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(COMPONENT)' 'Created-By: Packages' |
        awk -F'|' -v host="$host" -v release="$release" '
            $1 == "Debian" && $4 == "main" && index($2, host) == 1 {
                suffix = substr($2, length(host) + 1)
                if (release == "sid" && suffix != "")
                    next
                line = "deb " $3 " " release suffix " main"
                if (!(line in seen)) { seen[line] = 1; print line }
            }'
}

# The host's way to the archives, as mmdebstrap's options.
store_apt_options() { apt-config dump | awk -F'"' '/^Acquire::(http|https|ftp)::[Pp]roxy/ { print "--aptopt=" $0 }'; }

# store_bootstrap RELEASE FOLDER VARIANT PACKAGE...   A mirror may be an old state of the archive, which says
# of itself that it is out of date; its signature is looked at all the same.
store_bootstrap() {
    local release=$1 folder=$2 variant=$3 sources
    local -a options
    shift 3
    sources=$(store_sources "$release")
    [[ $sources ]] || store_fail "the host's apt knows no Debian archive (run apt-get update)" || return
    mapfile -t options < <(store_apt_options)
    rm -rf "$folder.new"
    printf '%s\n' "$sources" >"$store/log/sources.list"
    store_say "making a root of Debian $release in $folder (minutes)"
    store_logged "$store/log/$(basename "$folder").log" \
        mmdebstrap --mode=root --variant="$variant" --include="$(IFS=, && echo "$*")" "${options[@]}" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --customize-hook='rm -rf "$1"/etc/apt/sources.list* "$1"/var/lib/apt/lists/* "$1"/etc/resolv.conf' \
        "$release" "$folder.new" "$store/log/sources.list" || return
    rm -rf "$folder"
    mv "$folder.new" "$folder"
}

store_root_packages() {
    local group
    for group in "${store_groups[@]}"; do
        packages_of "$group"
    done
    echo libcmocka-dev python3 iproute2 mount xz-utils
}

# A root in which a package is missing that the list has got since is made anew.
store_root() {
    local release=$1 folder=$store/root-$1
    local -a packages missing
    read -r -d '' -a packages < <(store_root_packages && printf '\0')
    if [[ -e $folder ]]; then
        mapfile -t missing < <(DPKG_ADMINDIR=$folder/var/lib/dpkg packages_missing "${packages[@]}")
        ((${#missing[@]})) || return 0
        store_say "the root in $folder lacks ${missing[*]}"
    fi
    store_bootstrap "$release" "$folder" minbase "${packages[@]}"
}

# The image that the machine boots from; what a run changes in it is thrown away.
store_disk() {
    local release=$1 disk=$store/disk-$1.ext4 root=$store/root-$1
    [[ $store_here/guest-init -nt $disk || $root -nt $disk ]] || return 0
    install -m 755 "$store_here/guest-init" "$root/sbin/guest-init" && mkdir -p "$root/mnt/in" "$root/mnt/out" || return
    rm -f "$disk.new"
    store_logged "$store/log/disk-$release.log" \
        /sbin/mke2fs -q -t ext4 -O '^has_journal' -E root_owner=0:0,lazy_itable_init=1 -m 0 -d "$root" "$disk.new" 3G &&
        mv "$disk.new" "$disk"
}

# Debian's own kernel for clouds: it has the disk driver and ext4 built in, so no initrd is needed.
store_kernel() {
    local package
    [[ ! -e $store/kernel/vmlinuz ]] || return 0
    package=$(apt-cache search --names-only '^linux-image-6\.1\..*-cloud-amd64$' | awk '{ print $1 }' | sort -V | tail -n 1)
    [[ $package ]] || store_fail "the host's apt offers no linux-image-6.1.*-cloud-amd64; put a kernel with NVMe and ext4 built in at $store/kernel/vmlinuz" || return
    rm -rf "$store/kernel.new" && mkdir -p "$store/kernel.new" || return
    (cd "$store/kernel.new" &&
        store_logged "$store/log/kernel.log" apt-get -q -o APT::Sandbox::User=root download "$package" &&
        dpkg-deb -x "$package"_*.deb . && mv "boot/vmlinuz-"* vmlinuz && rm -rf lib usr ./*.deb) &&
        mv "$store/kernel.new" "$store/kernel"
}

# ---- QEMU: the host's, or a later one from a root of its own ----

store_qemu_root() {
    [[ ! -e $store/qemu ]] || return 0
    store_bootstrap trixie "$store/qemu" apt qemu-system-x86 seabios
}

# The words that start QEMU, one a line.
store_qemu_words() {
    local root=$store/qemu lib=$store/qemu/usr/lib/x86_64-linux-gnu
    if [[ $1 == host ]]; then
        echo qemu-system-x86_64
    else
        printf '%s\n' env "QEMU_MODULE_DIR=$lib/qemu" "$root/lib64/ld-linux-x86-64.so.2" --library-path "$lib" \
            --argv0 qemu-system-x86_64 "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios"
    fi
}

# ---- adloader, built in the root for the root ----

# Run a shell script inside the root, apart from the host: mounts, processes, names and network are its
# own, and with its end all that it started ends. FOLDER is /mnt/build there; $store_shared, if set,
# /mnt/shared. The address that is not loopback is what makes getaddrinfo() give any.
store_in_root() {
    local release=$1 folder=$2 script=$3
    mkdir -p "$store/root-$release/mnt/build" "$store/root-$release/mnt/shared" || return
    unshare --mount --pid --uts --ipc --net --fork --kill-child --propagation private sh -euc '
        mount --bind "$1" "$1" # a root in its own right, in which mounts can be set apart once more
        mount --bind "$2" "$1/mnt/build"
        [ ! -d "$4" ] || mount --bind -o ro "$4" "$1/mnt/shared"
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs -o mode=755 run "$1/run"
        mount -t tmpfs -o mode=1777 tmp "$1/tmp"
        ip link set lo up
        ip address add 10.77.0.1/32 dev lo
        hostname adloader
        printf "127.0.0.1 localhost\n10.77.0.1 adloader\n" >"$1/etc/hosts"
        mkdir -p "$1/mnt/host"
        cd "$1"
        pivot_root . mnt/host # not chroot: who enters a mount namespace, as Slurm does for steps, would leave it
        umount -l /mnt/host
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C sh -euc "$3"' \
        sh "$store/root-$release" "$folder" "$script" "${store_shared:-}" 7>&- 8>&-
}

# What git knows of the tree (work in progress included), or all of it where there is no git.
store_list_sources() {
    cd "$store_top" || return
    git ls-files -z --cached --others --exclude-standard 2>/dev/null |
        while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done
}

store_copy_sources() {
    local target=$1
    mkdir -p "$target" || return
    if [[ -e $store_top/.git ]]; then
        (store_list_sources | tar -C "$store_top" --null -T - -c) | tar -C "$target" -x
    else
        tar -C "$store_top" --exclude='./build*' -c . | tar -C "$target" -x
    fi
}

# The folder in which release $1 builds: the tree as it is, or commit $2 of it.
store_build_folder() { echo "$store/build-$1${2:+-$2}"; }

# store_build RELEASE [COMMIT]
store_build() {
    local release=$1 commit=${2:-} folder
    folder=$(store_build_folder "$release" "$commit")
    if [[ $commit ]]; then
        [[ ! -e $folder/complete ]] || return 0
        mkdir -p "$folder/source" && git -C "$store_top" archive "$commit" | tar -C "$folder/source" -x || return
    else
        store_copy_sources "$folder/source" || return
    fi
    store_logged "$store/log/$(basename "$folder").log" store_in_root "$release" "$folder" '
        cd /mnt/build/source
        [ -x configure ] && [ configure -nt configure.ac ] || autoreconf -i
        mkdir -p ../objects && cd ../objects
        [ -e config.status ] || ../source/configure --prefix=/opt/adloader --sysconfdir=/etc CFLAGS="-O2 -g"
        make -j"$(nproc)"
        make DESTDIR=/mnt/build/install install' && : >"$folder/complete"
}

# Everything that a machine of release $1 with QEMU $2 needs, with adloader as of commit $3 or the tree.
store_make() {
    local release=$1 qemu=$2 commit=$3
    store_lock || return
    store_host_packages "$qemu" && store_root "$release" && store_disk "$release" && store_kernel &&
        { [[ $qemu == host ]] || store_qemu_root; } && store_build "$release" "$commit" || return
    store_unlock
}

store_host_packages() {
    local -a wanted=(mmdebstrap e2fsprogs iproute2) missing
    # qemu-system-x86 brings the libraries that a later QEMU needs nothing of
    [[ $1 != host ]] || wanted+=(qemu-system-x86 seabios)
    mapfile -t missing < <(packages_missing "${wanted[@]}")
    ((${#missing[@]})) || return 0
    store_say "installing ${missing[*]}"
    DEBIAN_FRONTEND=noninteractive store_logged "$store/log/packages.log" \
        apt-get install -q -y --no-install-recommends "${missing[@]}"
}
