#!/bin/sh
# Makes a base image of Debian's packages, for machines that reach no image registry: base-image.sh FOLDER [MIRROR]
# MIRROR is the one that apt uses on this machine unless given. FOLDER receives base.tar, to be used as `FROM scratch`
# with `ADD base.tar /`. Needs root and debootstrap.
set -eu
folder=$1
mirror=${2:-$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | sed -n 1p)}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3.11-minimal,libpython3.11-stdlib,ca-certificates \
    bookworm "$root" "$mirror" >"$folder/debootstrap.log"
ln -s python3.11 "$root/usr/bin/python3"
# Package lists, documents and translations are half of the size, and nothing in the image reads them.
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/* "$root"/var/log/* \
    "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/usr/share/i18n/* \
    "$root"/usr/share/info/* "$root"/usr/lib/*-linux-gnu/gconv "$root"/dev/* "$root"/debootstrap
tar --sort=name --numeric-owner -C "$root" -cf "$folder/base.tar" .
